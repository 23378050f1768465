"""Tasks to verdicts through judge, engine and store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from localjudge.engine import ScriptedEngine
from localjudge.engine.scripted import unit_text
from localjudge.judge import prompts
from localjudge.judge.judge import PromptJudge
from localjudge.record.store import Store
from localjudge.run.ask import AskedTask, Asker
from localjudge.run.progress import Silence
from localjudge.text import sentences
from localjudge.types import Attribution, NoAnswer, Span, Task, Unit, Verdict

JUDGE = PromptJudge(prompts.load("reference"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "run.sqlite")
    yield store
    store.close()


def asker(engine: ScriptedEngine, store: Store, threshold: float = 0.5) -> Asker:
    return Asker(JUDGE, engine, store, threshold=threshold, sentences=sentences, progress=Silence())


def asked(text: str, *contexts: str, metric: str = "context_recall", position: int = 0) -> AskedTask:
    span = Span(start=0, end=len(text), text=text)
    unit = Unit(kind="statement", index=position, source="reference", span=span)
    task: Task = Attribution(unit=unit, contexts=contexts or ("A context.",))
    return AskedTask("a", metric, position, task)


@pytest.mark.parametrize(("p_yes", "label"), [(0.5, 1), (0.4999, 0)])
def test_a_verdict_is_yes_from_the_threshold_on(store: Store, p_yes: float, label: int) -> None:
    engine = ScriptedEngine({}, default=p_yes)
    (verdict,) = asker(engine, store).verdicts([asked("One.")])
    assert isinstance(verdict, Verdict)
    assert (verdict.label, verdict.p_yes) == (label, p_yes)


def test_the_same_question_is_asked_once_whichever_metrics_want_it(store: Store) -> None:
    engine = ScriptedEngine({}, default=1.0)
    tasks = [asked("One."), asked("One.", metric="faithfulness"), asked("Two.", position=1)]
    verdicts = asker(engine, store).verdicts(tasks)
    assert [unit_text(request) for request in engine.asked] == ["One.", "Two."]
    assert len(verdicts) == 3


def test_what_is_stored_is_not_asked_again(store: Store) -> None:
    """Neither answers nor the reason why there is none."""
    engine = ScriptedEngine({"One.": 0.9, "Two.": "broken"})
    tasks = [asked("One."), asked("Two.", position=1)]
    before = asker(engine, store).verdicts(tasks)
    second = ScriptedEngine({"One.": 0.9, "Two.": "broken"})
    again = asker(second, store)
    assert again.verdicts(tasks) == before == [Verdict(label=1, p_yes=0.9), NoAnswer(error="broken")]
    assert (again.asked, second.asked) == (0, ())


def test_another_threshold_moves_labels_of_stored_answers(store: Store) -> None:
    engine = ScriptedEngine({}, default=0.6)
    asker(engine, store).verdicts([asked("One.")])
    (verdict,) = asker(engine, store, threshold=0.7).verdicts([asked("One.")])
    assert verdict == Verdict(label=0, p_yes=0.6)


@pytest.mark.parametrize("contexts", [("",), (" \n", "\t")])
def test_without_context_text_the_label_is_0_and_nobody_is_asked(store: Store, contexts: tuple[str, ...]) -> None:
    engine = ScriptedEngine({})
    assert asker(engine, store).verdicts([asked("One.", *contexts)]) == [Verdict(label=0)]
    assert engine.asked == ()


def test_what_does_not_fit_is_judged_in_windows_and_any_may_support_it(store: Store) -> None:
    """Two contexts of 300 in a capacity of 600: 300 + 300 + the rest do not fit, one does."""
    engine = ScriptedEngine(_yes_to_b, capacity=600)
    (verdict,) = asker(engine, store).verdicts([asked("One.", "a" * 300, "b" * 300)])
    assert verdict == Verdict(label=1, p_yes=0.8, window=1)
    assert len(engine.asked) == 2


def _yes_to_b(request: object) -> float:
    return 0.8 if "bbb" in str(request) else 0.1
