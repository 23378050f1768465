"""What a metric is: a definition that asks and counts, and never calls a model.

A *judged* metric is a generator: it yields a list of tasks, is sent their verdicts in the same order, and returns the
outcome. A *computed* metric needs no judge. Both are frozen values with a name, a version that changes when their
numbers can, and the fields they need. A metric that cannot score a sample raises SampleError, which says why.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Protocol

from localjudge.types import Outcome, Sample, Span, Task, Verdict

Steps = Generator[Sequence[Task], Sequence[Verdict], Outcome]
"""Yields tasks, is sent one verdict for each, returns the outcome."""

Sentences = Callable[[str], Sequence[Span]]
"""Cuts a text into verbatim sentences."""


class Metric(Protocol):
    """What every metric says of itself."""

    @property
    def name(self) -> str:
        """The name under which it is asked for and reported."""
        ...

    @property
    def version(self) -> int:
        """Changes whenever the same data and verdicts could give another number."""
        ...

    @property
    def requires(self) -> frozenset[str]:
        """Fields of the sample that the metric cannot do without."""
        ...


class JudgedMetric(Metric, Protocol):
    """A metric that needs verdicts."""

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Ask about the sample and turn the verdicts into an outcome."""
        ...


class ComputedMetric(Metric, Protocol):
    """A metric that needs no judge."""

    def score(self, sample: Sample) -> Outcome:
        """Outcome for the sample."""
        ...
