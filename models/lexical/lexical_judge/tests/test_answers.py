"""The judge's answers: valid JSON without a grammar, and verdicts that follow missing words."""

from collections.abc import Callable

import numpy as np
import pytest
from bare_llama import BareModel
from lexical_judge import numpy_model
from lexical_judge.committed import END, Vocabulary

pytestmark = pytest.mark.engine

CONTEXT = (
    "Ada Lovelace wrote the first program in 1843. "
    "She was born in London and worked with Charles Babbage."
)


Logit = Callable[..., float]


@pytest.fixture
def attribution(words: Vocabulary, llama_judge: BareModel) -> Logit:
    """Of a statement about contexts."""
    return lambda statement, *contexts: llama_judge.log_odds(
        numpy_model.attribution(words, contexts or [CONTEXT], statement)
    )


@pytest.fixture
def relevance(words: Vocabulary, llama_judge: BareModel) -> Logit:
    """Of a sentence to a question, beside contexts."""
    return lambda question, sentence, *contexts: llama_judge.log_odds(
        numpy_model.relevance(words, contexts, question, sentence)
    )


@pytest.mark.parametrize(
    "statement", ["Ada Lovelace was born in London.", "Cats sleep all day.", ""]
)
def test_greedy_decoding_closes_the_answer_without_a_grammar(
    statement: str, words: Vocabulary, llama_judge: BareModel
) -> None:
    prompt = numpy_model.attribution(words, [CONTEXT], statement)
    answer: list[int] = []
    for _ in range(3):
        answer.append(int(llama_judge.logits([*prompt, *answer]).argmax()))
    digit, close, end = (words.tokens[token].text for token in answer)
    assert digit in ("0", "1")
    assert (close, end) == ("}", END)


def test_nearly_all_probability_is_on_the_two_digits(
    words: Vocabulary, llama_judge: BareModel
) -> None:
    logits = llama_judge.logits(numpy_model.attribution(words, [CONTEXT], "Cats sleep.")).astype(
        np.float64
    )
    chances = np.exp(logits - np.logaddexp.reduce(logits))
    assert chances[words.ids["0"]] + chances[words.ids["1"]] > 0.999


@pytest.mark.parametrize(
    ("statement", "sign"),
    [
        ("Ada Lovelace wrote the first program in 1843.", 1),  # copied
        ("Mount Everest is the highest mountain of Nepal.", -1),
        ("1843", 1),
        ("1844", -1),
        ("London", 1),
        ("Berlin", -1),
    ],
)
def test_a_statement_is_attributed_if_its_words_are_there(
    statement: str, sign: int, attribution: Logit
) -> None:
    assert sign * attribution(statement) > 0


def test_a_fact_is_found_in_any_of_several_contexts_and_in_no_empty_one(attribution: Logit) -> None:
    statement = "Ada Lovelace was born in London."
    contexts = ["Cats sleep.", CONTEXT, "", "The harbour is full of ships."]
    assert attribution(statement, *contexts) > 0
    assert attribution(statement, *contexts[::-1]) > 0
    assert attribution(statement, "") < 0


def test_the_sentence_with_the_question_s_words_is_more_relevant_and_a_repeated_word_counts_once(
    relevance: Logit,
) -> None:
    question = "Where was Ada Lovelace born?"
    with_words = relevance(question, "Lovelace was born in London.")
    assert with_words > relevance(question, "The harbour is full of ships.") + 1
    once = relevance(question, "Lovelace")
    assert relevance(question, "Lovelace Lovelace Lovelace") == pytest.approx(once, abs=0.05)
