import itertools
import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge import InputError, Run, RunDirectoryError, ScriptedEngine, combine, evaluate, merge
from localjudge.analysis.check import check
from localjudge.analysis.compare import compare
from localjudge.run.combine import mean_log_odds
from localjudge.run.verify import verify_run as verify

FILES = ("scores.jsonl", "verdicts.jsonl", "summary.json")
ROWS = [
    {"id": "a", "reference": "One. Two.", "retrieved_contexts": ["A context."]},
    {"id": "b", "reference": "Three.", "retrieved_contexts": ["Another."]},
    {"id": "c", "reference": "Four.", "retrieved_contexts": []},
]
PROBABILITY = st.floats(0, 1)
SAYS: dict[str, dict[str, float | str]] = {"A": {"One.": 0.9, "Two.": 0.3}, "B": {"One.": 0.4, "Two.": 0.6}}


class Named(ScriptedEngine):
    """A scripted engine with a name."""

    def __init__(self, name: str, **changes: float | str) -> None:
        script = SAYS.get(name, {}) | {f"{text}.": said for text, said in changes.items()}
        super().__init__(script, default=0.8)
        self._name = name

    @property
    def name(self) -> str:
        """Return the given name."""
        return self._name


def judged(out: Path, engine: ScriptedEngine, rows: Any = ROWS, **options: Any) -> Run:
    return evaluate(rows, out=out, engine=engine, **{"metrics": ["context_recall"], **options})


def results(run: Run) -> dict[str, bytes]:
    return {name: (run.directory / name).read_bytes() for name in FILES}


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    return [judged(tmp_path / name, Named(name)) for name in "AB"]


@pytest.fixture
def both(tmp_path: Path, runs: list[Run]) -> Run:
    return combine(runs, out=tmp_path / "both")


def test_the_mean_log_odds_by_hand() -> None:
    """.9 is odds of 9, .4 of 2/3: sqrt(9 * 2/3) = sqrt(6) = 2.449, which is 2.449 / 3.449 = .7101.

    1 counts as 1 - 1e-6, odds of 999,999; against .0001, odds of 1/9999: their root is 10.0.
    """
    assert mean_log_odds([0.9, 0.4]) == pytest.approx(math.sqrt(6) / (1 + math.sqrt(6)))
    root = math.sqrt(999_999 / 9_999)
    assert mean_log_odds([1.0, 0.0001]) == pytest.approx(root / (1 + root))


@given(st.lists(PROBABILITY, min_size=1, max_size=5))
def test_the_order_of_judges_changes_no_bit(probabilities: list[float]) -> None:
    assert len({mean_log_odds(order) for order in itertools.permutations(probabilities)}) == 1


@given(PROBABILITY, PROBABILITY, PROBABILITY)
def test_a_higher_probability_never_lowers_the_combined_one(p_yes: float, other: float, fixed: float) -> None:
    low, high = (mean_log_odds([p, fixed]) for p in sorted((p_yes, other)))
    assert 0 <= low <= high <= 1


def test_rows_have_each_probability_and_the_combined_one(both: Run) -> None:
    """One: odds 9 and 2/3, root 2.449: .710. Two: odds 3/7 and 3/2, root .802: .445. Three: both .8."""
    one, two, three, four = both.verdicts
    root = math.sqrt(6)
    assert (one.judges, one.label) == ({"A": 0.9, "B": 0.4}, 1)
    assert one.p_yes == pytest.approx(root / (1 + root))
    assert (two.judges, two.label) == ({"A": 0.3, "B": 0.6}, 0)
    assert three.p_yes == pytest.approx(0.8)
    assert (four.judges, four.label, four.p_yes) == ({"A": None, "B": None}, 0, None)
    assert [row.score for row in both.scores] == [0.5, 1.0, 0.0]


def test_a_combined_run_works_like_any_run(both: Run, runs: list[Run]) -> None:
    opened = Run.open(both.directory)
    assert (opened.summary, opened.verdicts, opened.samples) == (both.summary, both.verdicts, runs[0].samples)
    assert str(opened.judge) == "A + B by mean log odds"
    assert check(opened, gates=["context_recall>=0.05"]).passed
    changes = compare(runs[0], opened).judge_changes
    assert [(change.before, change.after) for change in changes] == [("A", "A + B by mean log odds")]
    assert compare(both, opened).warnings == ()


def test_stopped_runs_are_combined_if_they_stopped_at_the_same_samples(tmp_path: Path) -> None:
    """The intervals are valid at any stop for any judge; other samples are other data."""
    rows = [{"id": str(n), "reference": f"So {n}.", "retrieved_contexts": ["A."]} for n in range(60)]
    gate, others = "context_recall>=0.5", {f"So {n}": 0.2 for n in range(20)}
    first, second = (judged(tmp_path / name, Named(name), rows, until=[gate]) for name in "AB")
    both = combine([first, second], out=tmp_path / "both")
    assert (both.summary.samples, both.sampling.largest_draw) == (first.summary.samples, 1)
    assert both["context_recall"].method == "confidence sequence"
    assert Run.open(both.directory).verify().result == "bit-identical"
    longer = judged(tmp_path / "C", Named("C", **others), rows, until=[gate])
    assert longer.summary.samples != first.summary.samples
    with pytest.raises(InputError, match="did not judge the same:\n  rows: "):
        combine([first, longer], out=tmp_path / "other")


def test_shards_are_merged_before_the_runs_of_their_judges_are_combined(both: Run, tmp_path: Path) -> None:
    shards = [judged(tmp_path / name, Named(name), shard="1/1") for name in "AB"]
    with pytest.raises(InputError, match="is shard 1/1 of a run") as caught:
        combine(shards, out=tmp_path / "out")
    assert "merge" in str(caught.value.hint)
    with pytest.raises(InputError, match="is not a shard of a run"):
        merge([both], out=tmp_path / "out")


def test_the_order_of_runs_changes_no_file(both: Run, runs: list[Run], tmp_path: Path) -> None:
    assert results(combine(runs[::-1], out=tmp_path / "other")) == results(both)


def test_a_unit_needs_a_verdict_of_every_judge(runs: list[Run], tmp_path: Path) -> None:
    """A mean of the remaining judges would belong to another panel."""
    broken = judged(tmp_path / "broken", Named("C", Two="it is too long"), max_failed=1)
    run = combine([runs[0], broken], out=tmp_path / "both")
    two = run.verdicts[1]
    assert (two.label, two.p_yes, two.error, two.judges) == (None, None, "C: it is too long", {"A": 0.3, "C": None})
    assert run.scores[0].detail == "no verdict for 1 of 2 units: C: it is too long"


def test_verify_combines_the_same_runs_again(both: Run, runs: list[Run]) -> None:
    found = verify(both)
    assert (found.result, found.combined_from) == ("bit-identical", tuple(str(run.directory) for run in runs))
    file = both.directory / "verdicts.jsonl"
    file.write_text(file.read_text().replace('"label": 1', '"label": 0', 1))
    found = verify(both.directory)
    assert (found.result, dict(found.files)) == ("different", {"verdicts.jsonl": ("row 1",)})


def test_verify_reports_changed_and_missing_runs(both: Run, runs: list[Run], tmp_path: Path) -> None:
    shutil.rmtree(runs[1].directory)
    with pytest.raises(RunDirectoryError, match="/B holds no run"):
        verify(both)
    judged(tmp_path / "B", Named("B", One=0.5))
    found = verify(both)
    assert found.result == "different"
    assert "verdicts.jsonl" in found.files
    assert any(change.ingredient.startswith("combined.judges.") for change in found.judge_changes)


@pytest.mark.parametrize(
    ("rows", "options", "said"),
    [
        (ROWS[:2], {}, "the data differ"),
        (ROWS, {"metrics": ["context_recall", "matrix_recall"]}, "this run has matrix_recall"),
        (ROWS, {"threshold": 0.7}, r"threshold: 0\.5 there, 0\.7 now"),
        (ROWS[::-1], {}, "are in another order"),
    ],
)
def test_runs_on_different_units_are_not_combined(
    rows: Any, options: dict[str, Any], said: str, runs: list[Run], tmp_path: Path
) -> None:
    other = judged(tmp_path / "other", Named("C"), rows, **options)
    with pytest.raises(InputError, match=said):
        combine([runs[0], other], out=tmp_path / "both")


def test_invalid_combinations_are_refused(both: Run, runs: list[Run], tmp_path: Path) -> None:
    for names, said in (
        ([], "nothing to combine"),
        ([runs[0]], "nothing to combine"),
        ([runs[0], runs[0]], "of one judge"),
        ([runs[0], both], "is a combined run"),
        ([runs[0], judged(tmp_path / "shard", Named("C"), shard="1/1")], "is shard 1/1 of a run"),
    ):
        with pytest.raises(InputError, match=said):
            combine(names, out=tmp_path / "other")
    with pytest.raises(InputError, match="is not a shard of a run"):
        merge([both], out=tmp_path / "other")
    with pytest.raises(InputError, match="is one of the runs"):
        combine(runs, out=runs[1].directory)
    with pytest.raises(InputError, match="rescore those"):
        both.rescore(threshold=0.3)
    with pytest.raises(InputError, match="are of another judge"):
        judged(tmp_path / "other", Named("A"), reuse=both.directory)


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: manifest["environment"].pop("combined"),
        lambda manifest: manifest["environment"]["combined"].pop(),
        lambda manifest: manifest["judge"]["combined"]["judges"].popitem(),
        lambda manifest: manifest["judge"]["combined"].update(rule="weighted log odds"),
        lambda manifest: manifest["judge"].update(combined="\x1b[2J"),
    ],
)
def test_a_combined_manifest_with_other_judges_is_refused(change: Any, both: Run) -> None:
    file = both.directory / "manifest.json"
    manifest = json.loads(file.read_text())
    change(manifest)
    file.write_text(json.dumps(manifest))
    with pytest.raises(RunDirectoryError, match="combined"):
        Run.open(both.directory)
