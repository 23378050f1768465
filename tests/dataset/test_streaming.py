import gzip
import hashlib
import json
import os
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge import DataError, InputError, Sample
from localjudge.dataset import load
from localjudge.progress import Progress

texts = st.sampled_from(["", "a", "b", "é", "\u2028"])
ids = st.none() | st.sampled_from(["1", " ", "row-d2d2d2d2d2d2", "x"])
values = st.none() | st.floats(allow_nan=False) | st.integers() | texts
meta = st.dictionaries(st.sampled_from("kl"), values, max_size=2)
optional = {"id": st.sampled_from("pq"), "score": st.floats(0, 1), "meta": meta}
contexts = st.none() | st.lists(
    st.fixed_dictionaries({"text": texts}, optional=optional), max_size=2
)
rows_of_any_kind = st.fixed_dictionaries(
    {"id": ids, "user_input": st.none() | texts, "retrieved_contexts": contexts}
)


def own_id(row: dict[str, Any]) -> object:
    return row["id"] if row["id"] and row["id"].strip() else object()


def said(sample: Sample) -> dict[str, Any]:
    fields = sample.model_dump(exclude_defaults=True)
    return {name: value for name, value in fields.items() if value != ""}


def sha256(value: object) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def ids_by_definition(rows: list[dict[str, Any]], contents: list[dict[str, Any]]) -> list[str]:
    """`row-` and 12 digits of the content's hash. Equal rows take the next free names."""
    own_ids = {row["id"] for row in rows if row["id"] and row["id"].strip()}
    used: Counter[str] = Counter()
    made = []
    for row, content in zip(rows, contents, strict=True):
        name = f"row-{sha256(content)[:12]}"
        free = [name, *(f"{name}-{number}" for number in range(2, 20))]
        free = [candidate for candidate in free if candidate not in own_ids]
        if row["id"] in own_ids:
            made.append(row["id"])
        else:
            made.append(free[used[name]])
            used[name] += 1
    return made


@given(rows=st.lists(rows_of_any_kind, min_size=1, max_size=8, unique_by=own_id))
def test_ids_and_fingerprint_match_their_definitions(rows: list[dict[str, Any]]) -> None:
    """Neither depends on the row order. A generated id avoids ids in the data."""
    contents = [
        {name: value for name, value in said(sample).items() if name != "id"}
        for sample in load(rows).samples
    ]
    rows.append(
        {
            "id": f"row-{sha256(contents[0])[:12]}",
            "user_input": "takes that name",
            "retrieved_contexts": None,
        }
    )
    contents.append({"user_input": "takes that name"})
    data = load(rows)
    assert [sample.id for sample in data.samples] == ids_by_definition(rows, contents)
    assert data.fingerprint == sha256(sorted(sha256(said(sample)) for sample in data.samples))


def test_a_duplicate_id_is_named_with_both_places(tmp_path: Path) -> None:
    for name, rows in (("a", [(1, 5), (1, "q"), (2, "q")]), ("b", [(2, "r"), (1, "r"), (2, "s")])):
        lines = [json.dumps({"id": number, "question": question}) for number, question in rows]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    data = load([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], skip_bad_rows=True)
    assert [sample.id for sample in data.samples] == ["1", "2"]
    again = "; ".join(f"{tmp_path}/b.jsonl:{line}" for line in (1, 2, 3))
    [problem] = data.problems[1:]
    assert problem.startswith(
        f"{again}: id: found the id '2' again (first at {tmp_path}/a.jsonl:3)"
    )


def test_passes_over_the_samples_do_not_disturb_each_other() -> None:
    data = load(
        [{"id": number, "question": "q" * number, "page": number} for number in range(1, 40)]
    )
    whole = tuple(Sample(id=str(number), user_input="q" * number) for number in range(1, 40))
    pairs = [(first, second) for first in data.samples for second in data.samples]
    assert pairs == [(first, second) for first in whole for second in whole]
    assert data.samples[7:9] == whole[7:9]
    assert data.column("page") == tuple(range(1, 40))


def peak_bytes(path: Path, rows: int) -> int:
    with path.open("w") as file:
        for number in range(rows):
            file.write(json.dumps({"question": f"Question {number}? " * 20, "page": number}) + "\n")
    tracemalloc.start()
    try:
        data = load(path)
        assert sum(1 for _ in data.samples) == len(data.samples) == rows
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_rows_are_not_kept_in_memory(tmp_path: Path) -> None:
    """A row of 400 characters takes less than 20 bytes at the peak."""
    peak_bytes(tmp_path / "warm.jsonl", 10)
    few = peak_bytes(tmp_path / "a.jsonl", 1_000)
    many = peak_bytes(tmp_path / "b.jsonl", 3_000)
    assert (many - few) / 2_000 < 20


class Replacing(Progress):
    """Replace a file by a copy when its 1,001 rows have been read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def rows(self, doing: str, done: int, total: int | None) -> None:
        """Replace the file after the last row."""
        if done == 1_001:
            copy = self._path.with_name("new")
            copy.write_bytes(self._path.read_bytes())
            status = self._path.stat()
            os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
            copy.replace(self._path)


def test_a_file_that_is_replaced_between_two_readings_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"question": "q"}\n' * 1_001))
    assert len(load(path).samples) == 1_001
    with pytest.raises(DataError, match=r"a\.jsonl\.gz changed"):
        load(path, progress=Replacing(path))


class Strange(str):
    """Text subclass, which no file contains."""


def test_extra_columns_of_python_programs_may_hold_anything() -> None:
    endless: list[Any] = []
    endless.append(endless)
    meta = {
        "page": 3,
        "writer": object(),
        "tag": Strange("t"),
        "pages": range(3),
        "deep": {"found": True, "x": {1}},
    }
    data = load([{"question": "q", "meta": meta, "endless": endless, "lambda": lambda: None}])
    assert [data.column(f"meta.{name}") for name in ("page", "tag", "deep.found")] == [
        (3,),
        ("t",),
        (True,),
    ]
    for name, kind in (
        ("meta.writer", "type object"),
        ("lambda", "type function"),
        ("endless", "list of 1"),
    ):
        with pytest.raises(InputError, match=f"{name} contains a .*{kind}"):
            data.column(name)
