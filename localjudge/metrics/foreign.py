"""Metrics of other packages: what one raises fails the sample that it was working on, and the run goes on.

raises ZeroDivisionError   ->   Failed("ZeroDivisionError: division by zero (their_metrics.py:17)")
"""

import inspect
import re
import traceback
from importlib.metadata import EntryPoint
from pathlib import Path

from localjudge.errors import LocaljudgeError, SampleError, UsageError
from localjudge.metrics.metric import Metric, Sentences, Steps
from localjudge.types import Failed, Sample, Scored, Undefined

_LONGEST_MESSAGE = 300
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # another one in every process


def load(point: EntryPoint) -> Metric:
    """The metric that an entry point names. Raises UsageError if it cannot be loaded or is not a metric."""
    try:
        metric: Metric = point.load()
    except Exception as error:  # the package's own code may raise anything
        raise UsageError(
            f"the metric {point.name!r} ({point.value}) cannot be loaded: {_message(error)}",
            hint="repair or remove the package that installs it",
        ) from error
    lacks = [part for part in ("name", "version", "required_fields", "steps") if not hasattr(metric, part)]
    if isinstance(metric, type) or lacks or metric.name != point.name:
        problem = f"it lacks {', '.join(lacks)}" if lacks else f"expected an object whose name is {point.name!r}"
        hint = "a complete one is shown by: python -m pydoc localjudge.metrics"
        raise UsageError(f"{point.value} is not a metric: {problem}", hint=hint)
    return metric


def guarded_steps(metric: Metric, sample: Sample, sentences: Sentences) -> Steps:
    """The metric's steps; what they raise becomes a SampleError that says what and where."""
    try:
        outcome = yield from metric.steps(sample, sentences)
    except (LocaljudgeError, MemoryError):
        raise
    except Exception as error:  # the package's own code may raise anything
        file = inspect.getfile(type(metric).steps)
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        raise SampleError(f"{_message(error)} ({Path(file).name}:{lines[-1]})" if lines else _message(error)) from error
    if not isinstance(outcome, Scored | Undefined | Failed):
        raise SampleError(f"the metric returned {type(outcome).__name__}, not Scored, Undefined or Failed")
    return outcome


def _message(error: Exception) -> str:
    """Type and message in one line of bounded length."""
    line = " ".join(_ADDRESS.sub("", "".join(traceback.format_exception_only(error))).split())
    return line if len(line) <= _LONGEST_MESSAGE else f"{line[: _LONGEST_MESSAGE - 3]}..."
