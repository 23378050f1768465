from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from localjudge import ScriptedEngine
from localjudge.engine.scripted import unit_text
from localjudge.judge.profile import load_grammar
from localjudge.types import Answer, NoAnswer, Piece, VerdictRequest

pytestmark = pytest.mark.engine

FULL = Answer(p_yes=0.25, valid_mass=0.5, raw='{"attributed":0}', reason="no bridge")
REFUSED = NoAnswer(error="too strange", valid_mass=0.001)


def about(text: str) -> VerdictRequest:
    return VerdictRequest(((Piece(text, trusted=False),),), load_grammar("attributed"))


def halved(probability: float, _request: VerdictRequest) -> float:
    return probability / 2


@pytest.mark.parametrize("said", [FULL, REFUSED])
def test_a_script_may_give_complete_answers(said: Answer | NoAnswer) -> None:
    for engine in (
        ScriptedEngine({"a": said}),
        ScriptedEngine({}, default=said),
        ScriptedEngine(lambda _: said),
    ):
        assert list(engine.answers([about("a")])) == [(0, said)]


def test_the_identity_of_a_mapping_is_stable() -> None:
    """sha256 of `{"a": 0.5}|None`. Complete answers are part of it."""
    digest = "32352c3ac6468e264ae1f259b38cc5445b84e2b6523014f2ac2bad7b30c16e25"
    assert ScriptedEngine({"a": 0.5}).identity == {"engine": "scripted", "script_sha256": digest}
    assert ScriptedEngine({"a": FULL}).identity != ScriptedEngine({"a": REFUSED}).identity


@pytest.mark.parametrize(
    ("script", "name"),
    [
        (eval("lambda request: 0.5", {"__name__": "typed"}), "typed.<lambda>"),
        (
            partial(eval("lambda half, request: half", {"__name__": "typed"}), 0.5),
            "typed.<lambda>",
        ),
    ],
    ids=["typed into a session", "with an argument"],
)
def test_a_script_without_source_code_is_identified_by_name(script: Any, name: str) -> None:
    engine = ScriptedEngine(script)
    assert engine.identity["script"] == f"{name} (known by name alone)"
    assert [
        answer.p_yes for _, answer in engine.answers([about("a")]) if isinstance(answer, Answer)
    ] == [0.5]


class Fixed:
    """A script that is an object."""

    def __init__(self, probability: float) -> None:
        self.probability = probability
        self.asked: list[VerdictRequest] = []

    def __call__(self, request: VerdictRequest) -> float:
        """Give the probability."""
        self.asked.append(request)
        return self.probability


def fixed(probability: float) -> Callable[[VerdictRequest], float]:
    asked = []
    count = 0

    def answer(request: VerdictRequest) -> float:
        nonlocal count
        count += 1
        asked.append(request)
        return probability

    return answer


def with_default(given: float) -> Callable[[VerdictRequest], float]:
    def answer(_: VerdictRequest, probability: float = given, other: None = None) -> float:
        return probability

    return answer


@pytest.mark.parametrize("make", [fixed, Fixed, with_default, lambda given: partial(halved, given)])
def test_a_script_that_sees_another_number_is_another_script(make: Callable[[float], Any]) -> None:
    """The second engine took the answers of the first. What the script appends does not count."""
    first = ScriptedEngine(make(0.2))
    identity = first.identity
    list(first.answers([about("a")]))
    assert first.identity == identity == ScriptedEngine(make(0.2)).identity
    assert ScriptedEngine(make(0.8)).identity != identity


@pytest.mark.parametrize(
    ("path", "unit"),
    [
        ([["Is it so?"], ["context"], ["unit", "Is it so?"]], "unit"),
        ([[], ["context"], ["unit"]], "unit"),
        ([["same"], ["other"], ["same"]], "same"),
        ([["unit"], []], "unit"),
        ([["question", "unit"]], "unit"),
        ([[], []], ""),
    ],
)
def test_the_unit_is_the_last_text_unless_a_custom_question_follows(
    path: list[list[str]], unit: str
) -> None:
    nodes = tuple(tuple(Piece(text, trusted=False) for text in node) for node in path)
    assert unit_text(VerdictRequest(nodes, load_grammar("answer"))) == unit
