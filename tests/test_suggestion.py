"""What is said to a name that does not exist."""

import pytest

from localjudge.words import suggestion

NAMES = ("context_recall", "context_relevancy", "document_mrr", "recall@k")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("contxt_recall", "did you mean context_recall?"),
        ("faith", "the metrics are context_recall, context_relevancy, document_mrr, recall@k"),
        ("answer_relevancy", "the metrics are context_recall, context_relevancy, document_mrr, recall@k"),
        ("mrr", "did you mean document_mrr?"),
        ("relevancy", "did you mean context_relevancy?"),
        ("recall", "did you mean recall@k, context_recall?"),
    ],
)
def test_only_what_is_alike_is_suggested(wanted: str, said: str) -> None:
    """Everything that there is, is not what was meant."""
    assert suggestion(wanted, NAMES, "the metrics") == said


def test_of_many_names_the_first_are_shown() -> None:
    names = [f"row-{number}" for number in range(1_000)]
    assert suggestion("nope", names, "its samples").startswith("its samples are row-0, row-1, ")
    assert suggestion("nope", names, "its samples").endswith(", row-19 and 980 more")


def test_beside_a_near_name_at_most_two_are_shown_that_hold_the_wanted_one() -> None:
    """As `--metrics recall` is answered."""
    names = ("context_recall", "matrix_recall", "document_recall", "recall@k")
    assert suggestion("recall", names, "the metrics") == "did you mean recall@k, context_recall, matrix_recall?"
