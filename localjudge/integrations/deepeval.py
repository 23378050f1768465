"""DeepEval: a decision model, with which its metrics need no language model and no network.

    from localjudge.integrations.deepeval import LocaljudgeModel

    model = LocaljudgeModel("model.gguf")
    metric = FaithfulnessMetric(eval_mode="system_one", system_one_model=model)
    metric.measure(test_case)

(deepeval 4.3.) DeepEval asks a *System One* model typed questions about a test case and computes
scores from the probabilities. Each becomes yes-or-no questions (`conversion`) in DeepEval's words.
They are criteria, so the judge must follow instructions.

In the mode "hybrid", which also needs a language model, any judge can answer two kinds of
questions: is a `sentence` or `claim` supported by a `retrieval_context` (by its weakest sentence),
and is a `node` useful for an `input` and its `expected_output`?
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from math import fsum
from typing import Any

from deepeval.errors import DeepEvalError
from deepeval.models import DeepEvalBaseSystemOneModel
from deepeval.models.system_one import (
    ChoiceAnswer,
    ChoiceQuestion,
    NoulAnswer,
    NoulQuestion,
    ScoreAnswer,
)
from deepeval.models.system_one.schema import SystemOneAnswers, SystemOneQuestion

from localjudge.integrations import conversion
from localjudge.integrations.conversion import JudgeLike, check_options, open_judge
from localjudge.metrics.criterion import Criterion
from localjudge.open_judge import Judge
from localjudge.run_directory.result_rows import Evaluation
from localjudge.types import Scored

_METRICS = ("faithfulness", "context_precision")
_Question = tuple[str, str]
"""A row as JSON, and a question about it or the name of one of `_METRICS`."""


class LocaljudgeModel(DeepEvalBaseSystemOneModel):  # type: ignore[misc]
    """Answer DeepEval's questions with a local judge, loaded immediately.

    judge: a name, the path of a GGUF file, a list of them for one verdict together, or an open
        `localjudge.Judge`.
    options: as in `localjudge.Judge.open`.

    Raises the errors of `Judge.open`, and DeepEvalError if a question gets no answer.
    """

    def __init__(self, judge: JudgeLike | None = None, **options: Any) -> None:
        check_options(judge, options)
        self._judge = open_judge(judge, options)
        super().__init__(f"localjudge: {self._judge.card.name}")

    def load_model(self) -> Judge:
        return self._judge

    def get_model_name(self) -> str:
        return str(self.name)

    def decide(
        self,
        state: Any,
        questions: Mapping[str, SystemOneQuestion],
    ) -> tuple[SystemOneAnswers, float]:
        """Return the answer to each question about the state, and the cost, which is 0."""
        asked_by_key = {key: _questions(question, state) for key, question in questions.items()}
        all_asked: list[_Question] = []
        for asked in asked_by_key.values():
            all_asked += asked
        probabilities = self._probabilities(all_asked)
        answers = SystemOneAnswers()
        for key, question in questions.items():
            p_yes = [probabilities[asked] for asked in asked_by_key[key]]
            if isinstance(question, NoulQuestion):
                answers.nouls[key] = NoulAnswer(probability=p_yes[0])
            elif isinstance(question, ChoiceQuestion):
                answers.choices[key] = _choose(question, p_yes)
            else:
                answers.scores[key] = _score(p_yes)
        return answers, 0.0

    async def a_decide(
        self,
        state: Any,
        questions: Mapping[str, SystemOneQuestion],
    ) -> tuple[SystemOneAnswers, float]:
        """Run `decide` in a thread."""
        return await asyncio.to_thread(self.decide, state, questions)

    def _probabilities(self, questions: Sequence[_Question]) -> dict[_Question, float]:
        """Return P(yes) of each question. Rows with the same question share prompts."""
        rows_by_words: dict[str, list[str]] = {}
        for row, words in dict.fromkeys(questions):
            rows_by_words.setdefault(words, []).append(row)
        p_yes: dict[_Question, float] = {}
        for words, rows in rows_by_words.items():
            samples = [{**json.loads(row), "id": str(number)} for number, row in enumerate(rows)]
            metric: str | Criterion = words
            if words not in _METRICS:  # a question, which shows all fields
                shown: Any = tuple(samples[0].keys() - {"response", "id"})
                metric = Criterion(name="question", question=words, shows=shown)
            evaluations = self._judge.evaluations(samples, metric)
            for row, evaluation in zip(rows, evaluations, strict=True):
                p_yes[row, words] = _p_yes(evaluation)
        return p_yes


def _choose(question: ChoiceQuestion, p_yes: Sequence[float]) -> ChoiceAnswer:
    """Return the most probable option. Raises DeepEvalError if none has any probability."""
    if not any(p_yes):
        raise DeepEvalError("localjudge has no answer: no option has any probability")
    probabilities = conversion.option_probabilities(list(question.options), p_yes)
    best = max(probabilities, key=probabilities.__getitem__)
    confidence = conversion.decisiveness(probabilities.values())
    return ChoiceAnswer(choice=best, probabilities=probabilities, confidence=confidence)


def _score(p_yes: Sequence[float]) -> ScoreAnswer:
    """Return the expected level."""
    probabilities = conversion.level_probabilities(p_yes)
    expected = fsum(level * probability for level, probability in probabilities.items())
    confidence = conversion.decisiveness(probabilities.values())
    return ScoreAnswer(score=expected, probabilities=probabilities, confidence=confidence)


def _questions(question: SystemOneQuestion, state: Any) -> list[_Question]:
    """Return the yes-or-no questions for a DeepEval question."""
    words, item = conversion.split_instructions(question.instructions)
    fields = _fields(state, item)
    if isinstance(question, NoulQuestion):
        asked = _known_question(item, fields)
        if asked is not None:
            return [asked]
    sample = conversion.as_sample(words, fields)
    if sample is None:
        row: Mapping[str, Any] = {"response": conversion.describe_fields(fields)}
    else:
        words, row = sample
    if isinstance(question, NoulQuestion):
        wordings = [conversion.ask_whether(words, yes=question.true, no=question.false)]
    elif isinstance(question, ChoiceQuestion):
        wordings = conversion.ask_each_option(words, question.options)
    else:
        wordings = conversion.ask_each_level(words, question.levels)
    written = json.dumps(row)
    return [(written, wording) for wording in wordings]


def _fields(state: Any, item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the test case and the item, without the list that contains the item."""
    fields: dict[str, Any] = {"state": state}
    if isinstance(state, Mapping):
        fields = dict(state)
        fields |= fields.pop("test_case", {})
    others = {name: value for name, value in fields.items() if name.removesuffix("s") not in item}
    return {**others, **item}


def _known_question(item: Mapping[str, Any], fields: Mapping[str, Any]) -> _Question | None:
    """Return the question of one of our metrics, if DeepEval asks the same."""
    match item, fields:
        case (
            ({"sentence": str(text)} | {"claim": str(text)}),
            {"retrieval_context": [*contexts]},
        ):
            row: dict[str, Any] = {"response": text, "retrieved_contexts": contexts}
            return json.dumps(row), "faithfulness"
        case {"node": str(text)}, {"input": str(asked), "expected_output": str(reference)}:
            row = {"retrieved_contexts": [text], "user_input": asked, "reference": reference}
            return json.dumps(row), "context_precision"
    return None


def _p_yes(evaluation: Evaluation) -> float:
    """Return the probability of the weakest unit. Raises DeepEvalError without a score."""
    if not isinstance(evaluation.outcome, Scored):
        raise DeepEvalError(f"localjudge has no answer: {evaluation.outcome.reason}")
    probabilities: list[float] = []
    for verdict in evaluation.verdicts:
        if verdict.p_yes is not None:
            probabilities.append(verdict.p_yes)
        elif verdict.label is not None:
            probabilities.append(verdict.label)
    return min(probabilities)
