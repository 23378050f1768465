"""Human labels of one question, with the answers of judges to the same statements.

    key           label   judge A    judge B
    statement 1   1       p = .81    p = .93
    statement 2   0       p = .34    failed

The key of a statement is the hash of its texts, or names its place in a run over labelled texts.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from localjudge.errors import DataError
from localjudge.run_directory.calibration import LabelSavings
from localjudge.run_directory.result_rows import VerdictRow
from localjudge.run_directory.run_record import RunRecord
from localjudge.types import Label


class JudgeAnswers(NamedTuple):
    """A judge's answers to the labelled statements.

    `savings` are those in the corrected mean with most labels.
    """

    run: RunRecord
    verdicts: Mapping[str, VerdictRow]
    savings: LabelSavings | None = None

    def probability(self, key: str) -> float | None:
        """Return the probability of 1 for a statement, None if the judge gave none."""
        verdict = self.verdicts.get(key)
        if verdict is None:
            return None
        return verdict.p_yes


class LabelledQuestion(NamedTuple):
    """Labels of one question with each judge's answers.

    `labels`, `weights` (numbers of statements that each label represents) and `clusters` have the
    same keys. `labels_used` has fields of `LabelsUsed`.
    """

    name: str
    labels: Mapping[str, Label]
    weights: Mapping[str, float]
    clusters: Mapping[str, str]
    judges: Sequence[JudgeAnswers]
    labels_used: Mapping[str, Any]
    remarks: tuple[str, ...] = ()

    def shared_keys(self) -> list[str]:
        """Return the labelled statements with a probability by every judge.

        Raises DataError without any.
        """
        keys = []
        for key in self.labels:
            if all(judge.probability(key) is not None for judge in self.judges):
                keys.append(key)
        if keys:
            return keys
        advice = "check its failures"
        several = "several judges are measured on statements that all of them judged"
        raise DataError(
            f"the judge gave no labelled statement a probability in {self.judges[0].run.directory}",
            hint=f"{advice}; {several}",
        )
