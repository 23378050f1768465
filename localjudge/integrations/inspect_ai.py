"""inspect: a scorer that judges the samples of a task while they run, or those of a log with `inspect score`.

    from localjudge.integrations.inspect_ai import localjudge_scorer

    Task(dataset=..., solver=..., scorer=localjudge_scorer(["faithfulness"], judge="model.gguf"))

(inspect_ai 0.3.) The question is the input of a sample, the reference its target, the response the model's completion,
and what was retrieved stands in its metadata, as texts or as documents, or is put there by a solver. They are read as
the same sample is read from a log: of a conversation the last turn counts, and several targets that differ are refused.
A sample's score has a value for each metric, of which inspect takes mean and standard error; why there is none, and
each sentence that missed, is its explanation; all verdicts are in its metadata.

A metric without a score is NaN, which inspect leaves out of its means and counts as unscored. The model is loaded when
the first sample is scored.
"""

from collections.abc import Sequence
from threading import Lock
from typing import Any, Unpack

from anyio import to_thread
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from localjudge.integrations.conversion import GivenJudge, open_given, refuse_options
from localjudge.metrics.catalog import lower_is_better
from localjudge.open_judge import Judge
from localjudge.record.result_rows import Evaluation, VerdictRow, row_values, score_rows, verdict_rows
from localjudge.report.export import explained, inspect_value
from localjudge.run.judges import DEFAULT_JUDGE
from localjudge.run.settings import Options
from localjudge.words import printable


@scorer(metrics={"*": [mean(), stderr()]})  # type: ignore[untyped-decorator]
def localjudge_scorer(
    metrics: Sequence[str], judge: GivenJudge = DEFAULT_JUDGE, contexts: str = "contexts", **options: Unpack[Options]
) -> Scorer:
    """Score samples on localjudge's metrics, and on criteria.

    metrics: names such as "faithfulness".
    judge: a registered name, the path of a GGUF file, several in a list, or an open `localjudge.Judge`, with which the
        log cannot name what it was scored by.
    contexts: under which name a sample's metadata hold what was retrieved.
    options: those of `localjudge.evaluate`, such as `criteria` and `threshold`.

    A sample raises what `Judge.open` and `Judge.evaluations` raise: UsageError where a metric lacks what it needs,
    DataError for a sample that no reader of data would take.
    """
    refuse_options(judge, options)
    opened = _OpenedOnce(judge, options)

    def evaluations(row: dict[str, Any]) -> list[Evaluation]:
        return opened.judge().evaluations([row], metrics)

    async def score(state: TaskState, target: Target) -> Score:
        row = {"user_input": state.input, "reference": list(target), "response": state.output.completion}
        if contexts in state.metadata:
            row["retrieved_contexts"] = state.metadata[contexts]
        return _score(await to_thread.run_sync(evaluations, row | {"id": str(state.sample_id)}))

    return score


class _OpenedOnce:
    """A judge that is opened when it is first asked for, by whichever thread."""

    def __init__(self, given: GivenJudge, options: Options) -> None:
        self._given, self._options = given, options
        self._judge: Judge | None = None
        self._one_at_a_time = Lock()

    def judge(self) -> Judge:
        with self._one_at_a_time:
            if self._judge is None:
                self._judge = open_given(self._given, self._options)
            return self._judge


def _score(found: Sequence[Evaluation]) -> Score:
    values, lines = {}, []
    for row, one in zip(score_rows(found), found, strict=True):
        values[row.metric] = inspect_value(row)
        lines.append(f"{row.metric}: {explained(row)}")
        bad = 1 if lower_is_better(row.metric) else 0
        lines += [_sentence(verdict) for verdict in verdict_rows([one]) if verdict.label in (bad, None)]
    verdicts = [row_values(verdict) for verdict in verdict_rows(found)]
    return Score(value=values, explanation="\n".join(lines), metadata={"verdicts": verdicts})


def _sentence(verdict: VerdictRow) -> str:
    found = verdict.error if verdict.label is None else verdict.label
    p_yes = "" if verdict.p_yes is None else f" {verdict.p_yes:.3f}"
    return f"  {found}{p_yes} {printable(verdict.text)}"
