"""The sound rows of all sources as samples: spooled one by one, with little kept of each in memory.

    row ──> JSON in the spool, its hash (32 bytes), its id's hash (16 bytes)

The ids that rows lack can be made when all rows are there: `row-` and 12 digits of the hash of what the row says, so
moving a row does not change its id. Rows with the same content are told apart by `-2`, `-3`, ... in their order; an id
that another row gives is left out.
"""

import hashlib
import marshal
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from localjudge.dataset.checks import DEEPEST
from localjudge.dataset.identity import Hashes, canonical, fingerprint_of, hash_of
from localjudge.dataset.problems import describe
from localjudge.dataset.spool import Spool, Spooled
from localjudge.types import CONTEXT_FIELDS, FieldName, Sample

_SHOWN = 12


def id_hash(identifier: str) -> bytes:
    """What is kept of an id: 16 bytes."""
    return hashlib.sha256(identifier.encode()).digest()[:16]


class SoundRows:
    """Takes the rows in their order, each as arguments of `Sample` and its extras.

    `ids_alone`, `contexts_each` and `nothing` are as in `Dataset`.
    """

    def __init__(self) -> None:
        self.ids_alone = 0
        self.contexts_each: tuple[int, int] | None = None
        self.nothing: dict[str, Counter[str]] = {}
        self._records = Spool()
        self._extras = Spool()
        self._hashes = Hashes(32)
        self._given = Hashes(16)
        self._made = array("Q")
        """Of each row without an id the digits that its id is made of."""
        self._numbers = array("I")
        """Of each row which of the rows with the same content it is; 0 where it gave its id."""
        self._has_text: dict[FieldName, bool] = {}

    def __len__(self) -> int:
        return len(self._records)

    def add(
        self, values: Mapping[str, Any], extras: Mapping[str, Any], nothing: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Add one row; `nothing` are the columns and the words of its values that say nothing."""
        for column, word in nothing:
            self.nothing.setdefault(column, Counter())[word] += 1
        fields = _stated(values)
        if (contexts := fields.get("retrieved_contexts")) is not None:
            fewest, most = self.contexts_each or (len(contexts), len(contexts))
            self.contexts_each = min(fewest, len(contexts)), max(most, len(contexts))
        if "id" in fields:
            self._given.append(id_hash(fields["id"]))
        else:
            digits = hash_of(fields).hex()[:_SHOWN]
            self._made.append(int(digits, 16))
            fields["id"] = f"row-{digits}"
        self._numbers.append(0 if values["id"] is not None else 1)
        record = canonical(fields)
        self._records.append(record)
        self._hashes.append(hash_of(fields) if "" in fields.values() else hashlib.sha256(record).digest())
        self._extras.append(_packed(extras))
        self._note_texts(fields)

    def repeated_ids(self) -> frozenset[bytes]:
        """What `id_hash` gives for ids that several rows gave."""
        return self._given.repeated()

    def complete_ids(self) -> None:
        """Number the rows whose made ids are the same, when all rows are there."""
        import numpy as np

        if not self._made:
            return
        lacking = np.flatnonzero(np.asarray(self._numbers))
        is_given = self._finder_of_given()
        digits, numbers = -1, count(1)
        for place in np.argsort(self._made, kind="stable"):
            if self._made[place] != digits:
                digits = self._made[place]
                name = f"row-{digits:0{_SHOWN}x}"
                numbers = count(1)
            number = next(number for number in numbers if not is_given(_numbered(name, number)))
            if number > 1:
                position = int(lacking[place])
                self._numbers[position] = number
                self._hashes.replace(position, hash_of(self.samples[position].model_dump(exclude_defaults=True)))

    def _finder_of_given(self) -> Callable[[str], bool]:
        if not len(self._given):
            return lambda _: False
        has = self._given.finder()
        return lambda identifier: has(id_hash(identifier))

    @property
    def samples(self) -> Sequence[Sample]:
        """The rows as samples."""
        numbers = self._numbers

        def read(position: int, record: bytes) -> Sample:
            sample = Sample.model_validate_json(record)
            if numbers[position] > 1:
                return sample.model_copy(update={"id": _numbered(sample.id, numbers[position])})
            return sample

        return Spooled(self._records, read)

    @property
    def extras(self) -> Sequence[dict[str, Any]]:
        """Of each row the columns that are not ours."""
        return Spooled(self._extras, lambda _, record: marshal.loads(record))

    @property
    def fingerprint(self) -> str:
        """Sha256 of the samples, as `identity` says."""
        return fingerprint_of(self._hashes)

    @property
    def without_text(self) -> frozenset[FieldName]:
        """Fields of contexts of which there are ids and not one text."""
        return frozenset(field for field, has_text in self._has_text.items() if not has_text)

    def _note_texts(self, fields: Mapping[str, Any]) -> None:
        ids_alone = False
        for field in CONTEXT_FIELDS:
            for context in fields.get(field, ()):
                self._has_text[field] = self._has_text.get(field, False) or "text" in context
                ids_alone = ids_alone or "text" not in context
        self.ids_alone += ids_alone


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


def _stated(values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a sample without nulls and defaults, as `model_dump(exclude_defaults=True)` gives them."""
    stated = {name: value for name, value in values.items() if value is not None}
    for field in CONTEXT_FIELDS:
        if field in stated:
            stated[field] = [
                {name: value for name, value in context.items() if value is not None and value != {}}
                for context in stated[field]
            ]
    return stated


def _packed(extras: Mapping[str, Any]) -> bytes:
    """The extras as bytes. In place of a value that no file holds stands what it is, in words: see `kept_words`."""
    try:
        return marshal.dumps(dict(extras))
    except ValueError:
        return marshal.dumps(_packable(extras, DEEPEST))


def kept_words(value: Any) -> str:
    """The value of an extra column in a few words, also of one that could not be kept itself."""
    return value[0].decode() if isinstance(value, tuple) else describe(value)


def _packable(value: Any, levels: int) -> Any:
    packable: Any
    match value:
        case Mapping() if levels:
            packable = {name: _packable(item, levels - 1) for name, item in value.items()}
        case str():
            packable = str.__str__(value)
        case bool() | int() | float():
            packable = value if isinstance(value, bool) else (int if isinstance(value, int) else float)(value)
        case _:
            packable = value
    try:
        marshal.dumps(packable)
    except ValueError:
        return (describe(value).encode(),)
    return packable
