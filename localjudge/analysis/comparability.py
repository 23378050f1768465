"""What keeps two runs from being compared like with like: said beside every comparison, never a reason to refuse it.

nothing in common      samples without a partner      other judges      other questions in a pair      other groups
failed samples
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from localjudge.analysis.pairing import Pairing
from localjudge.analysis.sample_columns import Groups
from localjudge.record.manifest import Difference, differences
from localjudge.record.results import Run


def judge_changes(baseline: Run, run: Run) -> tuple[Difference, ...]:
    """What differs between the judges, metrics aside that only one of the runs has.

    Of a combined run and one of other judges, who they are, as `judges`: all else of them differs, too.
    """
    one_sided = baseline.summary.metrics.keys() ^ run.summary.metrics.keys()
    aside = tuple(f"metrics.{name}." for name in one_sided)
    before, after = baseline.manifest.judge, run.manifest.judge
    if _combined_judges(before) != _combined_judges(after):
        before, after = _by_their_names(baseline), _by_their_names(run)
    found = differences(before, after)
    return tuple(change for change in found if not change.ingredient.startswith(aside))


def _combined_judges(judge: Mapping[str, Any]) -> set[str]:
    return set(judge.get("combined", {}).get("judges", ()))


def _by_their_names(run: Run) -> dict[str, Any]:
    """The part of the judge with its names in place of all that is of one judge."""
    rest = {name: value for name, value in run.manifest.judge.items() if name not in ("engine", "judge", "combined")}
    return {**rest, "judges": str(run.summary.judge)}


def other_questions(pairing: Pairing) -> int:
    """How many pairs do not ask the same, or should not have found the same."""
    return int(np.count_nonzero(~pairing.same_question))


def warnings(
    baseline: Run, run: Run, pairing: Pairing, groups: tuple[Groups, Groups], judges: Sequence[Difference]
) -> Iterator[str]:
    """One sentence for each reason for caution. `groups` are those of the baseline and those of the new run."""
    if not len(pairing.after):
        yield "the runs have no sample in common, by id, content or question: give the rows of both an id column"
    if not baseline.summary.metrics.keys() & run.summary.metrics.keys():
        yield "the runs have no metric in common"
    yield from _unpaired_warnings(baseline, run, pairing)
    if judges:
        names = ", ".join(change.ingredient for change in judges)
        yield f"the judges differ ({names}): a difference may be theirs, not that of what they judged"
    if others := other_questions(pairing):
        yield f"paired samples with another question or reference: {others:,}"
    yield from _group_warnings(*groups, pairing)
    yield from _failure_warnings("the baseline", baseline)
    yield from _failure_warnings("the new run", run)


def _unpaired_warnings(baseline: Run, run: Run, pairing: Pairing) -> Iterator[str]:
    pairs = len(pairing.after)
    if pairs and (len(pairing.only_before) or len(pairing.only_after)):
        yield (
            f"{no_partner(len(pairing.only_before), len(pairing.only_after), pairs)}; "
            f"means are of the {pairs:,} pairs; "
            f"{_means_of_all('A', baseline, run)}; {_means_of_all('B', run, baseline)}"
        )


def no_partner(only_before: int, only_after: int, pairs: int) -> str:
    """How many samples of each run are in no pair, of how many."""
    return (
        f"{only_before:,} of {only_before + pairs:,} samples of A and {only_after:,} of {only_after + pairs:,} of B "
        "have no partner"
    )


def _means_of_all(which: str, run: Run, other: Run) -> str:
    """The means of the metrics that both runs have, over all samples of one."""
    means = {name: metric.mean for name, metric in run.summary.metrics.items() if name in other.summary.metrics}
    shown = (f"{name} {'-' if mean is None else f'{mean:.3f}'}" for name, mean in means.items())
    return f"all of {which}: {', '.join(shown)}"


def _group_warnings(before: Groups, after: Groups, pairing: Pairing) -> Iterator[str]:
    if (before is None) != (after is None):
        yield "one of the runs has groups of samples and the other has none: samples are taken one by one"
    if before is None or after is None:
        return
    if regrouped := int(np.count_nonzero(before[pairing.before] != after[pairing.after])):
        yield f"samples that are in another group in the baseline: {regrouped:,}; the groups of the new run are used"


def _failure_warnings(which: str, run: Run) -> Iterator[str]:
    for metric in run.summary.failed_beyond(0):
        yield f"{which} has failed samples of {metric}: {run.summary.metrics[metric].failed:,}"
