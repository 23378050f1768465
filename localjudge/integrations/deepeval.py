"""DeepEval: a model that decides, so that its metrics run without a language model and without a network.

    from localjudge.integrations.deepeval import LocaljudgeModel

    metric = FaithfulnessMetric(eval_mode="system_one", system_one_model=LocaljudgeModel("model.gguf"))
    metric.measure(test_case)

(deepeval 4.3.) DeepEval asks a *System One* model typed questions about a test case and takes probabilities; what they
come to is its own arithmetic. Each is asked as questions of yes or no (`binary_decisions`), in its words, about the
fields that they name (`named_fields`) or about one text with all: as criteria, so the judge has to read instructions.

In the mode "hybrid", which wants a language model as well, three kinds of verdict are what localjudge asks anyway, and
any judge answers them in its own words: a `sentence` or a `claim` beside a `retrieval_context` is attributed, and is as
probable as the weakest of its sentences; a `node` beside `input` and `expected_output` is useful or not.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Unpack

from deepeval.errors import DeepEvalError
from deepeval.models import DeepEvalBaseSystemOneModel
from deepeval.models.system_one import ChoiceAnswer, ChoiceQuestion, NoulAnswer, NoulQuestion, ScoreAnswer
from deepeval.models.system_one.schema import SystemOneAnswers, SystemOneQuestion

from localjudge.integrations import conversion as binary_decisions
from localjudge.integrations import conversion as named_fields
from localjudge.integrations.conversion import GivenJudge, open_given
from localjudge.metrics.criterion import Criterion
from localjudge.open_judge import Judge
from localjudge.record.result_rows import Evaluation
from localjudge.run.judges import DEFAULT_JUDGE
from localjudge.run.settings import Options
from localjudge.types import NoAnswer, Scored

_NAME = "question"


class _YesNo(NamedTuple):
    """A question of yes or no about a row (as JSON): the words of a criterion, or the name of our own metric."""

    row: str
    asks: str
    own: bool = False


class LocaljudgeModel(DeepEvalBaseSystemOneModel):  # type: ignore[misc]
    """Answers DeepEval's questions with a local judge, which is loaded at once.

    judge: a registered name, the path of a GGUF file, several in a list, or an open `localjudge.Judge`.
    options: those of `localjudge.evaluate`, such as `n_ctx`.
    Raises what `Judge.open` raises, and DeepEvalError with the reason where a question gets no answer.
    """

    def __init__(self, judge: GivenJudge = DEFAULT_JUDGE, **options: Unpack[Options]) -> None:
        self._judge = open_given(judge, options)
        super().__init__(f"localjudge: {self._judge.card.name}")

    def load_model(self) -> Judge:
        """The open judge."""
        return self._judge

    def get_model_name(self) -> str:
        """As DeepEval's reasons say who decided."""
        return str(self.name)

    def decide(self, state: Any, questions: Mapping[str, SystemOneQuestion]) -> tuple[SystemOneAnswers, float]:
        """The answer to each question about the state, and what it cost: nothing."""
        needed = {key: _yes_no(question, state) for key, question in questions.items()}
        found = self._probabilities(dict.fromkeys(one for ones in needed.values() for one in ones))
        answers = SystemOneAnswers()
        for key, question in questions.items():
            p_yes = [found[one] for one in needed[key]]
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

    def _probabilities(self, asked: Iterable[_YesNo]) -> dict[_YesNo, float]:
        """P(yes) of each. Rows of which the same is asked are judged together, so that prompts can be shared."""
        found, rows_of = {}, dict[tuple[str, bool], list[str]]()
        for row, asks, own in asked:
            rows_of.setdefault((asks, own), []).append(row)
        for (asks, own), rows in rows_of.items():
            given = [{**json.loads(row), "id": str(place)} for place, row in enumerate(rows)]
            shows = tuple(given[0].keys() - {"response", "id"})
            name, criteria = (asks, []) if own else (_NAME, [Criterion(name=_NAME, question=asks, shows=shows)])
            for one in self._judge.evaluations(given, [name], criteria=criteria):
                if one.metric == name:
                    found[_YesNo(rows[int(one.sample_id)], asks, own)] = _p_yes(one)
        return found


def _yes_no(question: SystemOneQuestion, state: Any) -> list[_YesNo]:
    """What is asked to answer the question; the list that its item is one of is not shown beside it."""
    fields = dict(state) if isinstance(state, Mapping) else {"state": state}
    fields |= fields.pop("test_case", {})
    words, item = binary_decisions.words_and_item(question.instructions)
    fields = {name: value for name, value in fields.items() if name.removesuffix("s") not in item} | item
    words, row = named_fields.as_sample(words, fields) or (words, {"response": binary_decisions.record(fields)})
    if isinstance(question, NoulQuestion):
        if own := _own_question(fields, item):
            return [own]
        asks = [binary_decisions.whether(words, yes=question.true, no=question.false)]
    elif isinstance(question, ChoiceQuestion):
        asks = binary_decisions.of_each_option(words, question.options)
    else:
        asks = binary_decisions.of_each_level(words, question.levels)
    return [_YesNo(json.dumps(row), ask) for ask in asks]


def _own_question(fields: Mapping[str, Any], item: Mapping[str, Any]) -> _YesNo | None:
    """What our own metric asks of the item, if one asks just that."""
    match item, fields:
        case (({"sentence": str(text)} | {"claim": str(text)}), {"retrieval_context": [*contexts]}):
            return _YesNo(json.dumps({"response": text, "retrieved_contexts": contexts}), "faithfulness", own=True)
        case {"node": str(text)}, {"input": str(asked), "expected_output": str(reference)}:
            row = {"retrieved_contexts": [text], "user_input": asked, "reference": reference}
            return _YesNo(json.dumps(row), "context_precision", own=True)
    return None


def _p_yes(evaluation: Evaluation) -> float:
    """That of the weakest unit. Raises DeepEvalError where there is no score, with the reason."""
    if not isinstance(evaluation.outcome, Scored):
        raise DeepEvalError(f"localjudge has no answer: {evaluation.outcome.reason}")
    given = [verdict for _, verdict in evaluation.units if not isinstance(verdict, NoAnswer)]
    return min(one.label if one.p_yes is None else one.p_yes for one in given)


def _choice(names: Sequence[str], p_yes: Sequence[float]) -> ChoiceAnswer:
    if not sum(p_yes):
        raise DeepEvalError("localjudge has no answer: no option has any probability")
    found = binary_decisions.option_probabilities(names, p_yes)
    best, sure = max(found, key=found.__getitem__), binary_decisions.decisiveness(found.values())
    return ChoiceAnswer(choice=best, probabilities=found, confidence=sure)


def _score(p_yes: Sequence[float]) -> ScoreAnswer:
    found = binary_decisions.level_probabilities(p_yes)
    expected = sum(level * probability for level, probability in found.items())
    return ScoreAnswer(score=expected, probabilities=found, confidence=binary_decisions.decisiveness(found.values()))
