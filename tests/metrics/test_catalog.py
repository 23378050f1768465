import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import InputError, metrics
from localjudge.metrics import catalog

# The example in the docstring of `localjudge.metrics`, as its author would save it.
EXAMPLE = textwrap.dedent(
    metrics.__doc__.partition("A complete example:\n")[2].partition("\nRegister it with")[0]
)
# One that asks nothing: 1 up to ten words, less for more.
BREVITY = """
from localjudge.metrics import About


class Brevity:
    name = "brevity"
    version = 1
    required_fields = frozenset({"response"})
    about = About(question="response: has it at most ten words?", unit="none")

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        yield from ()
        return Scored(value=10 / max(10, len((sample.response or "").split())))


brevity, five = Brevity(), Brevity()
five.name = "five(words)"
"""


def test_metrics_at_k_are_sorted_within_their_family() -> None:
    asked = [
        "mine",
        "recall@3",
        "hit_rate@10",
        "hit_rate@3(compare_by=id)",
        "document_map(compare_by=id)",
        "refusal",
    ]
    assert sorted(asked, key=catalog.report_order) == [
        asked[4],
        asked[5],
        asked[3],
        asked[2],
        asked[1],
        asked[0],
    ]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_metrics.py").write_text(EXAMPLE + BREVITY)
    (tmp_path / "broken_metrics.py").write_text("not_a_metric = 3")
    (tmp_path / "own_metrics_that_raise.py").write_text("metric = {}['no such key']")
    info = tmp_path / "own_metrics-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-metrics\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[localjudge.metrics]\n"
        "brevity = own_metrics:brevity\ncorrectness = own_metrics:correctness\n"
        "broken = broken_metrics:not_a_metric\ngone = own_metrics:nothing\n"
        "context_recall = own_metrics:brevity\n"
        "a_class = own_metrics:Brevity\nother = own_metrics:brevity\n"
        "five(words) = own_metrics:five\nraises = own_metrics_that_raise:metric\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("installed")
def test_the_example_plugin_runs_beside_built_in_metrics(tmp_path: Path) -> None:
    """One of two sentences is in the reference: 1/2. At most ten words: 1. Null: undefined."""
    rows: list[dict[str, Any]] = [
        {
            "id": "a",
            "reference": "It opened in 1936.",
            "response": "It did. It was blue.",
            "retrieved_contexts": ["x"],
        },
        {
            "id": "b",
            "reference": "It opened in 1936.",
            "response": None,
            "retrieved_contexts": ["x"],
        },
    ]
    run = localjudge.evaluate(
        rows,
        metrics=["brevity", "correctness", "context_recall"],
        engine=localjudge.ScriptedEngine({"It was blue.": 0.1}, default=0.9),
        out=tmp_path / "run",
    )
    names = ("context_recall", "brevity", "correctness")
    for sample, scores in (("a", (1.0, 1.0, 0.5)), ("b", (1.0, None, None))):
        expected = dict(zip(names, scores, strict=True))
        assert {row.metric: row.score for row in run.scores if row.sample_id == sample} == expected


@pytest.mark.usefixtures("installed")
def test_an_installed_metric_may_have_any_name_but_ours() -> None:
    assert catalog.get("five(words)").name == "five(words)"
    assert not catalog.is_ours("five(words)")
    assert catalog.about("context_recall").source == "RAGAS context_recall"
    assert catalog.names().count("context_recall") == 1


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("matrix_recall@3", "matrix_recall@3"),
        ("document_map(compare_by=id)", "document_map(compare_by=id)"),
        (" document_map( compare_by = meta.a b )", "document_map(compare_by=meta.a b)"),
        ("document_map(compare_by=content)", "document_map"),
        ("document_map()", "document_map"),
        ("hit_rate@3(compare_by=meta.doc=1)", "hit_rate@3(compare_by=meta.doc=1)"),
        ("answer_correctness( mode=recall )", "answer_correctness(mode=recall)"),
        ("abstention(mode=right)", "abstention"),
    ],
)
def test_non_default_options_are_part_of_the_name(written: str, name: str) -> None:
    assert catalog.get(written).name == name
    assert catalog.get(name).name == name


def test_default_options_are_part_of_the_signature(tmp_path: Path) -> None:
    options = {
        "context_precision": {"against": "reference"},
        "context_precision(against=response)": {"against": "response"},
        "recall@2(compare_by=meta.doc)": {"compare_by": "meta.doc"},
    }
    texts = dict.fromkeys(("user_input", "reference", "response"), "It rains.")
    document = {"text": "It rains.", "meta": {"doc": 1}}
    row = {**texts, "retrieved_contexts": [document], "reference_contexts": [document]}
    engine = localjudge.ScriptedEngine({}, default=0.9)
    localjudge.evaluate([row], metrics=list(options), engine=engine, out=tmp_path)
    signed = json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))["judge"]
    for name, values in options.items():
        assert signed["metrics"][name] == {"version": 1, **values}


def test_direction_of_a_metric_may_depend_on_an_option() -> None:
    lower = ["noise_sensitivity", "refusal", "abstention(mode=made_up)"]
    higher = [
        "abstention",
        "abstention(mode=of a stranger's file)",
        "answer_correctness",
        "no_such_metric",
    ]
    assert [name for name in (*lower, *higher) if catalog.lower_is_better(name)] == lower


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("document_map(compareby=id)", "'compareby'\n  hint: did you mean compare_by?"),
        ("document_map(k=3)", "'k'\n  hint: the options are compare_by"),
        ("context_recall(k=3)", "no option 'k'\n  hint: omit it"),
        ("matrix_recall@3(first=2)", "no option 'first'"),
        ("document_map(compare_by=title)", "'title': use content, id or meta.KEY"),
        (
            "answer_correctness(mode=f2)",
            "mode='f2'\n  hint: write one of: mode=f1, mode=precision, mode",
        ),
        ("document_map(id)", "'id' is not an option"),
        ("document_map(compare_by=id,compare_by=id)", "or is repeated"),
        ("brevity(limit=3)", "brevity belongs to another"),
        *((f"matrix_recall@{k}", "no metric is called") for k in (0, -1, "x", 10**9)),
        ("contxt_recall", "did you mean context_recall"),
        ("context_recall faithfulness", "hint: metrics=['context_recall', 'faithfulness']"),
        # Entry points of the installed package.
        ("broken", "lacks name, version, required_fields, steps\n"),
        ("gone", "cannot be loaded: AttributeError"),
        ("a_class", "own_metrics:Brevity is not a metric"),
        ("other", "with the name 'other'"),
        ("raises", "cannot be loaded: KeyError: 'no such key'"),
    ],
)
def test_unknown_metric_names_and_options_are_refused(name: str, problem: str) -> None:
    with pytest.raises(InputError) as refused:
        catalog.get(name)
    assert problem in str(refused.value)


@pytest.mark.usefixtures("installed")
def test_a_broken_plugin_leaves_other_metrics_listed(caplog: pytest.LogCaptureFixture) -> None:
    listed = {metric.name for metric in catalog.described()}
    assert {"faithfulness", "brevity", "correctness"} <= listed
    assert not {"broken", "gone", "raises"} & listed
    assert "the metric 'raises' (own_metrics_that_raise:metric) cannot be loaded" in caplog.text


DOCUMENTS = tuple(name for name in catalog.our_names() if name.startswith("document_"))
TRIAD = ("user_input", "retrieved_contexts", "response")


def possible(*fields: str) -> list[str]:
    return [
        name for name in catalog.our_names() if catalog.example(name).required_fields <= {*fields}
    ]


@pytest.mark.parametrize(
    ("fields", "chosen"),
    [
        ((*TRIAD, "reference"), ("context_recall", "faithfulness", "answer_correctness")),
        (("user_input", "retrieved_contexts", "reference"), ("context_recall",)),
        (TRIAD, ("context_relevancy_chunk", "faithfulness", "answer_relevancy")),
        (("user_input", "retrieved_contexts"), ("context_relevancy_chunk",)),
        (("user_input", "response"), ("answer_relevancy",)),
        (("response", "reference"), ("answer_correctness",)),
        # Ground-truth documents tell of the retrieval, and ask nothing.
        (("user_input", "retrieved_contexts", "reference_contexts"), DOCUMENTS),
        (("retrieved_contexts", "reference_contexts", "reference"), ("context_recall", *DOCUMENTS)),
        (("user_input",), ()),
    ],
)
def test_default_metrics_follow_from_the_columns(
    fields: tuple[str, ...], chosen: tuple[str, ...]
) -> None:
    assert catalog.default_metrics(possible(*fields)) == chosen


def test_default_metrics_are_listed_and_work_with_every_judge() -> None:
    listed = [metric for metric in catalog.described() if metric.default_metrics]
    assert not any(metric.instructions for metric in listed)
    chosen = {*catalog.default_metrics(catalog.our_names())}
    assert {*DOCUMENTS} <= chosen <= {metric.name for metric in listed}
