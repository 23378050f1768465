"""The contract suite: our engines keep it, and an engine that breaks a rule is told which."""
# ruff: noqa: D102 -- the names of the broken engines say what is wrong with them

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import random_model

from localjudge.engine import ScriptedEngine
from localjudge.engine.llamacpp.engine import LlamaCppEngine
from localjudge.engine.protocol import EngineSettings
from localjudge.engine.scripted import unit_text
from localjudge.types import Answer, ChatEnds, NoAnswer, VerdictRequest
from tests.engine.conftest import TEMPLATE, Asker, ModelMaker
from tests.engine.contract import RULES, check_engine

pytestmark = pytest.mark.engine

Answers = Iterator[tuple[int, Answer | NoAnswer]]


def share(request: VerdictRequest) -> float:
    """A probability that hangs on the text of the whole prompt and on who wrote it."""
    text = repr(request.path).encode("utf-8", "surrogatepass")
    return sum(place * byte for place, byte in enumerate(text)) % 997 / 997


class Sound(ScriptedEngine):
    """Breaks nothing; what is wrong with those below is in one method each."""

    def __init__(self) -> None:
        super().__init__(share)


@pytest.mark.parametrize(
    "make", [lambda: ScriptedEngine({}, default=0.5), lambda: ScriptedEngine(share, capacity=20_000), Sound]
)
def test_a_scripted_engine_keeps_the_contract(make: Callable[[], ScriptedEngine]) -> None:
    assert check_engine(make) == []


@pytest.mark.parametrize(("architecture", "template"), [("llama", TEMPLATE), ("llama", None), ("lfm2", None)])
def test_llama_cpp_keeps_the_contract(make_model: ModelMaker, architecture: str, template: str | None) -> None:
    """With a chat template of control tokens, without one, and with a memory that cannot be cut."""
    file = make_model(architecture, vocabulary="pieces", chat_template=template)
    assert check_engine(lambda: LlamaCppEngine(file, EngineSettings(threads=1, n_ctx=2048))) == []


def test_markup_that_is_plain_text_in_a_vocabulary_of_single_characters_is_told(make_model: ModelMaker) -> None:
    """The known limit: it has one spelling, whoever writes it."""
    file = make_model(vocabulary="pieces", chat_template=random_model.CHAT_TEMPLATE)
    violations = check_engine(lambda: LlamaCppEngine(file, EngineSettings(threads=1, n_ctx=2048)))
    assert [violation.rule for violation in violations] == ["user_text_stays_text"]


def test_requests_of_ones_own_may_be_asked(ask: Asker) -> None:
    engine = ScriptedEngine({"a": 0.1, "b": 0.2, "c": "no"}, default=0.5)
    assert check_engine(lambda: engine, [ask("a"), ask("b", ["x"]), ask("c")]) == []
    assert {unit_text(request) for request in engine.asked} >= {"a", "b", "c"}


def broken(**parts: Any) -> type[Sound]:
    """One that breaks a rule by these methods and properties."""
    return type("Broken", (Sound,), parts)


def identified(identity: Callable[[Any], dict[str, Any]]) -> type[Sound]:
    return broken(identity=property(identity))


def yielding(change: Callable[[list[tuple[int, Any]]], list[Any]]) -> type[Sound]:
    """One that changes the list of its answers."""
    return broken(answers=lambda self, requests: iter(change(list(ScriptedEngine.answers(self, requests)))))


def answering(**fields: Any) -> type[Sound]:
    """One that gives the same answer, unchecked, whatever it is asked."""
    answer = Answer.model_construct(**{"p_yes": 0.5, "legal_mass": 1, "raw": "", "reason": None, **fields})
    return broken(_answer=lambda _self, _request: answer)


class Batched(Sound):
    """What stands first in a call sways the others."""

    def answers(self, requests: Sequence[VerdictRequest]) -> Answers:
        for index, answer in super().answers(requests):
            yield index, answer.model_copy(update={"p_yes": share(requests[0]) if index else 0.25})


class Poisoned(Sound):
    """What does not fit leaves something behind."""

    capacity = 20_000

    def _answer(self, request: VerdictRequest) -> Answer | NoAnswer:
        if any(self.length(earlier) > self.capacity for earlier in self.asked):
            return NoAnswer(error="poisoned")
        return super()._answer(request)


class Credulous(Sound):
    """Puts one text together and looks for markup in all of it."""

    @property
    def chat_ends(self) -> ChatEnds:
        return ChatEnds("<|user|>", "<|assistant|>", "0")

    def _answer(self, request: VerdictRequest) -> Answer:
        text = "".join(piece.text for node in request.path for piece in node)
        return Answer(p_yes=len(text) % 97 / 97, legal_mass=1, raw="")


IDENTITY, ONCE, ALONE = "identity_is_stable_json", "answers_each_once", "answers_depend_on_their_request_alone"
LEGAL, LENGTHS = "answers_are_legal", "lengths_hold_what_is_answered"
TIRING = broken(_answer=lambda self, _: Answer(p_yes=1 / (1 + len(self.asked)), legal_mass=1, raw=""))
BOUNDLESS = broken(capacity=20_000, _answer=lambda _self, _: Answer(p_yes=0.5, legal_mass=1, raw=""))
UNSHARED = broken(distinct_tokens=lambda self, requests: sum(map(self.length, requests)))
BROKEN: list[tuple[type[Sound], str, str]] = [
    (identified(lambda _: {"engine": "mine", "build": object()}), IDENTITY, "cannot be written as JSON"),
    (identified(lambda _: {"model": "mine"}), IDENTITY, "does not name the kind of engine"),
    (identified(lambda self: {"engine": "mine", "asked": len(self.asked)}), IDENTITY, "changed by answering"),
    (broken(identity=property(lambda self: {"engine": str(id(self))})), IDENTITY, "opened alike have different"),
    (yielding(lambda pairs: pairs[1:]), ONCE, "10 requests got answers with the indices [1, 2"),
    (yielding(lambda pairs: pairs * 2), ONCE, "10 requests got answers with the indices [0, 1"),
    (yielding(lambda pairs: [(index, 0.5) for index, _ in pairs]), ONCE, "request 0 got float"),
    (broken(_answer=lambda _self, _: NoAnswer(error="no")), ONCE, "none of the requests got an Answer"),
    (Batched, ALONE, "in reverse order"),
    (TIRING, ALONE, "alone"),
    (answering(p_yes=1.5), LEGAL, "p_yes is 1.5"),
    (answering(legal_mass=float("nan")), LEGAL, "legal_mass is nan"),
    (answering(raw='Sure! {"attributed":1}'), LEGAL, "the grammar does not allow 'Sure!"),
    (answering(reason="because"), LEGAL, "there is a reason"),
    (BOUNDLESS, LENGTHS, "longer than the capacity was answered"),
    (broken(length=lambda _self, _: 1), LENGTHS, "with more text is not longer"),
    (Poisoned, LENGTHS, "or after it, others got another answer"),
    (UNSHARED, LENGTHS, "asked twice"),
    (Credulous, "user_text_stays_text", "'<|assistant|>' is read as the chat template's own"),
]


@pytest.mark.parametrize(("engine", "rule", "said"), BROKEN)
def test_an_engine_that_breaks_a_rule_is_told_which(engine: type[Sound], rule: str, said: str) -> None:
    violations = check_engine(engine)
    assert any(broken.rule == rule and said in broken.problem for broken in violations), violations


def test_every_rule_has_an_engine_that_breaks_it() -> None:
    assert {rule.__name__ for rule in RULES} == {rule for _, rule, _ in BROKEN}
