"""DeepEval: a model that decides, so that its metrics run without a language model and without a network.

    from localjudge.integrations.deepeval import LocaljudgeModel

    metric = FaithfulnessMetric(eval_mode="system_one", system_one_model=LocaljudgeModel("model.gguf"))
    metric.measure(test_case)

(deepeval 4.3.) DeepEval asks a *System One* model typed questions about a test case; what it makes of the probabilities
is its own arithmetic. Each is asked as yes-or-no questions (`conversion`), in its words, about the fields that they
name or about one text with all: as criteria, so the judge has to read instructions.

The mode "hybrid" also needs a language model. Three kinds of its verdicts are what localjudge asks anyway, so any judge
answers them in its own words: a `sentence` or a `claim` with a `retrieval_context` is attributed, and is as probable as
the weakest of its sentences; a `node` with `input` and `expected_output` is useful or not.
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
"""A row as JSON, and what is asked about it: a question of yes or no, or the name of one of `_METRICS`."""


class LocaljudgeModel(DeepEvalBaseSystemOneModel):  # type: ignore[misc]
    """Answers DeepEval's questions with a local judge, which is loaded at once.

    judge: a registered name, the path of a GGUF file, or an open `localjudge.Judge`.
    options: those of `localjudge.Judge.open`, such as `n_ctx`.
    Raises what `Judge.open` raises, and DeepEvalError with the reason where a question gets no answer.
    """

    def __init__(self, judge: JudgeLike = DEFAULT_JUDGE, **options: Any) -> None:
        check_options(judge, options)
        self._judge = judge if isinstance(judge, Judge) else Judge.open(judge, **options)
        super().__init__(f"localjudge: {self._judge.card.name}")

    def load_model(self) -> Judge:
        """The open judge."""
        return self._judge

    def get_model_name(self) -> str:
        """As DeepEval's reasons say who decided."""
        return str(self.name)

    def decide(self, state: Any, questions: Mapping[str, SystemOneQuestion]) -> tuple[SystemOneAnswers, float]:
        """The answer to each question about the state, and what it cost: nothing."""
        needed = {key: _questions(question, state) for key, question in questions.items()}
        p_yes_of = self._probabilities([question for several in needed.values() for question in several])
        answers = SystemOneAnswers()
        for key, question in questions.items():
            p_yes = [p_yes_of[needs] for needs in needed[key]]
            if isinstance(question, NoulQuestion):
                answers.nouls[key] = NoulAnswer(probability=p_yes[0])
            elif isinstance(question, ChoiceQuestion):
                answers.choices[key] = _choice(list(question.options), p_yes)
            else:
                answers.scores[key] = _score(p_yes)
        return answers, 0.0

    async def a_decide(self, state: Any, questions: Mapping[str, SystemOneQuestion]) -> tuple[SystemOneAnswers, float]:
        """The same in a thread, as a model computes for long."""
        return await asyncio.to_thread(self.decide, state, questions)

    def _probabilities(self, questions: Sequence[_Question]) -> dict[_Question, float]:
        """P(yes) of each. Rows of which the same is asked are judged together, so that prompts can be shared."""
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
    """What is asked to answer the question; the list that its item is one of is not shown."""
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
    """That of the weakest unit. Raises DeepEvalError with the reason if there is no score."""
    if not isinstance(evaluation.outcome, Scored):
        raise DeepEvalError(f"localjudge has no answer: {evaluation.outcome.reason}")
    verdicts = [verdict for _, verdict in evaluation.units if not isinstance(verdict, NoAnswer)]
    return min(verdict.label if verdict.p_yes is None else verdict.p_yes for verdict in verdicts)


def _choice(names: Sequence[str], p_yes: Sequence[float]) -> ChoiceAnswer:
    if not sum(p_yes):
        raise DeepEvalError("localjudge has no answer: no option has any probability")
    shares = conversion.option_probabilities(names, p_yes)
    best = max(shares, key=shares.__getitem__)
    return ChoiceAnswer(choice=best, probabilities=shares, confidence=conversion.decisiveness(shares.values()))


def _score(p_yes: Sequence[float]) -> ScoreAnswer:
    shares = conversion.level_probabilities(p_yes)
    expected = sum(level * share for level, share in shares.items())
    return ScoreAnswer(score=expected, probabilities=shares, confidence=conversion.decisiveness(shares.values()))
