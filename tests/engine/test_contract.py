from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import random_model

from localjudge import ScriptedEngine
from localjudge.engine.llamacpp.engine import LlamaCppEngine
from localjudge.engine.protocol import EngineSettings
from localjudge.types import Answer, ChatEnds, NoAnswer, VerdictRequest
from tests.engine.conftest import TEMPLATE, ModelMaker
from tests.engine.contract import RULES, check_engine

pytestmark = pytest.mark.engine

Answers = Iterator[tuple[int, Answer | NoAnswer]]


def share(request: VerdictRequest) -> float:
    text = repr(request.path).encode("utf-8", "surrogatepass")
    return sum(place * byte for place, byte in enumerate(text)) % 997 / 997


class Sound(ScriptedEngine):
    """Correct engine; each broken engine below changes one method."""

    def __init__(self, capacity: int = 20_000) -> None:
        super().__init__(share, capacity=capacity)


@pytest.mark.parametrize(
    "make", [lambda: ScriptedEngine({}, default=0.5), Sound, lambda: Sound(1 << 30)]
)
def test_a_scripted_engine_meets_the_contract(make: Callable[[], ScriptedEngine]) -> None:
    assert check_engine(make) == []


@pytest.mark.parametrize(
    ("architecture", "template"), [("llama", TEMPLATE), ("llama", None), ("lfm2", None)]
)
def test_llama_cpp_meets_the_contract(
    make_model: ModelMaker, architecture: str, template: str | None
) -> None:
    """With a template of control tokens, without a template, and with uncuttable memory."""
    file = make_model(architecture, vocabulary="pieces", chat_template=template)
    assert check_engine(lambda: LlamaCppEngine(file, EngineSettings(threads=1, n_ctx=2048))) == []


def test_plain_text_markup_in_a_character_vocabulary_is_reported(make_model: ModelMaker) -> None:
    """Known limit: such a vocabulary has only one spelling."""
    file = make_model(vocabulary="pieces", chat_template=random_model.CHAT_TEMPLATE)
    violations = check_engine(lambda: LlamaCppEngine(file, EngineSettings(threads=1, n_ctx=2048)))
    assert [violation.rule for violation in violations] == ["user_text_stays_text"]


def broken(**parts: Any) -> type[Sound]:
    return type("Broken", (Sound,), parts)


def identified(identity: Callable[[Any], dict[str, Any]]) -> type[Sound]:
    return broken(identity=property(identity))


def yielding(change: Callable[[list[tuple[int, Any]]], list[Any]]) -> type[Sound]:
    return broken(
        answers=lambda self, requests: iter(change(list(ScriptedEngine.answers(self, requests)))),
    )


def answering(**fields: Any) -> type[Sound]:
    answer = Answer.model_construct(
        **{"p_yes": 0.5, "valid_mass": 1, "raw": "", "reason": None, **fields}
    )
    return broken(_answer=lambda _self, _request: answer)


class Batched(Sound):
    """The first request of a call changes the other answers."""

    def answers(self, requests: Sequence[VerdictRequest]) -> Answers:
        for index, answer in super().answers(requests):
            yield index, answer.model_copy(update={"p_yes": share(requests[0]) if index else 0.25})


class Poisoned(Sound):
    """A request that does not fit changes later answers."""

    capacity = 20_000

    def _answer(self, request: VerdictRequest) -> Answer | NoAnswer:
        if any(self.length(earlier) > self.capacity for earlier in self.asked):
            return NoAnswer(error="poisoned")
        return super()._answer(request)


class Credulous(Sound):
    """Parses markup in the joined text of all pieces."""

    @property
    def chat_ends(self) -> ChatEnds:
        return ChatEnds("<|user|>", "<|assistant|>", "0")

    def _answer(self, request: VerdictRequest) -> Answer:
        text = "".join(piece.text for node in request.path for piece in node)
        return Answer(p_yes=len(text) % 97 / 97, valid_mass=1, raw="")


IDENTITY = "identity_is_stable_json"
ONCE = "answers_each_once"
ALONE = "answers_depend_on_their_request_alone"
LEGAL = "answers_are_legal"
LENGTHS = "lengths_hold_what_is_answered"
TIRING = broken(
    _answer=lambda self, _: Answer(p_yes=1 / (1 + len(self.asked)), valid_mass=1, raw="")
)
BOUNDLESS = broken(
    capacity=20_000, _answer=lambda _self, _: Answer(p_yes=0.5, valid_mass=1, raw="")
)
UNSHARED = broken(distinct_tokens=lambda self, requests: sum(map(self.length, requests)))
BROKEN: list[tuple[type[Sound], str, str]] = [
    (
        identified(lambda _: {"engine": "mine", "build": object()}),
        IDENTITY,
        "cannot be written as JSON",
    ),
    (identified(lambda _: {"model": "mine"}), IDENTITY, "does not name the kind of engine"),
    (
        identified(lambda self: {"engine": "mine", "asked": len(self.asked)}),
        IDENTITY,
        "changed by answering",
    ),
    (
        broken(identity=property(lambda self: {"engine": str(id(self))})),
        IDENTITY,
        "opened alike have different",
    ),
    (yielding(lambda pairs: pairs[1:]), ONCE, "10 requests got answers with the indices [1, 2"),
    (yielding(lambda pairs: [(index, 0.5) for index, _ in pairs]), ONCE, "request 0 got float"),
    (
        broken(_answer=lambda _self, _: NoAnswer(error="no")),
        ONCE,
        "none of the requests got an Answer",
    ),
    (Batched, ALONE, "in reverse order"),
    (TIRING, ALONE, "alone"),
    (answering(p_yes=1.5), LEGAL, "p_yes is 1.5"),
    (answering(valid_mass=float("nan")), LEGAL, "valid_mass is nan"),
    (answering(raw='Sure! {"attributed":1}'), LEGAL, "the grammar does not allow 'Sure!"),
    (answering(reason="because"), LEGAL, "there is a reason"),
    (BOUNDLESS, LENGTHS, "longer than the capacity was answered"),
    (broken(length=lambda _self, _: 1), LENGTHS, "with more text is not longer"),
    (Poisoned, LENGTHS, "or after it, others got another answer"),
    (UNSHARED, LENGTHS, "asked twice"),
    (Credulous, "user_text_stays_text", "'<|assistant|>' is read as the chat template's own"),
]


@pytest.mark.parametrize(("engine", "rule", "said"), BROKEN)
def test_a_broken_engine_is_reported_with_its_rule(
    engine: type[Sound], rule: str, said: str
) -> None:
    violations = check_engine(engine)
    assert any(broken.rule == rule and said in broken.problem for broken in violations), violations


def test_every_rule_has_an_engine_that_breaks_it() -> None:
    assert {rule.__name__ for rule in RULES} == {rule for _, rule, _ in BROKEN}
