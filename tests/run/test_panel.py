"""A run of several judges: each is asked by itself, as if it judged alone, and their verdicts are combined."""

import json
import math
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from localjudge import Run, RunDirectoryError, ScriptedEngine, UsageError, compare, evaluate, rescore, verify
from localjudge.judge.panel_rule import PanelRule
from localjudge.run.estimate import estimate
from localjudge.run.job import run_plan
from localjudge.run.judges import judge_on, panel_of
from localjudge.run.plan import plan
from localjudge.run.settings import RunSettings

FILES = ("scores.jsonl", "verdicts.jsonl", "summary.json")
ROWS = [
    {"id": "a", "reference": "One. Two.", "retrieved_contexts": ["A context."]},
    {"id": "b", "reference": "Three.", "retrieved_contexts": ["Another."]},
    {"id": "c", "reference": "Four.", "retrieved_contexts": []},
]
A_SAYS: dict[str, float | str] = {"One.": 0.9, "Two.": 0.3}
B_SAYS: dict[str, float | str] = {"One.": 0.4, "Two.": 0.6}


class Named(ScriptedEngine):
    """A scripted engine that people call something."""

    def __init__(self, name: str, script: dict[str, float | str], **options: Any) -> None:
        super().__init__(script, default=0.8, **options)
        self._name = name

    @property
    def name(self) -> str:
        """As given."""
        return self._name


def a(**changes: float | str) -> Named:
    return Named("A", {**A_SAYS, **changes})


def b(**changes: float | str) -> Named:
    return Named("B", {**B_SAYS, **changes})


def judged(out: Path, *engines: ScriptedEngine, **options: Any) -> Run:
    options = {"metrics": ["context_recall"], **options}
    return evaluate(ROWS, out=out, engine=list(engines), **options)


def results(run: Run) -> dict[str, bytes]:
    return {name: (run.directory / name).read_bytes() for name in FILES}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return judged(tmp_path / "run", a(), b())


def test_each_row_has_what_each_judge_gave_and_what_they_come_to(run: Run) -> None:
    """One: odds 9 and 2/3, root 2.449: .710. Two: odds 3/7 and 3/2, root .802: .445. Three: both .8."""
    one, two, three, four = run.verdicts
    root = math.sqrt(6)
    assert (one.judges, one.label) == ({"A": 0.9, "B": 0.4}, 1)
    assert one.p_yes == pytest.approx(root / (1 + root))
    assert (two.judges, two.label) == ({"A": 0.3, "B": 0.6}, 0)
    assert three.p_yes == pytest.approx(0.8)
    assert (four.judges, four.label, four.p_yes) == ({"A": None, "B": None}, 0, None)
    assert [row.score for row in run.scores] == [0.5, 1.0, 0.0]


def test_who_is_named_first_moves_no_byte(run: Run, tmp_path: Path) -> None:
    other = judged(tmp_path / "other", b(), a())
    assert results(other) == results(run)
    assert other.manifest.signature == run.manifest.signature


def test_a_panel_of_one_is_that_judge(tmp_path: Path) -> None:
    alone = evaluate(ROWS, out=tmp_path / "alone", engine=a(), metrics=["context_recall"])
    listed = judged(tmp_path / "listed", a())
    assert results(listed) == results(alone)
    assert listed.manifest.judge == alone.manifest.judge
    assert "judges" not in json.loads((alone.directory / "verdicts.jsonl").read_text().splitlines()[0])


def test_answers_are_stored_as_if_each_judged_alone(run: Run, tmp_path: Path) -> None:
    """The keys of a panel's answers are those of both runs of one judge."""

    def keys(directory: Path) -> set[str]:
        with closing(sqlite3.connect(directory / "run.sqlite")) as store:
            return {key for (key,) in store.execute("SELECT key FROM request")}

    alone = [evaluate(ROWS, out=tmp_path / one.name, engine=one, metrics=["context_recall"]) for one in (a(), b())]
    assert keys(run.directory) == keys(alone[0].directory) | keys(alone[1].directory)
    assert not keys(alone[0].directory) & keys(alone[1].directory)


def test_a_panel_takes_the_answers_of_a_judge_that_judged_alone(tmp_path: Path) -> None:
    evaluate(ROWS, out=tmp_path / "alone", engine=a(), metrics=["context_recall"])
    first, second = a(), b()
    together = judged(tmp_path / "run", first, second, reuse=tmp_path / "alone")
    assert (len(first.asked), len(second.asked)) == (0, 3)
    assert together.manifest.environment["answers"] == {"asked": 3, "reused": {str(tmp_path / "alone"): 3}}


def test_a_judge_alone_takes_its_answers_from_a_panel(run: Run, tmp_path: Path) -> None:
    engine = b()
    evaluate(ROWS, out=tmp_path / "alone", engine=engine, metrics=["context_recall"], reuse=run.directory)
    assert engine.asked == ()


def test_answers_of_other_judges_are_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="are of another judge"):
        judged(tmp_path / "other", Named("C", {}), reuse=run.directory)


@pytest.mark.parametrize("engines", [(a(Two="it is too long"), b()), (b(), a(Two="it is too long"))])
def test_the_failure_of_one_names_it_and_fails_the_unit(tmp_path: Path, engines: Sequence[ScriptedEngine]) -> None:
    """Never the verdict of the others: a mean over those who answered is another panel's."""
    engines = [Named("A", {**A_SAYS, "Two.": "it is too long"}), b()]
    run = judged(tmp_path / "run", *engines, max_failed=1)
    two = run.verdicts[1]
    assert (two.label, two.p_yes, two.error) == (None, None, "A: it is too long")
    assert two.judges == {"A": None, "B": 0.6}
    assert run.scores[0].detail == "no verdict for 1 of 2 units: A: it is too long"


def test_it_verifies_in_any_order(run: Run) -> None:
    for engines in ([a(), b()], [b(), a()]):
        found = verify(run, engine=engines)
        assert (found.result, found.stored_requests, found.verdicts, found.judge_changes) == ("bit-identical", 6, 3, ())


class Like(Named):
    """Says of itself what another engine says, and answers otherwise."""

    def __init__(self, like: Named, name: str, script: dict[str, float | str]) -> None:
        super().__init__(name, script)
        self._like = like

    @property
    def identity(self) -> dict[str, Any]:
        """The other one's."""
        return self._like.identity


def test_a_judge_that_moves_moves_the_rows_of_the_panel(run: Run) -> None:
    """B gives One .01 in place of .4: odds 9 and 1/99, root .302: .232, so the label is 0."""
    found = verify(run, engine=[a(), Like(b(), "B", {"One.": 0.01, "Two.": 0.6})])
    assert (found.result, found.verdicts_moved, found.identical) == ("different", 1, 5)
    [row] = found.rows
    root = math.sqrt(9 / 99)
    assert (row.before, row.after, row.text) == (1, 0, "One.")
    assert row.p_after == pytest.approx(root / (1 + root))


def test_a_model_that_was_renamed_verifies(run: Run) -> None:
    """Rows call a judge what it was called then; its file may have another name now."""
    found = verify(run, engine=[Like(a(), "moved", {**A_SAYS}), b()])
    assert found.result == "bit-identical"


@pytest.mark.parametrize("engines", [[a()], [a(), Named("C", {})], [a(), b(), Named("C", {})]])
def test_other_judges_than_those_of_the_run_are_refused(run: Run, engines: list[ScriptedEngine]) -> None:
    for again in (lambda: verify(run, engine=engines), lambda: rescore(run, engine=engines, threshold=0.3)):
        with pytest.raises(UsageError, match=r"was judged by A \(.*\), B \(.*\), and not by"):
            again()


def test_a_threshold_asks_nobody(run: Run, tmp_path: Path) -> None:
    """Two is .445: at .4 it is 1."""
    engines = [a(), b()]
    again = rescore(run, engine=engines, threshold=0.4, out=tmp_path / "again")
    assert [len(engine.asked) for engine in engines] == [0, 0]
    assert [row.label for row in again.verdicts] == [1, 1, 1, 0]
    assert verify(again, engine=[a(), b()]).result == "bit-identical"


def test_a_panel_is_no_other_panel(run: Run) -> None:
    with pytest.raises(RunDirectoryError, match="belongs to another run"):
        judged(run.directory, a(), Named("C", {}))
    with pytest.raises(RunDirectoryError, match="belongs to another run"):
        judged(run.directory, a())


def test_weights_take_the_place_of_the_mean(tmp_path: Path) -> None:
    """Weight 2 for A and 0 for B: One has odds 81. The rule is signed, and a rescored run keeps it."""
    settings = RunSettings()
    ids = {name: judge_on(engine, settings).id for name, engine in (("A", a()), ("B", b()))}
    rule = PanelRule.weighted({ids["A"]: 2.0, ids["B"]: 0.0}, 0.0)
    planned = plan(ROWS, ["context_recall"], settings)
    run = run_plan(planned, out=tmp_path / "weighted", engine=[a(), b()], rule=rule)
    assert run.verdicts[0].p_yes == pytest.approx(81 / 82)
    assert run.manifest.signature != judged(tmp_path / "mean", a(), b()).manifest.signature
    assert verify(run, engine=[a(), b()]).result == "bit-identical"
    again = rescore(run, engine=[a(), b()], threshold=0.9, out=tmp_path / "again")
    assert again.manifest.judge["panel"] == run.manifest.judge["panel"]
    with pytest.raises(UsageError, match="the weights are not those of these judges"):
        run_plan(planned, out=tmp_path / "other", engine=[a(), Named("C", {})], rule=rule)


def test_judges_of_one_name_are_told_apart_and_one_judge_twice_is_refused() -> None:
    settings = RunSettings()
    judges = [judge_on(ScriptedEngine({"One.": p_yes}), settings) for p_yes in (0.1, 0.2)]
    names = [judge.card.name for judge in panel_of(judges).judges]
    assert sorted(names) == sorted(f"scripted {judge.id}" for judge in judges)
    with pytest.raises(UsageError, match="named twice"):
        panel_of([judges[0], judges[0]])
    with pytest.raises(UsageError, match="no judge was named"):
        panel_of([])


def test_each_judge_has_its_own_windows(tmp_path: Path) -> None:
    """Contexts of 4,400 characters fit A and not B, which is asked about parts of them: the row has a window of B's."""
    rows = [{"id": "a", "reference": "One.", "retrieved_contexts": ["Word word. " * 200, "Word more. " * 200]}]

    def engines() -> list[Named]:
        return [Named("A", {"One.": 0.9}), Named("B", {"One.": 0.7}, capacity=4000)]

    roomy, narrow = given = engines()
    run = evaluate(rows, out=tmp_path / "run", engine=given, metrics=["context_recall"])
    assert len(roomy.asked) == 1 < len(narrow.asked)
    [verdict] = run.verdicts
    assert verdict.window is not None
    assert run.summary.verdicts is not None
    assert run.summary.verdicts.windowed == 1
    assert verify(run, engine=engines()).result == "bit-identical"


def test_the_estimate_says_what_each_judge_takes(tmp_path: Path) -> None:
    evaluate(ROWS, out=tmp_path / "alone", engine=a(), metrics=["context_recall"])
    found = estimate(ROWS, metrics=["context_recall"], engine=[a(), b()], reuse=tmp_path / "alone")
    assert (found.verdicts, found.requests, found.remaining) == (4, 6, 3)
    assert {name: (one.requests, one.answered) for name, one in found.by_judge.items()} == {"A": (3, 3), "B": (3, 0)}
    assert found.tokens == found.by_judge["B"].tokens > 0 == found.by_judge["A"].tokens
    assert estimate(ROWS, metrics=["context_recall"], engine=a()).by_judge == {}


def test_a_comparison_with_one_judge_says_that_judges_differ(run: Run, tmp_path: Path) -> None:
    alone = evaluate(ROWS, out=tmp_path / "alone", engine=a(), metrics=["context_recall"])
    found = compare(alone, run)
    assert [(change.ingredient, change.before, change.after) for change in found.judge_changes] == [
        ("judges", "A", "A + B, combined by mean log odds")
    ]
    assert any(warning.startswith("the judges differ (judges): ") for warning in found.warnings)
    assert compare(run, judged(tmp_path / "same", b(), a())).warnings == ()


def test_the_card_names_all(run: Run) -> None:
    assert run.judge.name == "A + B"
    assert str(Run.open(run.directory).judge) == "A + B, combined by mean log odds"
