"""How programs lay out the models that they keep.

    Ollama         manifests/<host>/<namespace>/<model>/<tag>, JSON: the layer of the type below is blobs/sha256-<hex>
    Hugging Face   models--<org>--<repo>/snapshots/<commit>/<file>, a link to blobs/<sha256>; refs/main holds a commit
    others         <publisher>/<model>/<file>.gguf, or files side by side

What may not be looked at is asked about by `os.path`, which says no where `pathlib` raises.

Sources: Ollama's `types/model` and `manifest` packages, huggingface_hub's guide to its cache.
"""

import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from localjudge.errors import ModelError
from localjudge.local_models.found_model import Found, FoundModel, SkippedFile, models_in
from localjudge.local_models.model_parts import PART_ENDING, parts

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
