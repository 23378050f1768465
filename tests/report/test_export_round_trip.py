"""An exported run is the same data when read back: docs/data.md promises the same signature."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localjudge import Run, Sample, ScriptedEngine, evaluate
from localjudge.dataset import load
from localjudge.metrics import Context
from tests.report.whole_files import Format, exported

FORMATS: tuple[Format, ...] = ("jsonl", "csv", "parquet")
METRICS = ["faithfulness", "citation_support", "document_recall_multi_hit(compare_by=id)"]
ROWS: list[dict[str, Any]] = [
    {
        "id": "a",
        "user_input": "Where?",
        "retrieved_contexts": [
            {
                "id": "doc-7",
                "text": "The tower is in Ulm.",
                "score": 0.5,
                "meta": {"page": 3, "tags": ["x", None]},
            },
            {
                "id": "doc-8",
                "text": "Bern lies on the Aare.",
                "meta": {"n": float("nan"), "i": float("inf")},
            },
        ],
        "reference_contexts": [{"id": "doc-7", "text": "The tower is in Ulm, as everybody knows."}],
        "response": "The tower is in Ulm [doc-7].",
        "reference": "In Ulm.",
    },
    {
        "id": "b",
        "retrieved_contexts": ["A text.", {"id": "d", "text": "Another."}],
        "response": "N/A",
    },
    {"id": "c", "retrieved_contexts": [], "reference_contexts": None, "response": "-1"},
    {"id": "=d", "retrieved_contexts": ["=1+1", "'=2"], "response": "'=1+1", "reference": " @x"},
]
ONLY_IDS = [
    {
        "id": "a",
        "retrieved_contexts": [{"id": "x"}],
        "reference_contexts": [{"id": "x"}, {"id": "y"}],
    }
]
PLAIN = [
    {"id": "a", "user_input": "q", "retrieved_contexts": ["One.", "Two."], "response": "One [1]."},
]


def judge(data: Any, metrics: list[str], mapping: dict[str, str] | None = None) -> Run:
    engine = ScriptedEngine({}, default=0.9)
    return evaluate(
        data, metrics=metrics, engine=engine, mapping=mapping, out=False, progress=False
    )


@pytest.mark.parametrize("as_format", FORMATS)
@pytest.mark.parametrize(
    ("rows", "metrics"),
    [
        (ROWS, METRICS),
        (ONLY_IDS, ["document_recall_multi_hit(compare_by=id)"]),
        (PLAIN, METRICS[:2]),
    ],
)
def test_the_exported_file_has_the_same_signature_and_scores(
    tmp_path: Path, rows: list[Any], metrics: list[str], as_format: Format
) -> None:
    run = judge(rows, metrics)
    path = tmp_path / f"back.{as_format}"
    path.write_bytes(exported(run, as_format, "samples", texts=True))
    again = judge(path, metrics, mapping={"id": "sample_id"})
    assert again.summary.signature == run.summary.signature
    assert list(again.scores) == list(run.scores)


@pytest.mark.parametrize("as_format", FORMATS)
def test_columns_of_the_user_come_back_too(tmp_path: Path, as_format: Format) -> None:
    rows = [{**ROWS[0], "topic": "=law", "=odd": "x"}, {**ROWS[1], "topic": None, "=odd": "'y"}]
    path = tmp_path / f"back.{as_format}"
    path.write_bytes(
        exported(judge(rows, METRICS[:1]), as_format, "samples", texts=True, columns=True)
    )
    data = load(path, mapping={"id": "sample_id"})
    assert (data.column("topic"), data.column("=odd")) == (("=law", None), ("x", "'y"))


def test_frames_contain_the_contexts_with_their_ids() -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    run = judge(ROWS, METRICS)
    for frame in (run.to_pandas(), run.to_polars()):
        again = judge(frame, METRICS, mapping={"id": "sample_id"})
        assert again.summary.signature == run.summary.signature


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NOT_VALUES = ["", " ", "N/A", "None", "nan", "-", "[]", "{}", "true", "7", "007", "7.0"]
FORMULAS = ["=1", "'=1", "''=1", "'", " @x"]
SEPARATORS = [
    '"',
    "a|b",
    "a\n\nb",
    "\r",
    "\r\n",
    "\0",
    "\ufeffa",
    "a, b",
    ' "a"',
    "\u2028",
    "\x85",
    "a;b\tc",
]
PRINTED = [
    *('["a", "b"]', "['a', 'b']", '["a"]', '[{"text": "a"}]', '{"text": "a"}', '{"a": 1}'),
    *("page_content='a'", "Document(page_content='a')", "[Document(page_content='a')]"),
    *('[{"role": "user", "content": "a"}]', '"[\\"a\\"]"', "Human: a\nAI: b"),
]
ODD_TEXT = st.sampled_from([*NOT_VALUES, *FORMULAS, *SEPARATORS, *PRINTED])
ANY_TEXT = st.one_of(TEXT, ODD_TEXT)
JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**53), 2**53),
        st.floats(allow_nan=False),
        ANY_TEXT,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=5,
)
META = st.dictionaries(TEXT, JSON, max_size=3)
SCORE = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False))
CONTEXT = st.builds(
    Context, text=ANY_TEXT, id=st.one_of(st.none(), ANY_TEXT), meta=META, score=SCORE
)
BARE_CONTEXT = st.builds(Context, id=ANY_TEXT.filter(str.strip), meta=META, score=SCORE)
PLAIN_CONTEXT = st.builds(Context, text=ANY_TEXT)
CONTEXTS = st.one_of(
    st.none(),
    st.lists(st.one_of(CONTEXT, PLAIN_CONTEXT), max_size=3),
    st.lists(BARE_CONTEXT, max_size=3),
)


SAMPLE = st.builds(
    Sample,
    id=ANY_TEXT.filter(str.strip),
    user_input=st.one_of(st.none(), ANY_TEXT),
    retrieved_contexts=CONTEXTS,
    reference=st.one_of(st.none(), ANY_TEXT),
    response=st.one_of(st.none(), ANY_TEXT),
    reference_contexts=CONTEXTS,
)


FULL = Sample(id="full", user_input="q", retrieved_contexts=(Context(text="c"),), response="r")


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(samples=st.lists(SAMPLE, min_size=1, max_size=8, unique_by=lambda sample: sample.id))
def test_any_sample_survives_export_and_import(samples: list[Sample]) -> None:
    """A run takes most of the time, so one run of several samples is exported to each format."""
    samples = [sample for sample in samples if sample.id != FULL.id]
    samples.append(FULL)
    metric = "faithfulness"
    if any(sample.reference_contexts is not None for sample in samples):
        metric = "document_mrr"
    run = judge(samples, [metric])
    fingerprint = load(samples).fingerprint
    for as_format in FORMATS:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"back.{as_format}"
            path.write_bytes(exported(run, as_format, "samples", texts=True))
            data = load(path, mapping={"id": "sample_id"})
        assert data.fingerprint == fingerprint, as_format
