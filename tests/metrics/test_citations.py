"""Citations: which context each name in a mark names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge import Sample
from localjudge.metrics import (
    Attribution,
    Context,
    Outcome,
    Scored,
    Span,
    Undefined,
    catalog,
    response_statements,
)
from localjudge.text import Segmenter

sentences = Segmenter()

CONTEXTS = (Context(text="one", id="doc-1"), Context(text="two", id="b"), Context(text="three"))
PIECES = [
    "[1]",
    "[2,3]",
    "[doc-1]",
    "[b]",
    "[doc-9]",
    "[1-3]",
    "[",
    "]",
    "[sic]",
    "[[1]]",
    "A b. ",
    "\n",
    "【1†s】",
]
PIECES += [
    "<think>",
    "</think>",
    "```\n",
    "| a | b |\n",
    "Sources:\n",
    "[^1]: c.pdf",
    "<sup>1</sup>",
    "(1)",
    "<p>",
    "`",
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=14).map("".join)


@given(text=TEXTS)
def test_each_citation_belongs_to_at_most_one_verbatim_sentence(text: str) -> None:
    """Statements are verbatim, in order, apart; the judge is shown a part of each, with a word.

    Marks are in order and apart, and each names something.
    """
    sample = Sample(id="1", response=text, retrieved_contexts=CONTEXTS)
    end = 0
    end_of_mark = 0
    for statement in response_statements(sample, sentences):
        assert statement.span.start >= end
        end = statement.span.end
        assert text[statement.span.start : end] == statement.span.text
        assert any(map(str.isalnum, statement.shown))
        assert len(statement.shown) <= len(statement.span.text)
        for mark in statement.marks:
            assert end_of_mark <= mark.start < mark.end <= len(text)
            assert mark.names
            end_of_mark = mark.end


def answering(response: str, contexts: tuple[Context, ...] = CONTEXTS) -> Sample:
    return Sample(id="1", response=response, retrieved_contexts=contexts)


def cited_texts(response: str) -> tuple[str, ...]:
    """Return the contexts that the judge is shown for the only sentence that cites."""
    (task,) = next(catalog.get("citation_support").steps(answering(response), sentences))
    assert isinstance(task, Attribution)
    return task.contexts


def validity(sample: Sample) -> Outcome:
    with pytest.raises(StopIteration) as finished:
        next(catalog.get("citation_validity").steps(sample, sentences))
    return finished.value.value  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("mark", "cited"),
    [
        ("[b]", ("two",)),
        ("[3]", ("three",)),
        ("[1\u20132]", ("one", "two")),
        ("[ doc-1 , 2 ]", ("one", "two")),
        ("[passage 3]", ("three",)),
        ("[Source: 3]", ("three",)),
        ("[cite: 2, 3]", ("two", "three")),
        ("[来源 3]", ("three",)),
        ("[^3]", ("three",)),
        ("[^3^]", ("three",)),
        ("[[3]]", ("three",)),
        ("[[3]](https://a.example/b)", ("three",)),
        ("[3](https://a.example/b_(c))", ("three",)),
        ("【3†source】", ("three",)),
        ("【3】", ("three",)),
        ("［3］", ("three",)),
        ("[3, p. 12]", ("three",)),
        ("<sup>[3]</sup>", ("three",)),
        ('<sup><a href="#fn3">2,3</a></sup>', ("two", "three")),
        ("([3])", ("three",)),
        ("[1][3]", ("one", "three")),
    ],
)
def test_citation_marks_name_their_contexts(mark: str, cited: tuple[str, ...]) -> None:
    for response in (f"So it was {mark}.", f"So it was. {mark} Then"):
        assert cited_texts(response) == cited
        assert validity(answering(response)) == Scored(
            value=1, numerator=len(cited), denominator=len(cited)
        )


@pytest.mark.parametrize("name", ["4", "doc-99", "007"])
def test_a_name_without_a_context_was_not_retrieved(name: str) -> None:
    """Neither a rank above the number of contexts nor an unknown id names one."""
    for response in (f"So it was [{name}].", f"So it was. [{name}] Then"):
        assert cited_texts(response) == ()
        assert validity(answering(response)) == Scored(
            value=0, numerator=0, denominator=1, detail=f"not retrieved: {name}"
        )


@pytest.mark.parametrize(
    "text",
    [
        "[3-1]",
        "[1-999]",
        "[c]",
        "[1.5]",
        "[10%]",
        "[2019-05]",
        "[a 1]",
        "[1\n]",
        f"[{'1,' * 200}1]",
    ],
)
def test_other_brackets_are_not_citation_marks(text: str) -> None:
    """A descending or open range, a word without a digit, a number above the ranks, a line break.

    A word with a digit is a citation only if contexts have ids.
    """
    nothing = Undefined(reason="the response cites nothing")
    assert validity(answering(text)) == nothing
    assert validity(answering("So [doc-9].", (Context(text="one"),))) == nothing


def test_many_brackets_and_cited_sentences_take_linear_time() -> None:
    """Quadratic time would be beyond the limit of a test."""
    assert isinstance(validity(answering("[" * 200_000)), Undefined)
    whole = validity(answering("[1]" * 20_000))
    assert isinstance(whole, Scored)
    assert whole.denominator == 20_000
    text = "Ab [1]. " * 3_000
    spans = [Span(start=start, end=start + 7, text="Ab [1].") for start in range(0, len(text), 8)]
    sample = Sample(id="1", response=text, retrieved_contexts=CONTEXTS)
    stated = response_statements(sample, lambda _: spans)
    assert {(statement.span.text, statement.marks[0].names) for statement in stated} == {
        ("Ab", ("1",))
    }
    assert len(stated) == 3_000
