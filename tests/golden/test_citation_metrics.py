import pytest

from localjudge import Sample
from localjudge.metrics import Context, Label, Scored, Undefined
from tests.golden.scoring import asked_and_scored, score, table

PARIS = Sample(
    id="paris",
    user_input="What is Paris?",
    response="Paris is the capital [1]. It lies on the Seine.[2, 3] It is old. It is big [9].",
    retrieved_contexts=tuple(Context(text=f"chunk {rank}") for rank in (1, 2, 3)),
)


def test_citation_validity_counts_citations_and_names_invalid_ones() -> None:
    """[1], [2, 3] and [9] are four citations; rank 9 does not exist: 3 / 4."""
    expected = Scored(value=3 / 4, numerator=3, denominator=4, detail="not retrieved: 9")
    assert score("citation_validity", PARIS, {}) == expected


def test_citation_support_uses_all_cited_contexts_together() -> None:
    """Supported, unsupported, and an invalid citation: 1 / 3; with the uncited sentence 1 / 4."""
    rows = {
        "Paris is the capital": "1",
        "It lies on the Seine.": "0",
        "It is big": "0",
        "It is old.": "0",
    }
    yes = table(rows, ["cited"])
    asked, outcome = asked_and_scored("citation_support", PARIS, yes)
    assert outcome == Scored(value=1 / 3, numerator=1, denominator=3)
    shown = [task.model_dump()["contexts"] for task in asked]
    assert shown == [("chunk 1",), ("chunk 2", "chunk 3"), ()]  # the last is 0 without asking
    for span in (task.unit.span for task in asked):
        assert str(PARIS.response)[span.start : span.end] == span.text
    asked, outcome = asked_and_scored("citation_support(of=all)", PARIS, yes)
    assert outcome == Scored(value=1 / 4, numerator=1, denominator=4)
    assert [task.unit.span.text for task in asked][2] == "It is old."
    assert asked[2].model_dump()["contexts"] == ()


@pytest.mark.parametrize(
    ("ids", "response", "expected"),
    [
        # Exact ids; doc-9 looks like an id, but is unknown: 2 / 3.
        (("doc-7", "doc-8"), "So [doc-7]. And [doc-8; doc-9].", (2, 3)),
        # Numeric ids have priority over ranks: 17 is an id, 1 is not.
        (("17", "4"), "So [17]. And [1].", (1, 2)),
        # Ids like doc1 have priority over ranks with a word; plain numbers are still ranks.
        (("doc10", "doc11"), "So [doc10]. And [doc2]. And [2].", (2, 3)),
        # Ranks start at 1.
        ((None, None), "So [0]. And [1]. And [2].", (2, 3)),
        # A range contains the ranks 1, 2 and 3; two exist.
        ((None, None), "So [1-3].", (2, 3)),
        # Words before a rank, and a footnote mark.
        ((None, None), "So [doc1]. And [Source 2]. And [^3].", (2, 3)),
        # A repeated citation counts again.
        ((None, None), "So [1]. And [1].", (2, 2)),
        # The same id at two ranks is retrieved.
        (("a1", "a1"), "So [a1].", (1, 1)),
    ],
)
def test_ranks_and_ids(
    ids: tuple[str | None, ...], response: str, expected: tuple[int, int]
) -> None:
    contexts = tuple(Context(text=f"chunk {rank}", id=each) for rank, each in enumerate(ids, 1))
    sample = PARIS.model_copy(update={"retrieved_contexts": contexts, "response": response})
    found = score("citation_validity", sample, {}).model_dump()
    assert (found["numerator"], found["denominator"]) == expected
    assert found["value"] == expected[0] / expected[1]


@pytest.mark.parametrize(
    "response",
    [
        "Nothing is cited.",
        "He said so [sic].",
        "It opened [in 2019] and closed [2021].",
        "See [the page](https://example.org/1).",
        "An empty [] pair, [ ] and a [- list].",
        "[1, see there] is no mark as a whole.",
        "",
    ],
)
@pytest.mark.parametrize(
    "metric", ["citation_validity", "citation_support", "citation_support(of=all)"]
)
def test_other_brackets_are_not_citations(metric: str, response: str) -> None:
    cites = response or metric == "citation_validity"
    reason = "the response cites nothing" if cites else "the response has no sentence"
    assert score(metric, PARIS.model_copy(update={"response": response}), {}) == Undefined(
        reason=reason
    )


def test_without_contexts_every_citation_is_invalid() -> None:
    """0 / 4 and 0 / 3, without a question to the judge."""
    sample = PARIS.model_copy(update={"retrieved_contexts": ()})
    validity = score("citation_validity", sample, {})
    assert validity == Scored(
        value=0, numerator=0, denominator=4, detail="not retrieved: 1, 2, 3, 9"
    )
    none = table(
        dict.fromkeys(("Paris is the capital", "It lies on the Seine.", "It is big"), "0"),
        ["cited"],
    )
    asked, outcome = asked_and_scored("citation_support", sample, none)
    assert outcome == Scored(value=0, numerator=0, denominator=3)
    assert [task.model_dump()["contexts"] for task in asked] == [()] * 3


def test_a_mark_on_its_own_line_belongs_to_the_previous_sentence() -> None:
    """One sentence, supported by chunks 1 and 2 together: 1 / 1."""
    sample = PARIS.model_copy(update={"response": "Paris is old.\n\n[1][2]"})
    yes: dict[str, Label] = {"Paris is old. | cited": 1}
    (task,), outcome = asked_and_scored("citation_support", sample, yes)
    assert outcome == Scored(value=1, numerator=1, denominator=1)
    assert task.model_dump()["contexts"] == ("chunk 1", "chunk 2")


def test_a_long_list_of_invalid_citations_is_shortened() -> None:
    marks = "".join(f"[{number}]" for number in range(10, 20))
    found = score("citation_validity", PARIS.model_copy(update={"response": f"So {marks}."}), {})
    assert found.model_dump()["detail"] == "not retrieved: 10, 11, 12, 13, 14 and 5 more"
