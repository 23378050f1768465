"""Metrics of other packages: found by their entry points, checked, and run with care.

Their code may raise anything, return anything and yield anything. All of it becomes an error with a
reason, of the metric or of one sample.
"""

import inspect
import re
import traceback
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from localjudge.errors import InputError, LocaljudgeError, SampleError
from localjudge.metrics.metric import Metric, Sentences, Steps
from localjudge.types import Failed, Outcome, Sample, Scored, Task, Undefined

_MAX_MESSAGE = 300
_NAME = re.compile(r"[^\s<>=(),]+(\([^()]*\))?")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # differs in every process
_PARTS = ("name", "version", "required_fields", "steps")


def installed_metrics() -> dict[str, EntryPoint]:
    """Return the entry points of metrics by their names."""
    return {point.name: point for point in entry_points(group="localjudge.metrics")}


def load_installed(point: EntryPoint) -> Metric:
    """Load a metric. Raises InputError if its package cannot be imported, or it is no metric."""
    try:
        metric: Metric = point.load()
    except Exception as error:  # the package's own code may raise anything
        raise InputError(
            f"the metric {point.name!r} ({point.value}) cannot be loaded: {_message(error)}",
            hint="repair or remove the package that installs it",
        ) from error
    problem = metric_problem(metric)
    if problem is None and metric.name != point.name:
        problem = f"expected an object with the name {point.name!r}"
    if problem:
        hint = "for a complete example: python -m pydoc localjudge.metrics"
        raise InputError(f"{point.value} is not a metric: {problem}", hint=hint)
    return metric


def metric_problem(metric: Any) -> str | None:
    """Return why an object cannot be used as a metric, or None."""
    missing = [part for part in _PARTS if not hasattr(metric, part)]
    if missing:
        return f"it lacks {', '.join(missing)}"
    if isinstance(metric, type):
        return "it is a class"
    if not isinstance(metric.required_fields, frozenset | set):
        return f"required_fields must be a frozenset, got {metric.required_fields!r:.80}"
    if not isinstance(metric.version, int):
        return f"version must be a whole number, got {metric.version!r:.80}"
    if not isinstance(metric.name, str) or not _NAME.fullmatch(metric.name):
        return f"its name must be one word, got {metric.name!r:.80}"
    return None


def guarded_steps(metric: Metric, sample: Sample, sentences: Sentences) -> Steps:
    """Run the metric's steps. Any exception becomes a SampleError with its file and line."""
    try:
        outcome = yield from _checked_tasks(metric.steps(sample, sentences))
    except (LocaljudgeError, MemoryError):
        raise
    except Exception as error:  # the package's own code may raise anything
        file = inspect.getfile(metric.steps)
        location = ""
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename == file:
                location = f" ({Path(file).name}:{frame.lineno})"
        raise SampleError(f"{_message(error)}{location}") from error
    if not isinstance(outcome, Scored | Undefined | Failed):
        raise SampleError(
            f"the metric returned {type(outcome).__name__}, not Scored, Undefined or Failed",
        )
    return outcome


def _checked_tasks(steps: Steps) -> Steps:
    """Run the steps. Raises SampleError for anything yielded that is no task."""
    try:
        tasks: Sequence[Task] = tuple(next(steps))  # may be a generator, and is read several times
        while True:
            for task in tasks:
                if not isinstance(task, Task):
                    raise SampleError(f"the metric asked {task!r:.80}, which is no task")
            verdicts = yield tasks
            tasks = tuple(steps.send(verdicts))
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome


def _message(error: Exception) -> str:
    """Return the error in one line, without addresses in memory."""
    text = "".join(traceback.format_exception_only(error))
    line = " ".join(_ADDRESS.sub("", text).split())
    if len(line) > _MAX_MESSAGE:
        return f"{line[: _MAX_MESSAGE - 3]}..."
    return line
