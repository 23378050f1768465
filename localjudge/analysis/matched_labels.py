"""Labels of people beside the verdicts of a run: each label finds its verdict by its key, or is refused.

    labels.jsonl     s1, faithfulness, statement 0   "It rains."   human 1
    verdicts.jsonl   s1, faithfulness, statement 0   "It rains."   p_yes 0.93      -> (1, 0.93)

The texts have to be the same: a label of another text is of another run.
"""

from collections.abc import Sequence
from typing import NamedTuple

from localjudge.analysis.human_labels import VerdictKey, key_of
from localjudge.errors import DataError
from localjudge.metrics.catalog import question_of
from localjudge.option_spelling import option_name
from localjudge.record.result_rows import VerdictRow
from localjudge.record.results import Run
from localjudge.record.untrusted import shown
from localjudge.stats.intervals import LabelledScores
from localjudge.types import Label


class WantedLabel(NamedTuple):
    """A label and which verdict it is of; `cluster` names what the sample was drawn with."""

    key: VerdictKey
    text: str
    label: Label
    cluster: str
    inclusion_probability: float = 1.0


class MatchedLabels(NamedTuple):
    """Labels and probabilities of the verdicts on one question; `failed` were labelled and have no probability."""

    question: str
    metric: str
    """One of those that ask it."""
    rows: LabelledScores
    votes: list[dict[str, float | None]]
    """Of each row of a combined run what its judges gave, by their names; empty for one judge."""
    verdicts: int
    failed: int
    weighted: bool


def matched(run: Run, wanted: Sequence[WantedLabel]) -> MatchedLabels:
    """The labels with their probabilities.

    Raises DataError for labels of verdicts that the run does not have, of another text, or of several questions.
    """
    if not wanted:
        raise DataError("nothing is labelled", hint="fill in the labels, 1 or 0, and give the file once more")
    found = _found(run, wanted)
    questions = sorted({question_of(one.key.metric) for one in wanted})
    if len(questions) > 1:
        raise DataError(
            f"the labels are of {len(questions)} questions: {', '.join(questions)}",
            hint=f"a calibration is of one: choose its metrics with {option_name('metrics')}",
        )
    judged = [(one, row, row.p_yes) for one in wanted if (row := found[one.key]).p_yes is not None]
    if not judged:
        raise DataError("none of the labelled verdicts has a probability", hint="look at the run's failures")
    weights = [1 / one.inclusion_probability for one, *_ in judged]
    rows = LabelledScores(
        labels=[one.label for one, *_ in judged],
        scores=[p_yes for *_, p_yes in judged],
        weights=weights,
        clusters=[one.cluster for one, *_ in judged],
    )
    return MatchedLabels(
        question=questions[0],
        metric=wanted[0].key.metric,
        rows=rows,
        votes=[dict(row.judges or {}) for _, row, _ in judged],
        verdicts=len(judged),
        failed=len(wanted) - len(judged),
        weighted=len(set(weights)) > 1,
    )


def _found(run: Run, wanted: Sequence[WantedLabel]) -> dict[VerdictKey, VerdictRow]:
    texts = {one.key: one.text for one in wanted}
    found: dict[VerdictKey, VerdictRow] = {}
    other = []
    for row in run.iter_verdicts():
        if (key := key_of(row)) in texts:
            found[key] = row
            if row.text != texts[key]:
                other.append(key)
    missing = [one.key for one in wanted if one.key not in found]
    if missing or other:
        what = f"{len(missing)} are of verdicts that it does not have" if missing else ""
        texts_differ = f"{len(other)} are of another text" if other else ""
        raise DataError(
            f"these are labels of another run than {run.directory}: of {len(wanted)}, "
            f"{' and '.join(filter(None, (what, texts_differ)))}, such as {_in_words([*missing, *other][0])}",
            hint="name the run whose verdicts were labelled",
        )
    return found


def _in_words(key: VerdictKey) -> str:
    return ", ".join(shown(str(value)) for value in vars(key).values() if value is not None)
