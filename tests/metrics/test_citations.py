import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge.metrics.citations import Citation, marks, response_sentences
from localjudge.text import sentences
from localjudge.types import Context, Sample, Span

CONTEXTS = (Context(text="one", id="doc-1"), Context(text="two", id="b"), Context(text="three"))
PIECES = ["[1]", "[2,3]", "[doc-1]", "[b]", "[doc-9]", "[1-3]", "[", "]", "[sic]", "[[1]]", "A b. ", "\n"]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=12).map("".join)


@given(text=TEXTS)
def test_each_citation_belongs_to_one_verbatim_sentence(text: str) -> None:
    end = 0
    for mark in marks(text, CONTEXTS):
        assert mark.start >= end
        assert text[mark.start] == "["
        assert text[mark.end - 1] == "]"
        assert mark.citations
        assert all(citation.context in {None, 0, 1, 2} for citation in mark.citations)
        end = mark.end
    spans, in_order = sentences(text), marks(text, CONTEXTS)
    stated = response_sentences(Sample(id="1", response=text, retrieved_contexts=CONTEXTS), sentences)
    for sentence in stated:
        assert text[sentence.span.start : sentence.span.end] == sentence.span.text
        assert any(map(str.isalnum, sentence.span.text))
    inside = [mark for mark in in_order if any(span.start <= mark.start and mark.end <= span.end for span in spans)]
    assert sum(len(sentence.citations) for sentence in stated) <= sum(len(mark.citations) for mark in inside)


@pytest.mark.parametrize(
    ("mark", "citations"),
    [
        ("[b]", (Citation("b", 1),)),
        ("[3]", (Citation("3", 2),)),
        ("[4]", (Citation("4", None),)),
        ("[1\u20132]", (Citation("1", 0), Citation("2", 1))),
        ("[ doc-1 , 2 ]", (Citation("doc-1", 0), Citation("2", 1))),
        ("[doc-99]", (Citation("doc-99", None),)),
        ("[007]", (Citation("007", None),)),
        ("[passage 3]", (Citation("3", 2),)),
    ],
)
def test_citation_marks_name_their_contexts(mark: str, citations: tuple[Citation, ...]) -> None:
    assert [cited.citations for cited in marks(f"So {mark}.", CONTEXTS)] == [citations]


@pytest.mark.parametrize(
    "text", ["[3-1]", "[1-999]", "[c]", "[1.5]", "[10%]", "[2019-05]", "[a 1]", "[1\n]", f"[{'1,' * 200}1]"]
)
def test_other_brackets_are_not_citation_marks(text: str) -> None:
    """A descending or open range, a word without a digit, a number that is not a rank, a line break.

    A word with a digit is a citation only if contexts have ids.
    """
    assert marks(text, CONTEXTS) == []
    assert marks("So [doc-9].", (Context(text="one"),)) == []


def test_many_brackets_and_cited_sentences_take_linear_time() -> None:
    assert marks("[" * 200_000, CONTEXTS) == []
    assert len(marks("[1]" * 60_000, CONTEXTS)) == 60_000
    text = "Ab [1]. " * 30_000
    spans = [Span(start=start, end=start + 7, text="Ab [1].") for start in range(0, len(text), 8)]
    sample = Sample(id="1", response=text, retrieved_contexts=CONTEXTS)
    stated = response_sentences(sample, lambda _: spans)
    assert {(sentence.span.text, sentence.citations) for sentence in stated} == {("Ab", (Citation("1", 0),))}
