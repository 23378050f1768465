"""The judges that a folder carries: the package of one that is in a package, for any other its file and a name."""

import json
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement

from carried_in.lock import sha256_of
from localjudge import model_registry
from localjudge.errors import UsageError
from localjudge.local_models.model_parts import PART_ENDING, parts
from localjudge.model_registry import ModelFile

MODELS = "models"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@/+-]*")
"""What may be typed as a judge in any shell, and stand in any file."""


class CarriedJudge(NamedTuple):
    """A judge by the name that it has where it arrives: in a package, as a file, or neither if it is bundled."""

    name: str
    package: Requirement | None = None
    file: ModelFile | None = None

    @property
    def file_names(self) -> list[str]:
        """What its files are called in the folder: by the judge's name, and numbered as before if they are several."""
        if self.file is None:
            return []
        plain = re.sub(r"[^A-Za-z0-9_.-]", "-", self.name).removesuffix(".gguf")
        stem = re.sub(f"{PART_ENDING}$", "", plain)
        count = len(parts(self.file.path))
        numbered = [f"{stem}-{part:05d}-of-{count:05d}.gguf" for part in range(1, count + 1)]
        return numbered if count > 1 else [f"{stem}.gguf"]


def distinct(judges: Iterable[CarriedJudge]) -> tuple[CarriedJudge, ...]:
    """The judges, each once. Raises UsageError if two share a name, or would share a file in the folder.

    Capital and small letters count as the same: the folder may be carried on a disk that does not tell them apart.
    """
    taken: dict[str, CarriedJudge] = {}
    for judge in dict.fromkeys(judges):
        for place in (f"judge {judge.name}".casefold(), *(name.casefold() for name in judge.file_names)):
            first = taken.setdefault(place, judge)
            if first is not judge:
                raise UsageError(
                    f"the judges {first.name!r} and {judge.name!r} would be the same {place} in the folder",
                    hint="give one of them another name: --judge NAME=JUDGE",
                )
    return tuple(dict.fromkeys(taken.values()))


def judge_called(given: str) -> CarriedJudge:
    """A registered name, a path, a name that `localjudge models` lists; `NAME=` before it gives it another name.

    Raises UsageError for a name that cannot be one, ModelError for what cannot be found or is not what was pinned.
    """
    renamed = "=" in given and not Path(given).exists()
    own, source = given.split("=", 1) if renamed else ("", given)
    row = model_registry.registered().get(source)
    if row and row.package and not renamed:
        return CarriedJudge(source, package=Requirement(model_registry.requirement_of(row)))
    if row and model_registry.packaged_as(row.sha256) and not row.package and not renamed:
        return CarriedJudge(source)
    file = model_registry.find(source)
    name = own if renamed else file.name if Path(source).exists() else source
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be carried as the name of a judge", hint=f"give it one: --judge NAME={source}"
        )
    return CarriedJudge(name, file=file)


def put(judge: CarriedJudge, folder: Path) -> Iterator[Path]:
    """Copy a judge's file, and write the row of the registry that names it; what is there already is not copied."""
    if judge.file is None:
        return
    models = folder / MODELS
    models.mkdir(exist_ok=True)
    files = parts(judge.file.path)
    names = judge.file_names
    for source, name in zip(files, names, strict=True):
        target = models / name
        if not (target.is_file() and target.stat().st_size == source.stat().st_size and _same(source, target)):
            fresh = target.with_name(f".{name}.part")
            shutil.copyfile(source, fresh)
            fresh.replace(target)
        yield target
    row = models / f"{names[0]}.toml"
    row.write_text(_row(judge, judge.file, names[0]), encoding="utf-8")
    yield row


def _same(one: Path, other: Path) -> bool:
    return sha256_of(one) == sha256_of(other)


def _row(judge: CarriedJudge, file: ModelFile, name: str) -> str:
    known = model_registry.registered_as(file.sha256)
    values: dict[str, str | int | None] = {
        "name": judge.name,
        "file": f"{MODELS}/{name}",
        "sha256": file.sha256,
        "size": file.size,
        "licence": known.licence if known else None,
        "source": known.source if known and "://" in known.source else None,
        "profile": file.profile,
        "n_ctx": file.n_ctx,
        "note": file.note,
        "caution": file.caution,
    }
    written = (f"{key} = {_value(value)}\n" for key, value in values.items() if value)
    return "[[model]]\n" + "".join(written)


def _value(value: str | int) -> str:
    """As TOML: its strings are JSON's, but for the delete character, which has to be escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
