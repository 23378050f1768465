"""The NumPy model and llama.cpp give the same logit, within 0.05."""

from collections.abc import Callable, Sequence

import pytest
from bare_llama import BareModel
from lexical_judge.committed import CONTEXT, Vocabulary
from lexical_judge.numpy_model import NumpyJudge, attribution, relevance

pytestmark = pytest.mark.engine

Agree = Callable[..., bool]

TOWER = (
    "The Iron Gate was opened in 1936 by the city of Porto, "
    "which had paid 1,200 workers to build it."
)
FILLER = (
    "Ships brought grain, wool and salt to the harbour; "
    "merchants kept their books in a hall above the water. "
)
STATEMENTS = (
    "The Iron Gate was opened in 1936.",
    "The Iron Gate was opened in 1937 by Lisbon.",
    "Yes.",
    "1936 1,200",
    "",
    "Ворота открыл город Порту.",
    "The U.S. paid 50% of the café's costs.",
    "서울은 대한민국의 수도이다.",
    "नई दिल्ली 北京 القاهرة",
)


@pytest.fixture
def agree(numpy_judge: NumpyJudge, llama_judge: BareModel) -> Agree:
    """Return whether both agree on a prompt; llama.cpp may have its first tokens in its cache."""

    def within(prompt: Sequence[int], kept: int = 0) -> bool:
        return llama_judge.log_odds(prompt[kept:], kept) == pytest.approx(
            numpy_judge.log_odds(prompt), abs=0.05
        )

    return within


@pytest.mark.parametrize("statement", STATEMENTS)
def test_short_prompts(statement: str, words: Vocabulary, agree: Agree) -> None:
    assert agree(attribution(words, [TOWER], statement))


@pytest.mark.parametrize("place", [0, 7000])
def test_prompts_that_nearly_fill_the_window(place: int, words: Vocabulary, agree: Agree) -> None:
    text = FILLER * 330
    prompt = attribution(words, [text[: 5 * place] + TOWER + text[5 * place :]], STATEMENTS[0])
    assert 7000 < len(prompt) < 8192
    assert agree(prompt)


def test_several_contexts(words: Vocabulary, agree: Agree) -> None:
    assert agree(attribution(words, [FILLER, "", TOWER, FILLER * 3], STATEMENTS[0]))


@pytest.mark.parametrize(
    "contexts",
    [[], [TOWER], [FILLER * 5, "", f"{TOWER} {FILLER}"], [TOWER * 60, FILLER * 200]],
)
@pytest.mark.parametrize("judged", [TOWER, FILLER, "", "1936"])
def test_relevance(judged: str, contexts: list[str], words: Vocabulary, agree: Agree) -> None:
    """A chunk has no contexts, a sentence has; the last contexts fill the window."""
    assert agree(relevance(words, contexts, "When was the Iron Gate in Porto opened?", judged))


def test_a_statement_decoded_from_a_shared_context(
    words: Vocabulary, llama_judge: BareModel, agree: Agree
) -> None:
    context = FILLER * 20 + TOWER
    shared = [words.ids[CONTEXT], *words.tokenizer.encode(context)]
    llama_judge.logits(shared)
    for statement in STATEMENTS:
        assert agree(attribution(words, [context], statement), len(shared))
