"""inspect: a scorer that judges the samples of a task while they run.

`inspect score` judges the samples of a log with it.

    from localjudge.integrations.inspect_ai import localjudge_scorer

    Task(dataset=..., solver=..., scorer=localjudge_scorer(["faithfulness"], judge="model.gguf"))

(inspect_ai 0.3.) A sample's input is the question, its target the reference, its completion the
response, and its metadata contain the retrieved texts or documents. Only the last turn of a
conversation is judged, and several different targets count as no reference.

A score has one value per metric, or NaN if it is missing. Its explanation has the reasons and the
sentences that lowered it, its metadata the expected score of each metric and all verdicts with
their evidence. The model is loaded with the first sample and closed with the scorer.
"""

import math
import weakref
from collections.abc import Sequence
from threading import Lock
from typing import Any

from anyio import to_thread
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from localjudge.errors import DataError
from localjudge.integrations.conversion import JudgeLike, check_options, open_judge
from localjudge.metrics import Metric
from localjudge.metrics.catalog import lower_is_better
from localjudge.open_judge import Judge
from localjudge.report.sample_views import describe_score, format_verdict
from localjudge.run_directory.result_rows import ScoreRow, VerdictRow


@scorer(metrics={"*": [mean(), stderr()]})  # type: ignore[untyped-decorator]
def localjudge_scorer(
    metrics: Sequence[str | Metric],
    judge: JudgeLike | None = None,
    contexts: str = "contexts",
    **options: Any,
) -> Scorer:
    """Score samples on localjudge's metrics, and on criteria.

    metrics: names such as "faithfulness", or metric objects and criteria, which the log cannot
        record.
    judge: a name, the path of a GGUF file, a list of them for one verdict together, or an open
        `localjudge.Judge`, which the log cannot record either.
    contexts: name of the retrieved texts in a sample's metadata.
    options: as in `localjudge.Judge.open`, such as `threshold`.

    A sample raises the errors of `Judge.open` and `Judge.evaluate`, but no DataError.
    """
    check_options(judge, options)
    opened: list[Judge] = []
    opening = Lock()

    def open_once() -> Judge:
        with opening:
            if not opened:
                opened.append(open_judge(judge, options))
                if opened[0] is not judge:
                    weakref.finalize(score, opened[0].close)
            return opened[0]

    def judge_row(row: dict[str, Any], problems: list[str]) -> Score:
        asked = open_once()
        try:
            scores, verdicts = asked.evaluate_rows([row], metrics)
        except DataError as error:
            problems = [*problems, error.in_one_line]
            without_texts = dict.fromkeys(row) | {"id": row["id"]}
            scores, verdicts = asked.evaluate_rows([without_texts], metrics)
        return _score(scores, verdicts, problems)

    async def score(state: TaskState, target: Target) -> Score:
        problems: list[str] = []
        targets = set(target)
        reference: list[str] | None = list(target)
        if len(targets) > 1:
            problems.append(f"no reference: the sample has {len(targets)} different targets")
            reference = None
        if contexts not in state.metadata:
            problems.append(f"no contexts: the metadata of the sample has no {contexts!r}")
        row = {
            "id": str(state.sample_id),
            "user_input": state.input,
            "reference": reference,
            "response": state.output.completion,
            "retrieved_contexts": state.metadata.get(contexts),
        }
        return await to_thread.run_sync(judge_row, row, problems)

    return score


def _score(
    scores: Sequence[ScoreRow], verdicts: Sequence[VerdictRow], problems: Sequence[str]
) -> Score:
    """Return the score of one sample."""
    values: dict[str, float] = {}
    expected: dict[str, float | None] = {}
    lines = list(problems)
    for row in scores:
        values[row.metric] = math.nan if row.score is None else row.score
        expected[row.metric] = row.expected
        lines.append(f"{row.metric}: {describe_score(row)}")
        lowering_label = int(lower_is_better(row.metric))
        for verdict in verdicts:
            if verdict.metric == row.metric and verdict.label in (lowering_label, None):
                lines.append(format_verdict(verdict))
    metadata = {
        "expected": expected,
        "verdicts": [verdict.values_with_evidence for verdict in verdicts],
    }
    return Score(value=values, explanation="\n".join(lines), metadata=metadata)
