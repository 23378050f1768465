import csv
import gzip
import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from localjudge import DataError, InputError, Sample
from localjudge.dataset import load
from localjudge.dataset.columns import ALIASES, LOOSE_NAMES
from localjudge.dataset.rows import is_placeholder
from localjudge.metrics import Context

pytestmark = pytest.mark.engine

Form = Callable[[list[Sample]], bytes]
FUZZ = settings(deadline=None, max_examples=150)
NAMES = sorted(
    {name for table in (ALIASES, LOOSE_NAMES) for names in table.values() for name in names}
)
ENDINGS = ["jsonl", "json", "csv", "tsv", "txt", "parquet", "jsonl.gz", ""]

any_text = st.text(st.characters(), max_size=20)  # lone surrogates included
any_scalar = st.none() | st.booleans() | st.integers() | st.floats() | any_text
any_value = st.recursive(
    any_scalar,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)
context_names = (
    "text",
    "content",
    "page_content",
    "id",
    "doc_id",
    "meta",
    "metadata",
    "score",
    "x",
)
context_like = st.fixed_dictionaries({}, optional=dict.fromkeys(context_names, any_value))
cells = any_value | any_text | st.lists(context_like | any_text, max_size=3)
row_like = st.dictionaries(st.sampled_from(NAMES) | any_text, cells, max_size=5)
row_or_value: st.SearchStrategy[Any] = row_like | any_value

sound_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).filter(
    lambda text: not is_placeholder(text)
)
csv_text = sound_text.filter(lambda text: text.strip() and "\0" not in text)


def sample_lists(text: st.SearchStrategy[str]) -> st.SearchStrategy[list[Sample]]:
    context = st.builds(
        Context,
        text=text,
        id=st.none() | st.sampled_from(["d1", "d 2", "7"]),
        meta=st.dictionaries(st.sampled_from(["a", "b"]), text, max_size=2),
        score=st.none() | st.floats(0, 1),
    )
    bare = st.builds(Context, id=st.sampled_from(["d1", "d 2", "7"]))
    contexts = st.none() | (st.lists(context, max_size=3) | st.lists(bare, max_size=3)).map(tuple)
    sample = st.builds(
        Sample,
        id=st.integers(0, 99).map(str),
        user_input=text,
        reference=st.none() | text,
        response=st.none() | text,
        retrieved_contexts=contexts,
        reference_contexts=contexts,
    )
    return st.lists(sample, min_size=1, max_size=5, unique_by=lambda row: row.id)


def loaded(content: bytes, ending: str, *, skip_bad_rows: bool = False) -> Any | None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / (f"data.{ending}" if ending else "data")
        path.write_bytes(content)
        return unless_refused(lambda: load(path, skip_bad_rows=skip_bad_rows))


def unless_refused(read: Callable[[], Any]) -> Any | None:
    try:
        data = read()
    except InputError as error:
        str(error).encode()
        return None
    assert data.samples
    assert len(data.fingerprint) == 64
    assert len({sample.id for sample in data.samples}) == len(data.samples) == len(data.extras)
    json.dumps([sample.model_dump() for sample in data.samples], ensure_ascii=False).encode()
    return data


def as_jsonl(samples: list[Sample]) -> bytes:
    return b"".join(sample.model_dump_json().encode() + b"\n" for sample in samples)


def as_csv(samples: list[Sample]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(Sample.model_fields))
    writer.writeheader()
    for sample in samples:
        row = sample.model_dump()
        writer.writerow(
            {
                name: json.dumps(cell) if isinstance(cell, tuple) else cell
                for name, cell in row.items()
            }
        )
    return text.getvalue().encode()


def as_parquet(samples: list[Sample]) -> bytes:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    file = io.BytesIO()
    meta = pyarrow.struct({"a": pyarrow.string(), "b": pyarrow.string()})
    text = pyarrow.string()
    number = pyarrow.float64()
    contexts = pyarrow.list_(
        pyarrow.struct({"text": text, "id": text, "meta": meta, "score": number})
    )
    kinds = {name: contexts if name.endswith("contexts") else text for name in Sample.model_fields}
    table = pyarrow.Table.from_pylist(
        [sample.model_dump() for sample in samples], pyarrow.schema(kinds)
    )
    parquet.write_table(table, file)
    return file.getvalue()


any_bytes = st.binary(max_size=200)
bytes_of_formats = st.text(st.sampled_from('[]{}",:;\\ud8\n\r\t \ufeff\0aé7.-'), max_size=60).map(
    str.encode
)


@settings(max_examples=300)
@given(content=any_bytes | bytes_of_formats, ending=st.sampled_from(ENDINGS))
@example(content=b"\x1f\x8b", ending="jsonl")
@example(content=b"PAR1", ending="parquet")
@example(content=b"\xff\xfe\x00\x00", ending="json")
@example(content=b"\x00" * 100, ending="")
def test_any_bytes_are_read_or_refused(content: bytes, ending: str) -> None:
    loaded(content, ending)
    loaded(gzip.compress(content), ending, skip_bad_rows=True)


@FUZZ
@given(
    samples=sample_lists(sound_text),
    edits=st.lists(
        st.tuples(
            st.floats(0, 1),
            st.sampled_from([b"", b"\0", b'"', b"\xe9", b"{", b"]", b",", b"\n"]),
        )
    ),
    form=st.sampled_from(
        [as_jsonl, as_csv, lambda samples: gzip.compress(as_jsonl(samples)), as_parquet]
    ),
    ending=st.sampled_from(ENDINGS),
    share=st.just(1) | st.floats(0, 1),
)
def test_a_damaged_file_is_read_or_refused(
    samples: list[Sample],
    edits: list[tuple[float, bytes]],
    form: Form,
    ending: str,
    share: float,
) -> None:
    content = form(samples)
    content = content[: int(share * len(content))]
    for where, what in edits:
        position = int(where * len(content))
        content = content[:position] + what + content[position + 1 :]
    loaded(content, ending, skip_bad_rows=True)


@FUZZ
@given(rows=st.lists(row_like, min_size=1, max_size=4))
def test_any_json_is_read_or_refused_and_every_row_is_accounted_for(
    rows: list[dict[str, Any]],
) -> None:
    content = "".join(f"{json.dumps(row)}\n" for row in [*rows, {}]).encode()
    for ending, text in (("jsonl", content), ("json", json.dumps([*rows, {}]).encode())):
        strict = loaded(text, ending)
        lenient = loaded(text, ending, skip_bad_rows=True)
        if lenient is not None:
            assert len(lenient.samples) + lenient.skipped == len(rows) + 1
            assert (strict is None) == (lenient.skipped > 0)
        else:
            assert strict is None


@FUZZ
@given(
    rows=st.lists(row_or_value, min_size=1, max_size=4),
    separator=st.none() | st.sampled_from(["|", " ", "", "a"]),
)
def test_any_row_of_python_is_read_or_refused(rows: list[Any], separator: str | None) -> None:
    data = unless_refused(lambda: load(rows, skip_bad_rows=True, context_separator=separator))
    assert data is None or len(data.samples) + data.skipped == len(rows)


def test_values_that_contain_themselves_are_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(DataError, match="nested more than 64 levels deep"):
        load([{"question": "q", "contexts": [{"text": "a", "meta": {"k": endless}}]}])
    for name in ("other", "documents", "gold"):
        assert load([{"question": "q", name: endless}]).samples[0].user_input == "q"


@FUZZ
@given(samples=sample_lists(sound_text))
def test_json_and_parquet_round_trip(samples: list[Sample]) -> None:
    expected = load(samples)
    array = json.dumps(
        [sample.model_dump() for sample in samples], ensure_ascii=False, indent=1
    ).encode()
    for content in (
        as_jsonl(samples),
        array,
        gzip.compress(as_jsonl(samples)),
        as_parquet(samples),
    ):
        data = loaded(content, "")
        assert data is not None
        assert data.samples == expected.samples == tuple(samples)
        assert data.fingerprint == expected.fingerprint


@FUZZ
@given(samples=sample_lists(csv_text))
def test_csv_round_trips(samples: list[Sample]) -> None:
    """Except that cells of white space and placeholders such as N/A are missing in CSV."""
    data = loaded(as_csv(samples), "csv")
    assert data is not None
    assert data.samples == tuple(samples)
    assert data.fingerprint == load(samples).fingerprint
