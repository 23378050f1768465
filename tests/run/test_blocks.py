"""A run in blocks: tasks to verdicts through judge, engine and store, with files independent of block size."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import localjudge
from localjudge.engine import ScriptedEngine
from localjudge.engine.scripted import unit_text
from localjudge.judge import profile as prompts
from localjudge.judge.wording import PromptWriter
from localjudge.progress import Silence
from localjudge.record.store import Store
from localjudge.run import loop as run_blocks
from localjudge.run.judges import wrap_engine
from localjudge.run.loop import Blocks, TaskRef, blocks
from localjudge.run.settings import RunSettings
from localjudge.text import Segmenter
from localjudge.types import Attribution, NoAnswer, Sample, Span, Task, Unit, Verdict, VerdictRule

JUDGE = PromptWriter(prompts.load_profile("reference"))
SEGMENTER = Segmenter("en")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "run.sqlite")
    yield store
    store.close()


def judging(engine: ScriptedEngine, store: Store, threshold: float = 0.5, least: float = 0.0) -> Blocks:
    opened = wrap_engine(engine, RunSettings())._replace(judge=JUDGE)
    rule = VerdictRule(threshold, least)
    return Blocks(opened, store, metrics=[], sentences=SEGMENTER, rule=rule, progress=Silence())


def asked(text: str, *contexts: str, metric: str = "context_recall", position: int = 0) -> TaskRef:
    span = Span.whole(text)
    unit = Unit(kind="statement", index=position, source="reference", span=span)
    task: Task = Attribution(unit=unit, contexts=contexts or ("A context.",))
    return TaskRef("a", metric, position, task)


def test_metrics_share_equal_questions(store: Store) -> None:
    engine = ScriptedEngine({}, default=1.0)
    tasks = [asked("One."), asked("One.", metric="faithfulness"), asked("Two.", position=1)]
    verdicts = judging(engine, store).verdicts(tasks)
    assert [unit_text(request) for request in engine.asked] == ["One.", "Two."]
    assert len(verdicts) == 3


def test_stored_answers_are_not_asked_again(store: Store) -> None:
    engine = ScriptedEngine({"One.": 0.9, "Two.": "broken"})
    tasks = [asked("One."), asked("Two.", position=1)]
    before = judging(engine, store).verdicts(tasks)
    second = ScriptedEngine({"One.": 0.9, "Two.": "broken"})
    again = judging(second, store)
    assert again.verdicts(tasks) == before == [Verdict(label=1, p_yes=0.9, legal_mass=1), NoAnswer(error="broken")]
    assert (again.asked, second.asked) == (0, ())


@pytest.mark.parametrize("contexts", [("",), (" \n", "\t")])
def test_without_context_text_the_label_is_0_without_a_question(store: Store, contexts: tuple[str, ...]) -> None:
    engine = ScriptedEngine({})
    assert judging(engine, store).verdicts([asked("One.", *contexts)]) == [Verdict(label=0)]
    assert engine.asked == ()


def test_long_contexts_are_judged_in_windows_and_any_may_support(store: Store) -> None:
    """Two contexts of 300 in a capacity of 600: 300 + 300 + the rest do not fit, one does."""
    engine = ScriptedEngine(_yes_to_b, capacity=600)
    (verdict,) = judging(engine, store).verdicts([asked("One.", "a" * 300, "b" * 300)])
    assert verdict == Verdict(label=1, p_yes=0.8, legal_mass=1, window=1)
    assert len(engine.asked) == 2


def _yes_to_b(request: object) -> float:
    return 0.8 if "bbb" in str(request) else 0.1


def test_blocks_begin_small_and_hold_every_sample_once() -> None:
    """16 at first, for quick results; then twice as many each time, up to 256."""
    samples = [Sample(id=str(number)) for number in range(1000)]
    found = list(blocks(samples))
    assert [len(block) for block in found] == [16, 32, 64, 128, 256, 256, 248]
    assert [sample for block in found for sample in block] == samples


def test_block_size_changes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of one sample give the files of a single block, with some questions shared."""
    rows = [
        {"id": str(number), "retrieved_contexts": ["It rains."], "reference": f"It is {number % 7}. So be it."}
        for number in range(40)
    ]
    written = []
    for size in (1, 64):
        monkeypatch.setattr(run_blocks, "_FIRST_BLOCK", size)
        monkeypatch.setattr(run_blocks, "_LARGEST_BLOCK", size)
        engine = ScriptedEngine({"It is 3.": 0.2, "So be it.": "broken"}, default=0.9)
        run = localjudge.evaluate(rows, metrics=["context_recall"], engine=engine, out=tmp_path / str(size))
        names = ("scores.jsonl", "verdicts.jsonl", "summary.json")
        written.append([(run.directory / name).read_bytes() for name in names])
    assert written[0] == written[1]
