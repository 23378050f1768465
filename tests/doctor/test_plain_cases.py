"""The plain cases are what they say they are."""

import re
from collections import Counter

from localjudge.doctor.judgement import PlainCase, plain_cases
from localjudge.types import Relevance

FUNCTION_WORDS = {"a", "and", "are", "by", "each", "for", "from", "in", "is", "of", "the", "to", "was", "where", "with"}


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold())) - FUNCTION_WORDS


def material(case: PlainCase) -> str:
    around = case.context or ""
    return f"{around} {case.question}"


def test_both_answers_are_asked_for_equally_often() -> None:
    """A judge that always says the same gets half of them."""
    assert Counter(case.answer for case in plain_cases()) == {0: 8, 1: 8}


def test_a_statement_that_holds_is_copied_from_its_context() -> None:
    copied = [case.text in case.context for case in plain_cases() if case.context and case.answer]
    assert copied == [True] * 5


def test_what_does_not_hold_shares_no_word_with_what_it_is_held_against() -> None:
    """Nobody can say that it is supported after all."""
    for case in plain_cases():
        if not case.answer:
            assert not words(case.text) & words(material(case)), case.text


def test_cases_are_about_attribution_or_about_a_sentence_of_a_passage() -> None:
    """A sentence is asked about beside its passage, where it stands, as a run does."""
    tasks = [case.task() for case in plain_cases()]
    relevance = [task for task in tasks if isinstance(task, Relevance)]
    assert (len(tasks), len(relevance)) == (16, 6)
    for task in relevance:
        span = task.unit.span
        assert task.contexts[0][span.start : span.end] == span.text
