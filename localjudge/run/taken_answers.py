"""Where a plan finds answers that were given before: the runs that it names, then the user's cache."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from localjudge.metrics.catalog import special_tasks_of
from localjudge.record import manifest as manifests
from localjudge.record.answer_cache import open_cache
from localjudge.record.earlier_answers import EarlierAnswers, OtherRun
from localjudge.run.judges import OpenJudge
from localjudge.run.plan import Plan
from localjudge.types import VerdictRule


def judge_part_of(planned: Plan, ours: OpenJudge) -> dict[str, Any]:
    """The judge's part of the signature."""
    settings = planned.settings
    return manifests.judge_part(
        ours.engine.identity,
        ours.judge.identity_for(special_tasks_of(planned.metrics)),
        settings.sentences.identity,
        planned.metrics,
        VerdictRule(settings.threshold, settings.min_legal_mass),
    )


@contextmanager
def earlier_answers(planned: Plan, ours: OpenJudge) -> Iterator[list[EarlierAnswers]]:
    """The runs to reuse, then the cache if it is on, while they are used.

    No answer of an engine that was brought along outlives its run unasked: how well its identity names it is not
    known. Raises as `OtherRun` and `open_cache` do.
    """
    judge = judge_part_of(planned, ours)
    with ExitStack() as stack:
        found: list[EarlierAnswers] = [
            stack.enter_context(closing(OtherRun(Path(name), judge))) for name in planned.settings.reuse
        ]
        if ours.source and (cache := open_cache(judge)):
            found.append(stack.enter_context(closing(cache)))
        yield found
