"""What a metric is: a definition that asks and counts, and never calls a model.

    steps    yields tasks  ──>  is sent one verdict for each, in their order  ──>  ...  ──>  returns the outcome

A metric that needs no judge asks nothing: it begins with `yield from ()` and returns its outcome. A metric is a value:
its name with its options, and its version, say what its numbers mean. One that cannot score a sample raises
SampleError, which says why.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Protocol

from localjudge.types import Outcome, Sample, Span, Task, Verdict

Steps = Generator[Sequence[Task], Sequence[Verdict], Outcome]
"""Yields tasks, is sent one verdict for each, returns the outcome."""

Sentences = Callable[[str], Sequence[Span]]
"""Cuts a text into verbatim sentences."""


class Metric(Protocol):
    """What every metric has."""

    @property
    def name(self) -> str:
        """The name under which it is asked for and reported, with its options where they are not the default."""
        ...

    @property
    def version(self) -> int:
        """Changes whenever the same data and verdicts could give another number."""
        ...

    @property
    def required_fields(self) -> frozenset[str]:
        """Fields of the sample that the metric cannot do without; where one is null, the outcome is `Undefined`."""
        ...

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Ask about the sample and turn the verdicts into an outcome."""
        ...
