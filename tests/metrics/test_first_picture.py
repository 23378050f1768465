"""Which metrics a run computes if none is named."""

import pytest

from localjudge.metrics import catalog
from localjudge.metrics.catalog import ALL_CHOICES, FIRST_CHOICES, first_picture

DOCUMENTS = tuple(name for name in catalog.our_names() if name.startswith("document_"))


def possible(*fields: str) -> list[str]:
    """Metrics that these columns are enough for."""
    return [name for name in catalog.our_names() if catalog.example(name).required_fields <= {*fields}]


@pytest.mark.parametrize(
    ("fields", "chosen"),
    [
        (
            ("user_input", "retrieved_contexts", "reference", "response"),
            ("context_recall", "faithfulness", "answer_correctness"),
        ),
        (("user_input", "retrieved_contexts", "reference"), ("context_recall",)),
        # The triad of who has no reference.
        (
            ("user_input", "retrieved_contexts", "response"),
            ("context_relevancy_chunk", "faithfulness", "answer_relevancy"),
        ),
        (("user_input", "retrieved_contexts"), ("context_relevancy_chunk",)),
        (("user_input", "response"), ("answer_relevancy",)),
        (("response", "reference"), ("answer_correctness",)),
        # Ground-truth documents tell of the retrieval, and ask nothing.
        (("user_input", "retrieved_contexts", "reference_contexts"), DOCUMENTS),
        (("retrieved_contexts", "reference_contexts", "reference"), ("context_recall", *DOCUMENTS)),
        (("user_input",), ()),
    ],
)
def test_one_metric_for_each_question_that_the_columns_can_answer(
    fields: tuple[str, ...], chosen: tuple[str, ...]
) -> None:
    assert first_picture(possible(*fields)) == chosen


def test_what_is_chosen_is_in_the_catalogue_and_can_be_asked_of_every_judge() -> None:
    """The reference judge is the default one."""
    assert {*FIRST_CHOICES} <= {*ALL_CHOICES} <= {*catalog.our_names()}
    assert not catalog.special_tasks_of(map(catalog.get, ALL_CHOICES))
    assert {*DOCUMENTS} <= {*FIRST_CHOICES}
