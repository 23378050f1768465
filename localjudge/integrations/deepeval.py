"""DeepEval: a decision model, so that its metrics run without a language model and without a network.

    from localjudge.integrations.deepeval import LocaljudgeModel

    metric = FaithfulnessMetric(eval_mode="system_one", system_one_model=LocaljudgeModel("model.gguf"))
    metric.measure(test_case)

(deepeval 4.3.) DeepEval asks a *System One* model typed questions about a test case and computes scores from the
probabilities. Each becomes yes-or-no questions (`conversion`) in DeepEval's words. They are criteria, so the
judge must follow instructions.

In the mode "hybrid", which also needs a language model, any judge can answer two kinds of questions: is a `sentence` or
`claim` supported by a `retrieval_context` (by its weakest sentence), and is a `node` useful for an `input` and its
`expected_output`?
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from deepeval.errors import DeepEvalError
from deepeval.models import DeepEvalBaseSystemOneModel
from deepeval.models.system_one import ChoiceAnswer, ChoiceQuestion, NoulAnswer, NoulQuestion, ScoreAnswer
from deepeval.models.system_one.schema import SystemOneAnswers, SystemOneQuestion

from localjudge.integrations import conversion
from localjudge.integrations.conversion import JudgeLike, check_options
from localjudge.metrics.criterion import Criterion
from localjudge.open_judge import Judge
from localjudge.record.result_rows import Evaluation
from localjudge.run.judges import DEFAULT_JUDGE
from localjudge.types import NoAnswer, Scored

_METRICS = ("faithfulness", "context_precision")
_Question = tuple[str, str]
"""A row as JSON, and a question about it or the name of one of `_METRICS`."""


class LocaljudgeModel(DeepEvalBaseSystemOneModel):  # type: ignore[misc]
    """Answer DeepEval's questions with a local judge, loaded immediately.

    judge: a name, the path of a GGUF file, or an open `localjudge.Judge`.
    options: as in `localjudge.Judge.open`.

    Raises the errors of `Judge.open`, and DeepEvalError if a question gets no answer.
    """

    def __init__(self, judge: JudgeLike = DEFAULT_JUDGE, **options: Any) -> None:
        check_options(judge, options)
        self._judge = judge if isinstance(judge, Judge) else Judge.open(judge, **options)
        super().__init__(f"localjudge: {self._judge.card.name}")

    def load_model(self) -> Judge:
        return self._judge

    def get_model_name(self) -> str:
        return str(self.name)

    def decide(self, state: Any, questions: Mapping[str, SystemOneQuestion]) -> tuple[SystemOneAnswers, float]:
        """Return the answer to each question about the state, and the cost, which is 0."""
        needed = {key: _questions(question, state) for key, question in questions.items()}
        p_yes_of = self._probabilities([question for several in needed.values() for question in several])
        answers = SystemOneAnswers()
        for key, question in questions.items():
            p_yes = [p_yes_of[needs] for needs in needed[key]]
            if isinstance(question, NoulQuestion):
                answers.nouls[key] = NoulAnswer(probability=p_yes[0])
            elif isinstance(question, ChoiceQuestion):
                if not any(p_yes):
                    raise DeepEvalError("localjudge has no answer: no option has any probability")
                shares = conversion.option_probabilities(list(question.options), p_yes)
                best, sure = max(shares, key=shares.__getitem__), conversion.decisiveness(shares.values())
                answers.choices[key] = ChoiceAnswer(choice=best, probabilities=shares, confidence=sure)
            else:
                levels = conversion.level_probabilities(p_yes)
                expected = sum(level * share for level, share in levels.items())
                sure = conversion.decisiveness(levels.values())
                answers.scores[key] = ScoreAnswer(score=expected, probabilities=levels, confidence=sure)
        return answers, 0.0

    async def a_decide(self, state: Any, questions: Mapping[str, SystemOneQuestion]) -> tuple[SystemOneAnswers, float]:
        """Run `decide` in a thread."""
        return await asyncio.to_thread(self.decide, state, questions)

    def _probabilities(self, questions: Sequence[_Question]) -> dict[_Question, float]:
        """Return P(yes) of each question. Rows with the same question share prompts."""
        p_yes: dict[_Question, float] = {}
        for asks in dict.fromkeys(asks for _, asks in questions):
            rows = list(dict.fromkeys(row for row, other in questions if other == asks))
            samples = [{**json.loads(row), "id": str(place)} for place, row in enumerate(rows)]
            shows = tuple(samples[0].keys() - {"response", "id"})
            metric = asks if asks in _METRICS else Criterion(name="question", question=asks, shows=shows)
            for row, evaluation in zip(rows, self._judge.evaluations(samples, metric), strict=True):
                p_yes[row, asks] = _p_yes(evaluation)
        return p_yes


def _questions(question: SystemOneQuestion, state: Any) -> list[_Question]:
    """Return the yes-or-no questions for a DeepEval question, without the list that contains its item."""
    fields = dict(state) if isinstance(state, Mapping) else {"state": state}
    fields |= fields.pop("test_case", {})
    words, item = conversion.words_and_item(question.instructions)
    fields = {name: value for name, value in fields.items() if name.removesuffix("s") not in item} | item
    words, row = conversion.as_sample(words, fields) or (words, {"response": conversion.record(fields)})
    if isinstance(question, NoulQuestion):
        match item, fields:
            case (({"sentence": str(text)} | {"claim": str(text)}), {"retrieval_context": [*contexts]}):
                return [(json.dumps({"response": text, "retrieved_contexts": contexts}), "faithfulness")]
            case {"node": str(text)}, {"input": str(asked), "expected_output": str(reference)}:
                row = {"retrieved_contexts": [text], "user_input": asked, "reference": reference}
                return [(json.dumps(row), "context_precision")]
        asks = [conversion.whether(words, yes=question.true, no=question.false)]
    elif isinstance(question, ChoiceQuestion):
        asks = conversion.of_each_option(words, question.options)
    else:
        asks = conversion.of_each_level(words, question.levels)
    return [(json.dumps(row), ask) for ask in asks]


def _p_yes(evaluation: Evaluation) -> float:
    """Return the probability of the weakest unit. Raises DeepEvalError without a score."""
    if not isinstance(evaluation.outcome, Scored):
        raise DeepEvalError(f"localjudge has no answer: {evaluation.outcome.reason}")
    verdicts = [verdict for _, verdict in evaluation.units if not isinstance(verdict, NoAnswer)]
    return min(verdict.label if verdict.p_yes is None else verdict.p_yes for verdict in verdicts)
