"""Metrics of other packages: the edge to code that is not ours, and that may do anything.

    raises ZeroDivisionError   ->   Failed("ZeroDivisionError: division by zero (their_metrics.py:17)")

What goes wrong in such a metric fails the sample that it was working on, with the place in its own code, and the run
goes on. A metric of ours is not guarded: a bug in it would be in all its numbers, and has to be seen.
"""

import re
import traceback
from collections.abc import Callable, Generator, Sequence
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import ValidationError

from localjudge.errors import LocaljudgeError, SampleError, UsageError
from localjudge.metrics.metric import Metric, Sentences, Steps
from localjudge.types import Failed, Outcome, Sample, Scored, Task, Undefined, Verdict

_MOST_ROUNDS = 1_000
_LONGEST_MESSAGE = 300
# Another one in every process, and the same inputs must give the same bytes.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_RENAMED = {
    "requires": "`requires` is called `required_fields`",
    "score": "`score(sample)` is now `steps(sample, sentences)`: let it begin with `yield from ()`",
}
_NOT_THEIRS = {"localjudge", "importlib"}
_Result = TypeVar("_Result")


def load(point: EntryPoint) -> Metric:
    """The metric that an entry point names. Raises UsageError if it cannot be loaded or is not a metric."""
    try:
        metric: Metric = _attempt(point.load)
    except SampleError as error:
        raise UsageError(
            f"the metric {point.name!r} ({point.value}) cannot be loaded: {error}",
            hint="mend or remove the package that installs it",
        ) from error
    if problem := _problem(metric, point.name):
        raise UsageError(
            f"{point.value} is not a metric: {problem}",
            hint="a whole one is shown by: python -m pydoc localjudge.metrics",
        )
    return metric


def guarded_steps(metric: Metric, sample: Sample, sentences: Sentences) -> Steps:
    """The metric's steps; whatever goes wrong in them is a SampleError that says what and where."""
    steps = _own_steps(metric, sample, sentences)
    verdicts: Sequence[Verdict] | None = None
    rounds = 0
    while True:
        try:
            tasks = _attempt(partial(steps.send, verdicts))  # type: ignore[arg-type]
        except StopIteration as finished:
            return _outcome(finished.value)
        if rounds == _MOST_ROUNDS:
            raise SampleError(f"the metric still asks after {_MOST_ROUNDS:,} rounds")
        rounds += 1
        verdicts = yield _tasks(tasks)


def _own_steps(metric: Metric, sample: Sample, sentences: Sentences) -> Steps:
    steps = metric.steps(sample, sentences)
    if not isinstance(steps, Generator):
        raise SampleError(
            f"the metric's steps returned {type(steps).__name__}, and are not a generator",
            hint="a metric that asks nothing begins with: yield from ()",
        )
    return (yield from steps)


def _attempt(call: Callable[[], _Result]) -> _Result:
    """What the foreign code returns. Raises SampleError for what it raises, unless that is about more than a sample."""
    try:
        return call()
    except (StopIteration, LocaljudgeError, MemoryError):
        raise
    except Exception as error:  # code that is not ours may raise anything
        raise SampleError(f"{_message(error)}{_place(error)}") from error


def _problem(metric: Any, name: str) -> str | None:
    """Why something is not a metric that can be computed under the name."""
    if isinstance(metric, type):
        return "it is a class, not one of its objects"
    missing = [part for part in ("name", "version", "required_fields", "steps") if not hasattr(metric, part)]
    if missing:
        changes = [change for part, change in _RENAMED.items() if hasattr(metric, part)]
        return f"it lacks {', '.join(missing)}" + (f" ({'; '.join(changes)})" if changes else "")
    if metric.name != name:
        return f"it calls itself {metric.name!r}, and its entry point is called {name!r}"
    if not isinstance(metric.required_fields, frozenset):
        return "required_fields is not a frozenset"
    return None


def _tasks(found: object) -> Sequence[Task]:
    if not isinstance(found, list | tuple):
        raise SampleError(f"the metric asked {type(found).__name__}, not a list of tasks")
    for task in found:
        if not isinstance(task, get_args(Task)):
            raise SampleError(f"the metric asked a list with {type(task).__name__}, not a list of tasks")
    return found


def _outcome(found: object) -> Outcome:
    if not isinstance(found, Scored | Undefined | Failed):
        raise SampleError(f"the metric returned {type(found).__name__}, not Scored, Undefined or Failed")
    try:
        return type(found).model_validate(found.model_dump())
    except ValidationError as error:
        raise SampleError(_message(error)) from error


def _message(error: Exception) -> str:
    """Type and message in one line of bounded length."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        said = f"{error.title}({'.'.join(map(str, first['loc']))}={first['input']!r}): {first['msg']}"
    else:
        said = "".join(traceback.format_exception_only(error))
    line = " ".join(_ADDRESS.sub("", said).split())
    return line if len(line) <= _LONGEST_MESSAGE else f"{line[: _LONGEST_MESSAGE - 3]}..."


def _place(error: Exception) -> str:
    """The last line that was reached in the metric's own package: that of the first frame that is not ours."""
    frames = [
        (frame.f_globals.get("__name__", "").partition(".")[0], Path(frame.f_code.co_filename).name, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    outside = [frame for frame in frames if frame[0] not in _NOT_THEIRS]
    own = [f"{file}:{line}" for package, file, line in outside if package == outside[0][0]]
    return f" ({own[-1]})" if own else ""
