"""What the judge answers: legal JSON without a grammar, and verdicts that move as words go missing."""

import numpy as np
import pytest
from bare_llama import BareModel
from reference_judge import prompts
from reference_judge.vocabulary import END, Vocabulary

CONTEXT = "Ada Lovelace wrote the first program in 1843. She was born in London and worked with Charles Babbage."


def attribution_logit(judge: BareModel, words: Vocabulary, context: str, statement: str) -> float:
    return judge.log_odds(prompts.attribution(words, [context], statement))


def relevance_logit(judge: BareModel, words: Vocabulary, question: str, sentence: str) -> float:
    return judge.log_odds(prompts.relevance(words, [], question, sentence))


@pytest.mark.parametrize("statement", ["Ada Lovelace was born in London.", "Cats sleep all day.", ""])
def test_greedy_decoding_closes_the_answer_without_a_grammar(
    statement: str, words: Vocabulary, llama_judge: BareModel
) -> None:
    prompt = prompts.attribution(words, [CONTEXT], statement)
    answer: list[int] = []
    for _ in range(3):
        answer.append(int(llama_judge.logits([*prompt, *answer]).argmax()))
    digit, close, end = (words.tokens[token].text for token in answer)
    assert digit in ("0", "1")
    assert (close, end) == ("}", END)


def test_nearly_all_probability_is_on_the_two_digits(words: Vocabulary, llama_judge: BareModel) -> None:
    logits = llama_judge.logits(prompts.attribution(words, [CONTEXT], "Cats sleep.")).astype(np.float64)
    chances = np.exp(logits - np.logaddexp.reduce(logits))
    assert chances[words.ids["0"]] + chances[words.ids["1"]] > 0.999


def test_a_copied_sentence_is_attributed(words: Vocabulary, llama_judge: BareModel) -> None:
    assert attribution_logit(llama_judge, words, CONTEXT, "Ada Lovelace wrote the first program in 1843.") > 0


def test_an_unrelated_sentence_is_not_attributed(words: Vocabulary, llama_judge: BareModel) -> None:
    assert attribution_logit(llama_judge, words, CONTEXT, "Mount Everest is the highest mountain of Nepal.") < 0


@pytest.mark.parametrize("changed", ["1844", "1943", "1842 or 1843"])
def test_another_number_counts_against_a_statement(changed: str, words: Vocabulary, llama_judge: BareModel) -> None:
    told = attribution_logit(llama_judge, words, CONTEXT, "She wrote the first program in 1843.")
    assert attribution_logit(llama_judge, words, CONTEXT, f"She wrote the first program in {changed}.") < told - 0.5


def test_another_name_counts_against_a_statement(words: Vocabulary, llama_judge: BareModel) -> None:
    told = attribution_logit(llama_judge, words, CONTEXT, "She worked with Charles Babbage.")
    assert attribution_logit(llama_judge, words, CONTEXT, "She worked with Isaac Newton.") < told - 1


@pytest.mark.parametrize("statement", ["", "?!", "<unk>"])
def test_a_statement_of_no_words_is_not_attributed(statement: str, words: Vocabulary, llama_judge: BareModel) -> None:
    assert attribution_logit(llama_judge, words, CONTEXT, statement) < 1.5


@pytest.mark.parametrize(("statement", "sign"), [("1843", 1), ("1844", -1), ("London", 1), ("Berlin", -1)])
def test_one_word_is_judged_by_itself(statement: str, sign: int, words: Vocabulary, llama_judge: BareModel) -> None:
    assert sign * attribution_logit(llama_judge, words, CONTEXT, statement) > 0


def test_an_empty_context_supports_nothing(words: Vocabulary, llama_judge: BareModel) -> None:
    assert attribution_logit(llama_judge, words, "", "Ada Lovelace was born in London.") < 0


def test_a_fact_is_found_in_any_of_several_contexts(words: Vocabulary, llama_judge: BareModel) -> None:
    contexts = ["Cats sleep all day.", CONTEXT, "", "The harbour is full of ships."]
    for turned in (contexts, contexts[::-1]):
        assert llama_judge.log_odds(prompts.attribution(words, turned, "Ada Lovelace was born in London.")) > 0


def test_the_sentence_with_the_question_s_words_is_more_relevant(words: Vocabulary, llama_judge: BareModel) -> None:
    question = "Where was Ada Lovelace born?"
    with_words = relevance_logit(llama_judge, words, question, "Lovelace was born in London.")
    assert with_words > relevance_logit(llama_judge, words, question, "The harbour is full of ships.") + 1


def test_a_repeated_word_of_the_question_counts_once(words: Vocabulary, llama_judge: BareModel) -> None:
    question = "Where was Ada Lovelace born?"
    once = relevance_logit(llama_judge, words, question, "Lovelace")
    assert relevance_logit(llama_judge, words, question, "Lovelace Lovelace Lovelace") == pytest.approx(once, abs=0.05)


def test_what_the_contexts_say_everywhere_distinguishes_no_sentence(words: Vocabulary, llama_judge: BareModel) -> None:
    """Each sentence holds the question's name, which is everywhere; one holds more of the question."""
    told = ["Lovelace lived in Marylebone.", "Lovelace wrote a program.", "Lovelace was born in London."]
    beside, question = [" ".join(told * 2)], "Which program did Lovelace write?"

    def relevance(sentence: str) -> float:
        return llama_judge.log_odds(prompts.relevance(words, beside, question, sentence))

    assert relevance(told[1]) > 1.5
    assert relevance(told[0]) == relevance(told[2]) < 0.1
