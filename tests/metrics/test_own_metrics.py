import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from localjudge import (
    Criterion,
    InputError,
    Metric,
    OutOfResource,
    Run,
    Sample,
    ScriptedEngine,
    evaluate,
)
from localjudge.metrics import (
    Failed,
    Outcome,
    Relevance,
    SampleError,
    Scored,
    Sentences,
    Span,
    Steps,
    Undefined,
    Unit,
    catalog,
)
from localjudge.text import Segmenter

sentences = Segmenter()

UNIT = Unit(kind="sentence", index=0, source="response", span=Span(start=0, end=1, text="a"))
TASK = Relevance(unit=UNIT, user_input="?")


@dataclass(frozen=True)
class Judged:
    """A metric with these steps."""

    does: Callable[[], Any]
    name: str = "own"
    version: int = 1
    required_fields: frozenset[str] = frozenset()

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Yield the given steps."""
        return self.does()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Computed(Judged):
    """A metric without questions."""

    does: Callable[..., Any]

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Return the outcome of the given function without a question."""
        yield from ()
        return self.does(sample)  # type: ignore[no-any-return]


def evaluated(metric: Judged, *ids: str) -> Run:
    """Return a run of the metric on samples with these ids, about which each answer is 1."""
    rows = [{"id": identifier, "response": "a"} for identifier in ids]
    engine = ScriptedEngine({}, default=0.9)
    return evaluate(rows, metrics=[metric], engine=engine, out=False, max_failed=len(rows))


def reason(metric: Judged) -> str:
    [score] = evaluated(metric, "a").scores
    assert score.status == "failed"
    assert score.detail is not None
    return score.detail


def test_an_exception_fails_the_sample_with_file_and_line() -> None:
    """The last line in the metric's own package, not in a library or in localjudge."""

    def divide(sample: Sample) -> Outcome:
        if sample.id == "bad":
            json.loads("{")
        return Scored(value=1)

    bad, good = evaluated(Computed(divide), "bad", "good").scores
    line = divide.__code__.co_firstlineno + 2
    assert bad.status == "failed"
    assert bad.detail is not None
    assert bad.detail.startswith("json.decoder.JSONDecodeError: Expecting property name")
    assert bad.detail.endswith(f"(test_own_metrics.py:{line})")
    assert (good.status, good.score) == ("scored", 1)


@pytest.mark.parametrize("tasks", ["x", [3]])
def test_a_step_that_is_not_a_task_fails_the_sample(tasks: Any) -> None:
    assert (
        reason(Judged(lambda: (yield tasks))) == f"the metric asked {tasks[0]!r}, which is no task"
    )
    # `next` of an empty iterator, outside of a generator.
    assert "StopIteration" in reason(Judged(lambda: next(iter(()))))


def test_an_exception_between_rounds_fails_the_sample() -> None:
    def steps() -> Steps:
        yield [TASK]
        raise LookupError

    run = evaluated(Judged(steps), "a")
    [score] = run.scores
    line = steps.__code__.co_firstlineno + 2
    expected = ("failed", f"LookupError (test_own_metrics.py:{line})")
    assert (score.status, score.detail) == expected
    assert [verdict.label for verdict in run.verdicts] == [1]


def raising(error: BaseException, name: str = "own") -> Computed:
    def fail(_: Sample) -> Outcome:
        raise error

    return Computed(fail, name=name)


@pytest.mark.parametrize(
    ("error", "pattern"),
    [
        # One line of 300 characters, without the place.
        (
            ValueError("one\n two\x1b[31m\n" + "x" * 1000),
            r"ValueError: one two.{275}xxx\.\.\. \(test_own_metrics.py:\d+\)",
        ),
        # An address in memory differs in every process, and equal inputs must give equal bytes.
        (ValueError(f"no {object()} wanted"), r"ValueError: no <object object> wanted \(.*"),
        # A metric may say itself why a sample fails.
        (SampleError("too long", hint="make it shorter"), r"too long \(make it shorter\)"),
    ],
)
def test_the_reason_is_one_line_equal_in_every_process(error: Exception, pattern: str) -> None:
    assert re.fullmatch(pattern, reason(raising(error)))


@pytest.mark.parametrize("value", [1.5, -0.1, float("nan"), float("inf"), "much"])
def test_a_value_outside_0_to_1_fails_the_sample(value: Any) -> None:
    assert "Scored value" in reason(Computed(lambda _: Scored(value=value)))


@pytest.mark.parametrize(("returned", "what"), [(0.5, "float"), (None, "NoneType"), (True, "bool")])
def test_an_invalid_outcome_fails_the_sample(returned: Any, what: str) -> None:
    expected = f"the metric returned {what}, not Scored, Undefined or Failed"
    assert reason(Computed(lambda _: returned)) == expected

    def steps() -> Steps:
        yield [TASK]
        return returned  # type: ignore[no-any-return]

    assert reason(Judged(steps)) == expected


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError, OutOfResource])
def test_errors_unrelated_to_the_sample_end_the_run(error: type[BaseException]) -> None:
    """An interrupt, full memory or a full disk affects every number."""
    with pytest.raises(error):
        evaluated(raising(error("no room")), "a")


@pytest.mark.parametrize(
    "outcome",
    [Undefined(reason="x\udcff"), Failed(reason="x\udcff"), Scored(value=1, detail="x\udcff")],
)
def test_a_lone_surrogate_of_a_metric_is_escaped(outcome: Outcome) -> None:
    """A file with it could not be read again."""
    run = evaluated(Computed(lambda _: outcome), "a")
    assert [score.detail for score in Run.open(run.directory).scores] == ["x\\udcff"]
    assert r"cannot read \udcff" in reason(raising(ValueError("cannot read \udcff")))
    engine = ScriptedEngine({}, default="x\udcff")
    rows = [{"response": "It is in Ulm.", "contexts": ["Ulm"]}]
    run = evaluate(rows, engine=engine, metrics="faithfulness", out=False, max_failed=1)
    assert [verdict.error for verdict in Run.open(run.directory).verdicts] == ["x\\udcff"]


class Fixed:
    """A metric that is no dataclass."""

    name = "own"
    version = 1
    required_fields = frozenset({"response"})

    def __init__(self, value: float, words: tuple[str, ...] = ()) -> None:
        self.value = value
        self.words = words
        self.calls = 0

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Return the value."""
        yield from ()
        return Scored(value=self.value)


def test_a_metric_with_other_values_has_its_own_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one opened the finished run of the first."""
    monkeypatch.chdir(tmp_path)
    engine = ScriptedEngine({}, default=0.9)
    rows = [{"response": "a"}]
    means: list[float | None] = []
    directories: set[Path] = set()
    for metric in (Fixed(1.0), Fixed(0.0), Fixed(1.0, ("Ulm",)), Fixed(1.0)):
        run = evaluate(rows, metrics=[metric], engine=engine)
        means.append(run["own"].mean)
        directories.add(run.directory)
    assert means == [1.0, 0.0, 1.0, 1.0]
    assert len(directories) == 3


def test_a_run_with_an_own_metric_has_a_certificate(tmp_path: Path) -> None:
    engine = ScriptedEngine({}, default=0.9)
    run = evaluate([{"response": "a"}], metrics=[Fixed(1.0)], engine=engine, out=tmp_path / "run")
    assert run.verify(metrics=[Fixed(1.0)], engine=engine)
    assert run.certificate(tmp_path / "c.html", metrics=[Fixed(1.0)]).problems == ()
    with pytest.raises(InputError, match="the metric own of the run is not installed"):
        run.certificate(tmp_path / "c.html")


def test_a_version_is_a_whole_number() -> None:
    with pytest.raises(InputError, match="version must be a whole number, got True"):
        evaluated(Computed(lambda _: Scored(value=1), version=True), "a")


def test_a_changed_built_in_metric_is_not_the_built_in_one() -> None:
    """It ran under the signature of the built-in metric."""
    unchanged: Any = catalog.example("faithfulness")
    changed = replace(unchanged, steps=Fixed(0.1).steps)
    rows = [{"response": "It is in Ulm.", "contexts": ["Ulm"]}]
    engine = ScriptedEngine({}, default=0.9)
    with pytest.raises(InputError, match="'faithfulness' is a built-in metric"):
        evaluate(rows, metrics=[changed], engine=engine, out=False)
    run = evaluate(rows, metrics=[unchanged], engine=engine, out=False)
    assert run["faithfulness"].mean == 1.0


@pytest.mark.parametrize("name", catalog.our_names())
def test_an_object_of_a_built_in_metric_is_as_good_as_its_name(name: str) -> None:
    row = {
        "user_input": "Where?",
        "retrieved_contexts": ["It is in Ulm."],
        "reference_contexts": ["It is in Ulm."],
        "reference": "In Ulm.",
        "response": "It is in Ulm [1].",
    }
    metric = catalog.example(name)
    engine = ScriptedEngine({}, default=0.9)
    by_object, by_name = (
        evaluate([row], metrics=[each], engine=engine, out=False) for each in (metric, metric.name)
    )
    assert by_object.manifest.signature == by_name.manifest.signature
    assert by_object.scores == by_name.scores


@pytest.mark.parametrize("name", ["faithfulness_expected", "response", "sample_id"])
def test_a_metric_with_the_column_of_another_value_is_refused(name: str) -> None:
    """Exports had the values of one under the name of the other."""
    rows = [{"response": "It is in Ulm.", "contexts": ["Ulm"]}]
    both: list[str | Metric] = ["faithfulness", Criterion(name=name, question="Is it short?")]
    with pytest.raises(InputError, match=f"needs the column {name}"):
        evaluate(rows, metrics=both, engine=ScriptedEngine({}, default=0.9), out=False)


def test_a_bug_in_a_built_in_metric_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> Scored:
        raise KeyError("no room")

    rows = [{"response": "It is in Ulm.", "contexts": ["Ulm"]}]
    with monkeypatch.context() as patch:
        for name in ("share", "fraction"):
            patch.setattr(Scored, name, fail)
        with pytest.raises(KeyError, match="no room"):
            evaluate(
                rows, metrics="faithfulness", engine=ScriptedEngine({}, default=0.9), out=False
            )


def generator_of_tasks() -> Steps:
    verdicts = yield (task for task in [TASK, TASK])  # type: ignore[misc]
    return Scored.fraction(verdict.label for verdict in verdicts)


def list_of_tasks() -> Steps:
    verdicts = yield [TASK, TASK]
    return Scored.fraction(verdict.label for verdict in verdicts)


@pytest.mark.parametrize("steps", [generator_of_tasks, list_of_tasks])
def test_a_metric_may_ask_by_a_generator(steps: Callable[[], Any]) -> None:
    """The check of the tasks consumed it, so that no question was asked."""
    run = evaluated(Judged(steps), "a")
    assert [verdict.label for verdict in run.verdicts] == [1, 1]
    assert [score.score for score in run.scores] == [1.0]
