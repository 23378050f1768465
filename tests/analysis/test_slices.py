import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import printed_lines, printed_slices, refused
from human_labels import draw
from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge import Run, ScriptedEngine, evaluate
from localjudge.stats.paired import paired_difference
from tests.analysis.conftest import expect
from tests.cli.conftest import called
from tests.conftest import ScriptedRun

pytestmark = pytest.mark.engine

METRIC = "context_recall"


def sample(name: str, *sentences: str, **columns: Any) -> dict[str, Any]:
    return {
        "id": name,
        "reference": " ".join(sentences),
        "retrieved_contexts": ["A context."],
        **columns,
    }


def row(number: int, **columns: Any) -> dict[str, Any]:
    return sample(str(number), f"{'Right' if number % 3 else 'Wrong'} {number}.", **columns)


def judged(out: Path, rows: list[dict[str, Any]], **options: Any) -> Run:
    script = {f"Wrong {number}.": 0.1 for number in range(30)}
    engine = ScriptedEngine({**script, "Wrong 3.": "it does not fit"}, default=0.9)
    return evaluate(rows, metrics=["context_recall"], out=out, engine=engine, **options)


ROWS = [
    row(number, topic="ab"[number % 2], n=number % 2, doc=str(number // 4)) for number in range(20)
]


@pytest.mark.parametrize("options", [{}, {"cluster_by": "doc"}], ids=["alone", "in groups"])
def test_a_slice_is_a_run_of_its_samples(tmp_path: Path, options: dict[str, Any]) -> None:
    parts = printed_slices(judged(tmp_path / "whole", ROWS, **options), "topic")
    assert [(part["value"], part["samples"]) for part in parts] == [("a", 10), ("b", 10)]
    for part in parts:
        alone = judged(
            tmp_path / part["value"],
            [row for row in ROWS if row["topic"] == part["value"]],
            **options,
        )
        assert part["metrics"] == json.loads(alone.summary.model_dump_json())["metrics"]
    assert [part["metrics"][METRIC]["failed"] for part in parts] == [0, 1]


def test_slices_are_ordered_by_number_of_samples(tmp_path: Path) -> None:
    values: list[Any] = [1, "x", None, "x", True, "1", ""]
    rows = [row(number, v=value) for number, value in enumerate(values)]
    run = judged(tmp_path / "run", [*rows, row(7)])
    parts = [(part["value"], part["samples"]) for part in printed_slices(run, "v")]
    assert parts == [(None, 3), ("1", 2), ("x", 2), ("true", 1)]


SAME = [
    "Chirurgie",
    "Chirurgie ",
    "Chirurgie\u00a0",
    "chirurgie",
    "Chi\u200brurgie",
    "\uff23hirurgie",
]


def test_values_that_look_the_same_are_one_slice(tmp_path: Path) -> None:
    """They were six slices, and a gate passed on one of them.

    The second slice has a Cyrillic letter.
    """
    alike = "\u0421hirurgie"
    rows = [row(number, ward=value) for number, value in enumerate([*SAME, alike, " ", None], 10)]
    run = judged(tmp_path / "run", rows)
    parts = printed_slices(run, "ward")
    assert [(part["value"], part["samples"]) for part in parts] == [
        ("Chirurgie", 6),
        (None, 2),
        (alike, 1),
    ]
    for value in SAME:
        [decision] = run.check([f"{METRIC}[ward={value}]>=0.1"]).decisions
        assert decision.samples == 6
    shown = printed_lines("show", run, "--by", "ward", width=400)
    [note] = [line for line in shown if "look alike" in line]
    assert "\\u0421" in note


def test_a_gate_can_name_a_column_with_an_equals_sign(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", [row(number, **{"a=b": "x"}) for number in range(3)])
    [decision] = run.check([f'{METRIC}["a=b"=x]>=0.1']).decisions
    assert decision.gate == f'{METRIC}["a=b"=x]>=0.1'
    assert decision.value == run.summary.metrics[METRIC].mean


@pytest.mark.parametrize(
    ("place", "samples"),
    [('"a=b"=x=y', 4), ("a=b=x=y", 3), ('"a"=b=x=y', 3), ("c=d=x=y", 5), ('"c=d"=x=y', 5)],
)
def test_quotes_decide_between_columns_of_similar_names(
    tmp_path: Path, place: str, samples: int
) -> None:
    """Without quotes, the shortest name of a column of the data counts: `a` before `a=b`."""
    rows = []
    for number in range(9):
        columns = {"a": "", "a=b": "", "c=d": ""}
        if number < 3:
            columns["a"] = "b=x=y"
        if number < 4:
            columns["a=b"] = "x=y"
        if number < 5:
            columns["c=d"] = "x=y"
        rows.append(row(number + 10, **columns))
    [decision] = judged(tmp_path / "run", rows).check([f"{METRIC}[{place}]>=0.1"]).decisions
    assert decision.samples == samples


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        ("tag", "no column tag\n  hint: did you mean tags"),
        (
            "meta",
            r"column meta of the sample 1 .*\n"
            r"  hint: .* with a dot: meta\.NAME",
        ),
        ("tags", "column tags of the sample 1 "),
    ],
)
def test_a_nested_or_missing_column_is_refused(tmp_path: Path, column: str, problem: str) -> None:
    run = judged(tmp_path / "run", [row(1, meta={"lang": "en"}, tags=["a"])])
    assert [part["value"] for part in printed_slices(run, "meta.lang")] == ["en"]
    assert re.search(problem, refused("show", run, "--by", column))


def test_too_many_values_are_refused(tmp_path: Path) -> None:
    rows = [row(n, topic=n % 1_000, doc=n) for n in range(1_001)]
    run = judged(tmp_path / "run", rows)
    assert len(printed_slices(run, "topic")) == 1_000
    assert "column doc has more than 1,000 " in refused("show", run, "--by", "doc")


def test_a_slice_with_failures_has_no_mean(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = judged(tmp_path / "run", ROWS)
    out = called(capfd, "show", run.directory, "--by", "topic")[1]
    lines = [line.split() for line in out.splitlines() if line.split()[1:2] in (["a"], ["10"])]
    assert lines[0][:4] == ["context_recall", "a", "10", "0.600"]
    assert lines[1] == ["b", "10", "-", "-", "1"]
    values = json.loads(called(capfd, "show", run.directory, "--by", "topic", "--json")[1])
    assert [part["value"] for part in values["slices"]] == ["a", "b"]
    assert called(capfd, "show", run.directory, "1", "--by", "topic")[0] == 1
    draw(run, metrics=[METRIC]).answer(1)
    assert [[*part["corrected"]] for part in printed_slices(run, "topic")] == [[METRIC], []]


TOPICS = {"A": "x", "B": "y", "C": "x", "D": "y", "E": None}
BOTH_ROWS = [
    sample(name.lower(), f"{name} one.", f"{name} two.", topic=TOPICS[name]) for name in TOPICS
]
BASELINE: dict[str, float | str] = {"A two.": 0.1, "C one.": 0.2, "C two.": 0.3}
"""Scores 1/2, 1, 0, 1 and 1 for the samples a, b, c, d and e."""
NEW: dict[str, float | str] = {"C two.": 0.3, "B one.": 0.4, "D one.": "it does not fit"}
"""Scores 1, 1/2, 1/2, none and 1."""


def by_topic(old: Run, new: Run) -> dict[str | None, Any]:
    parts = new.compare(old, by="topic").by
    assert parts is not None
    assert parts.column == "topic"
    return {part.value: part for part in parts.slices}


def test_the_difference_of_a_slice_uses_its_pairs(scripted_run: ScriptedRun) -> None:
    """Slice x, a and c: 1/2 -> 1 and 0 -> 1/2; means 1/4 and 3/4, difference (1/2 + 1/2) / 2.

    Slice y: b 1 -> 1/2, d has no score in the new run: difference -1/2, one pair. No value: e stays
        at 1.
    """
    parts = by_topic(
        scripted_run("old", BOTH_ROWS, BASELINE),
        scripted_run("new", BOTH_ROWS, NEW, max_failed=1),
    )
    counts = {
        value: (part.samples, part.paired, part.metrics[METRIC].compared)
        for value, part in parts.items()
    }
    assert counts == {"x": (2, 2, 2), "y": (2, 2, 1), None: (1, 1, 1)}
    scores = {value: part.metrics[METRIC].scores for value, part in parts.items()}
    assert [
        change and (change.before, change.after, change.difference) for change in scores.values()
    ] == [
        (0.25, 0.75, 0.5),
        (1.0, 0.5, -0.5),
        (1.0, 1.0, 0.0),
    ]
    expected = paired_difference([0.5, 0.0], [1.0, 0.5])
    assert scores["x"] is not None
    assert scores["x"].ci95 == (expected.low, expected.high)
    assert (scores["x"].improved, scores["x"].worsened, scores["x"].tied) == (2, 0, 0)


_SAMPLES = st.lists(
    st.tuples(
        st.sampled_from("abcdefgh"),
        st.sampled_from(["x", "y", None]),
        st.sampled_from([0.0, 1.0, "broken"]),
    ),
    unique_by=lambda row: row[0],
    min_size=1,
    max_size=8,
)


@settings(max_examples=25, deadline=None)
@given(old=_SAMPLES, new=_SAMPLES, grouped=st.booleans())
def test_a_slice_equals_the_comparison_of_its_samples(
    old: list[Any], new: list[Any], grouped: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Bit for bit, for two runs without the other samples."""
    folder = tmp_path_factory.mktemp("runs")

    def judged(name: str, samples: list[Any]) -> Run:
        rows = [sample(name, f"{name}.", topic=topic, doc=name < "e") for name, topic, _ in samples]
        engine = ScriptedEngine({f"{sample}.": answer for sample, _, answer in samples})
        groups: dict[str, Any] = {"max_failed": 8, **({"cluster_by": "doc"} if grouped else {})}
        return evaluate(rows, metrics=[METRIC], out=folder / name, engine=engine, **groups)

    before = judged("old", old)
    after = judged("new", new)
    if not after.compare(before).metrics:
        return
    for value, part in by_topic(before, after).items():
        its = [sample for sample in new if sample[1] == value]
        change = judged(f"only-{value}", its).compare(before).metrics[METRIC]
        expect(part.metrics[METRIC], scores=change.scores, compared=change.compared)
        assert part.samples == len(its)


def test_the_command_shows_a_table_and_a_caution_per_metric(
    scripted_run: ScriptedRun,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    old = scripted_run("old", BOTH_ROWS, BASELINE)
    new = scripted_run("new", BOTH_ROWS, NEW, max_failed=1)
    arguments = ("compare", old.directory, new.directory, "--by", "topic", "--moved", "0")
    code, out, errors = called(capfd, *arguments)
    assert (code, errors) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    start = lines.index(["context_recall", "by", "topic"])
    assert lines[start + 1][:2] == ["topic", "compared"]
    # By probabilities: .8 counts .8, and .1 counts .1.
    assert lines[start + 3][:2] == ["x", "2/2"]
    assert lines[start + 3][4] == "+0.425"
    assert lines[start + 4][:2] == ["y", "1/2"]
    assert lines[start + 4][4].startswith("-")
    assert lines[start + 5][:2] == ["(none)", "1/1"]
    assert lines[start + 5][4] == "0.000"
    assert "interval covers one slice" in " ".join(out.split())
    values = json.loads(called(capfd, *arguments, "--json")[1])["by"]
    assert [part["value"] for part in values["slices"]] == ["x", "y", None]
    assert values["slices"][0]["metrics"][METRIC]["scores"]["difference"] == 0.5


@pytest.mark.parametrize("columns", ["40", "80"])
def test_control_characters_in_values_are_escaped(
    scripted_run: ScriptedRun,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    columns: str,
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    name = "\x1b]0;t\x07[b]c"
    values = ["\x1b[2J[r]x\u202e", "y" * 5_000, "a\nb", "", "\ud800"]
    run = scripted_run(
        "run",
        [sample(str(place), "S.", **{name: value}) for place, value in enumerate(values)],
        {},
    )
    code, out, errors = called(capfd, "compare", run.directory, run.directory, "--by", name)
    assert (code, errors) == (0, "")
    assert not {"\x1b", "\x07", "\u202e"} & set(out)
    assert "[r]" in out
    assert "[b]c" in out
    assert out.count("y") < 300
