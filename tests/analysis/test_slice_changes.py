"""What changed by the values of a column: every slice is what a comparison of its samples alone would be."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge import Run, ScriptedEngine, UsageError, evaluate
from localjudge.analysis import compare as slices_module
from localjudge.analysis.compare import ComparedSlice, compare
from localjudge.stats import paired_difference
from tests.cli.conftest import called
from tests.conftest import ScriptedRun

METRIC = "context_recall"


def row(name: str, *sentences: str, **columns: Any) -> dict[str, Any]:
    """A sample whose reference has these sentences."""
    return {"id": name, "reference": " ".join(sentences), "retrieved_contexts": ["A context."], **columns}


ROWS = [
    row("a", "A one.", "A two.", topic="x"),
    row("b", "B one.", "B two.", topic="y"),
    row("c", "C one.", "C two.", topic="x"),
    row("d", "D one.", "D two.", topic="y"),
    row("e", "E one.", "E two."),
]
BASELINE: dict[str, float | str] = {"A two.": 0.1, "C one.": 0.2, "C two.": 0.3}
"""Scores 1/2, 1, 0, 1 and 1 for the samples a, b, c, d and e."""
NEW: dict[str, float | str] = {"C two.": 0.3, "B one.": 0.4, "D one.": "it does not fit"}
"""Scores 1, 1/2, 1/2, none and 1."""


def by_topic(old: Run, new: Run, column: str = "topic") -> dict[str | None, ComparedSlice]:
    found = compare(old, new, by=column).by
    assert found is not None
    assert found.column == column
    return {one.value: one for one in found.slices}


def test_the_differences_of_each_slice_are_those_of_its_pairs(scripted_run: ScriptedRun) -> None:
    """x, the samples a and c: 1/2 -> 1 and 0 -> 1/2; means 1/4 and 3/4, the difference (1/2 + 1/2) / 2 = 1/2.

    y: b 1 -> 1/2, while d has no score in the new run: the difference is -1/2, of one pair. None: e stays at 1.
    """
    found = by_topic(scripted_run("old", ROWS, BASELINE), scripted_run("new", ROWS, NEW))
    assert [(value, one.samples, one.paired) for value, one in found.items()] == [
        ("x", 2, 2),
        ("y", 2, 2),
        (None, 1, 1),
    ]
    scores = {value: one.metrics[METRIC].scores for value, one in found.items()}
    assert [one and (one.before, one.after, one.difference) for one in scores.values()] == [
        (0.25, 0.75, 0.5),
        (1.0, 0.5, -0.5),
        (1.0, 1.0, 0.0),
    ]
    assert [one.metrics[METRIC].compared for one in found.values()] == [2, 1, 1]
    expected = paired_difference([0.5, 0.0], [1.0, 0.5]).difference
    assert scores["x"] is not None
    assert scores["x"].ci95 == (expected.low, expected.high)
    assert (scores["x"].improved, scores["x"].worsened, scores["x"].tied) == (2, 0, 0)


def test_nothing_is_sliced_unasked(scripted_run: ScriptedRun) -> None:
    run = scripted_run("run", ROWS, {})
    assert compare(run, run).by is None


def test_intervals_are_over_the_groups_that_both_runs_name(scripted_run: ScriptedRun) -> None:
    """Four samples of two documents: the interval is that of two clusters."""
    rows = [row(str(number), f"Sentence {number}.", doc=str(number // 2), topic="x") for number in range(4)]
    old = scripted_run("old", rows, {"Sentence 0.": 0.0, "Sentence 2.": 0.0}, cluster_by="doc")
    new = scripted_run("new", rows, {"Sentence 1.": 0.0}, cluster_by="doc")
    scores = by_topic(old, new)["x"].metrics[METRIC].scores
    expected = paired_difference([0, 1, 0, 1], [1, 0, 1, 1], clusters=[0, 0, 1, 1]).difference
    assert scores is not None
    assert (scores.clusters, scores.ci95) == (2, (expected.low, expected.high))


def test_a_pair_is_in_the_slice_of_the_new_run(scripted_run: ScriptedRun) -> None:
    """In the baseline, whose rows stand in another order, a has another topic, and b none."""
    old = scripted_run("old", [row("b", "B."), row("a", "A.", topic="z")], {"A.": 0.0})
    found = by_topic(old, scripted_run("new", [row("a", "A.", topic="x"), row("b", "B.", topic="y")], {}))
    differences = {value: one.metrics[METRIC].scores for value, one in found.items()}
    assert {value: one and one.difference for value, one in differences.items()} == {"x": 1.0, "y": 0.0}


def test_a_slice_without_pairs_has_no_difference(scripted_run: ScriptedRun) -> None:
    old = scripted_run("old", ROWS[:1], {})
    found = by_topic(old, scripted_run("new", [*ROWS[:1], row("z", "Z.", topic="only here")], {}))
    assert (found["only here"].samples, found["only here"].paired) == (1, 0)
    assert found["only here"].metrics[METRIC].scores is None


_SAMPLES = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["x", "y", None]), st.sampled_from([0.0, 1.0, "broken"])),
    unique_by=lambda one: one[0],
    min_size=1,
    max_size=8,
)


@settings(max_examples=25, deadline=None)
@given(old=_SAMPLES, new=_SAMPLES)
def test_a_slice_is_a_comparison_of_its_samples_alone(
    old: list[Any], new: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever the runs share: the scores are, to the last bit, those of two runs that have no other samples."""
    folder = tmp_path_factory.mktemp("runs")

    def judged(name: str, samples: list[Any]) -> Run:
        rows = [row(sample, f"{sample}.", topic=topic) for sample, topic, _ in samples]
        engine = ScriptedEngine({f"{sample}.": said for sample, _, said in samples})
        return evaluate(rows, metrics=[METRIC], out=folder / name, engine=engine)

    before, after = judged("old", old), judged("new", new)
    if not compare(before, after).metrics:
        return
    for value, one in by_topic(before, after).items():
        its = [sample for sample in new if sample[1] == value]
        change = compare(before, judged(f"only-{value}", its)).metrics[METRIC]
        assert (one.metrics[METRIC].scores, one.metrics[METRIC].compared) == (change.scores, change.compared)
        assert one.samples == len(its)


def test_what_is_no_column_of_few_single_values_is_refused(
    scripted_run: ScriptedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = scripted_run("run", [row("a", "A.", tags=["t"], n=1), row("b", "B.", tags=[], n=2)], {})
    with pytest.raises(UsageError, match="holds no column nothing\n  hint: its columns are tags, n"):
        compare(run, run, by="nothing")
    with pytest.raises(UsageError, match="the column tags of the sample a is not a text or a number"):
        compare(run, run, by="tags")
    monkeypatch.setattr(slices_module, "MOST_SLICES", 1)
    with pytest.raises(UsageError, match="the column n has more than 1 different values"):
        compare(run, run, by="n")


def test_the_command_shows_a_table_for_each_metric_and_what_its_intervals_do_not_say(
    scripted_run: ScriptedRun, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    old, new = scripted_run("old", ROWS, BASELINE), scripted_run("new", ROWS, NEW)
    arguments = ("compare", old.directory, new.directory, "--by", "topic", "--moved", "0")
    code, out, errors = called(capfd, *arguments)
    assert (code, errors) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    start = lines.index(["context_recall", "by", "topic"])
    assert lines[start + 1][:2] == ["topic", "compared"]
    assert lines[start + 3][:5] == ["x", "2/2", "0.250", "0.750", "+0.500"]
    assert lines[start + 4][:5] == ["y", "1/2", "1.000", "0.500", "-0.500"]
    assert lines[start + 5][:5] == ["(none)", "1/1", "1.000", "1.000", "0.000"]
    assert "each interval is that of its slice alone: of 20 slices, one is expected to miss" in " ".join(out.split())
    values = json.loads(called(capfd, *arguments, "--json")[1])["by"]
    assert [one["value"] for one in values["slices"]] == ["x", "y", None]
    assert values["slices"][0]["metrics"][METRIC]["scores"]["difference"] == 0.5


@pytest.mark.parametrize("columns", ["40", "80"])
def test_hostile_values_are_shown_harmlessly(
    scripted_run: ScriptedRun, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    name = "\x1b]0;t\x07[b]c"
    values = ["\x1b[2J[r]x\u202e", "y" * 5_000, "a\nb", "", "\ud800"]
    run = scripted_run("run", [row(str(place), "S.", **{name: value}) for place, value in enumerate(values)], {})
    code, out, errors = called(capfd, "compare", run.directory, run.directory, "--by", name)
    assert (code, errors) == (0, "")
    assert not {"\x1b", "\x07", "\u202e"} & set(out)
    assert "[r]x" in out
    assert "[b]c" in out
    assert out.count("y") < 300
