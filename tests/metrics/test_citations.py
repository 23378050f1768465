"""Citations: which context each name in a mark names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge import Sample
from localjudge.metrics import Context, Span, response_statements
from localjudge.metrics.citations import Citation, ContextIndex
from localjudge.text import sentences
from localjudge.text.marks import find_marks

CONTEXTS = (Context(text="one", id="doc-1"), Context(text="two", id="b"), Context(text="three"))
IDS = frozenset({"doc-1", "b"})
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
    """Statements are verbatim, in order, apart; the judge is shown a part of each, with a word."""
    sample = Sample(id="1", response=text, retrieved_contexts=CONTEXTS)
    end = 0
    for statement in response_statements(sample, sentences):
        assert statement.span.start >= end
        end = statement.span.end
        assert text[statement.span.start : end] == statement.span.text
        assert any(map(str.isalnum, statement.shown))
        assert len(statement.shown) <= len(statement.span.text)
    cited = [
        mark for statement in response_statements(sample, sentences) for mark in statement.marks
    ]
    assert len({mark.start for mark in cited}) == len(cited)


@given(text=TEXTS)
def test_marks_are_in_order_and_apart(text: str) -> None:
    end = 0
    for mark in find_marks(text, IDS):
        assert end <= mark.start < mark.end <= len(text)
        assert mark.names
        end = mark.end


def find_citations(text: str, contexts: tuple[Context, ...]) -> list[Citation]:
    index = ContextIndex(contexts)
    return index.resolve(find_marks(text, index.ids))


@pytest.mark.parametrize(
    ("mark", "citations"),
    [
        ("[b]", [Citation("b", 1)]),
        ("[3]", [Citation("3", 2)]),
        ("[4]", [Citation("4", None)]),
        ("[1\u20132]", [Citation("1", 0), Citation("2", 1)]),
        ("[ doc-1 , 2 ]", [Citation("doc-1", 0), Citation("2", 1)]),
        ("[doc-99]", [Citation("doc-99", None)]),
        ("[007]", [Citation("007", None)]),
        ("[passage 3]", [Citation("3", 2)]),
        ("[Source: 3]", [Citation("3", 2)]),
        ("[cite: 2, 3]", [Citation("2", 1), Citation("3", 2)]),
        ("[来源 3]", [Citation("3", 2)]),
        ("[^3]", [Citation("3", 2)]),
        ("[^3^]", [Citation("3", 2)]),
        ("[[3]]", [Citation("3", 2)]),
        ("[[3]](https://a.example/b)", [Citation("3", 2)]),
        ("[3](https://a.example/b_(c))", [Citation("3", 2)]),
        ("【3†source】", [Citation("3", 2)]),
        ("【3】", [Citation("3", 2)]),
        ("［3］", [Citation("3", 2)]),
        ("[3, p. 12]", [Citation("3", 2)]),
        ("<sup>[3]</sup>", [Citation("3", 2)]),
        ('<sup><a href="#fn3">2,3</a></sup>', [Citation("2", 1), Citation("3", 2)]),
        ("([3])", [Citation("3", 2)]),
        ("[1][3]", [Citation("1", 0), Citation("3", 2)]),
    ],
)
def test_citation_marks_name_their_contexts(mark: str, citations: list[Citation]) -> None:
    assert find_citations(f"So it was {mark}.", CONTEXTS) == citations
    assert find_citations(f"So it was. {mark} Then", CONTEXTS) == citations


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
    assert find_citations(text, CONTEXTS) == []
    assert find_citations("So [doc-9].", (Context(text="one"),)) == []


def test_many_brackets_and_cited_sentences_take_linear_time() -> None:
    """Quadratic time would be beyond the limit of a test."""
    assert find_marks("[" * 200_000) == []
    assert len(find_marks("[1]" * 60_000)) == 60_000
    text = "Ab [1]. " * 3_000
    spans = [Span(start=start, end=start + 7, text="Ab [1].") for start in range(0, len(text), 8)]
    sample = Sample(id="1", response=text, retrieved_contexts=CONTEXTS)
    stated = response_statements(sample, lambda _: spans)
    assert {(statement.span.text, statement.marks[0].names) for statement in stated} == {
        ("Ab", ("1",))
    }
    assert len(stated) == 3_000
