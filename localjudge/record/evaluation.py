"""What came of one metric on one sample: what a run hands to its record."""

from typing import NamedTuple

from localjudge.types import NoAnswer, Outcome, Unit, Verdict


class JudgedUnit(NamedTuple):
    """A unit of text and what was found, or why nothing was."""

    unit: Unit
    verdict: Verdict | NoAnswer


class Evaluation(NamedTuple):
    """One metric on one sample: the outcome and everything that was judged for it, in the order it was asked."""

    sample_id: str
    metric: str
    outcome: Outcome
    units: tuple[JudgedUnit, ...] = ()
