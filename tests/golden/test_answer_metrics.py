from typing import Any

import pytest

from localjudge import Sample
from localjudge.metrics import Context, Label, Outcome, Scored, Undefined
from localjudge.types import Refusal, Sufficiency
from tests.golden.scoring import asked_and_scored, score, table

TOWER = Sample(
    id="tower",
    user_input="When was it built, and where is it?",
    response="It was built in 1889. It is in Paris. It is golden.",
    reference="It was built in 1889. It stands in Paris, France.",
    retrieved_contexts=(Context(text="chunk 1"), Context(text="chunk 2")),
)
# Two of the response's three sentences are in the reference, one of its two in the response.
AGREEMENT = table(
    {"It was built in 1889.": "1", "It is in Paris.": "1", "It is golden.": "0"}, ["reference"]
) | table({"It was built in 1889.": "1", "It stands in Paris, France.": "0"}, ["response"])


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("answer_correctness(mode=precision)", Scored(value=2 / 3, numerator=2, denominator=3)),
        ("answer_correctness(mode=recall)", Scored(value=1 / 2, numerator=1, denominator=2)),
        # 2 * 2/3 * 1/2 / (2/3 + 1/2) = (2/3) / (7/6) = 4/7
        ("answer_correctness", Scored(value=4 / 7, detail="precision 2/3, recall 1/2")),
    ],
)
def test_answer_correctness_is_precision_recall_and_their_harmonic_mean(
    metric: str, expected: Scored
) -> None:
    assert score(metric, TOWER, AGREEMENT) == expected


def test_recall_is_a_share_of_the_reference() -> None:
    """One right sentence three times: ragas's recall is 3 / (3 + 1) = 0.75, this one 1 / 2."""
    sample = TOWER.model_copy(update={"response": "In 1889. In 1889. In 1889."})
    in_response = table(
        {"It was built in 1889.": "1", "It stands in Paris, France.": "0"}, ["response"]
    )
    yes = table({"In 1889.": "1"}, ["reference"]) | in_response
    assert score("answer_correctness(mode=recall)", sample, yes) == Scored(
        value=1 / 2, numerator=1, denominator=2
    )
    # P = 3/3, R = 1/2: 2 * 1 * 1/2 / (3/2) = 2/3
    assert score("answer_correctness", sample, yes) == Scored(
        value=2 / 3, detail="precision 3/3, recall 1/2"
    )


def test_precision_or_recall_needs_half_of_the_questions() -> None:
    """3 sentences of the response, 2 of the reference, each with the question and other text."""
    modes = ("precision", "recall", "f1")
    precision, recall, f1 = (
        asked_and_scored(f"answer_correctness(mode={mode})", TOWER, AGREEMENT)[0] for mode in modes
    )
    assert [task.unit.against for task in precision] == ["reference"] * 3
    assert [(task.unit.source, task.unit.against) for task in recall] == [
        ("reference", "response")
    ] * 2
    assert f1 == precision + recall
    shown = recall[0].model_dump()
    assert (shown["contexts"], shown["user_input"]) == ((TOWER.response,), TOWER.user_input)


NO_SENTENCE = "the response has no sentence"
WRONG = Scored(value=0, numerator=0, denominator=2)


@pytest.mark.parametrize(
    ("changes", "outcomes"),
    [
        # An empty response has no part of the reference: R = 0 / 2, F1 = 0; P is 0 / 0.
        (
            {"response": ""},
            [
                Undefined(reason=NO_SENTENCE),
                WRONG,
                Scored(value=0, detail=f"{NO_SENTENCE}, recall 0/2"),
            ],
        ),
        ({"reference": " "}, [Undefined(reason="the reference has no sentence")] * 3),
        (
            {"reference": " ", "response": ""},
            [Undefined(reason="the reference has no sentence")] * 3,
        ),
    ],
)
def test_an_empty_response_is_wrong_and_an_empty_reference_undefined(
    changes: Any, outcomes: list[Outcome]
) -> None:
    sample = TOWER.model_copy(update=changes)
    none = table({"It was built in 1889.": "0", "It stands in Paris, France.": "0"}, ["response"])
    modes = ("precision", "recall", "f1")
    assert [score(f"answer_correctness(mode={mode})", sample, none) for mode in modes] == outcomes


def test_disjoint_texts_score_zero_and_equal_texts_exactly_one() -> None:
    nothing: dict[str, Label] = dict.fromkeys(AGREEMENT, 0)
    everything: dict[str, Label] = dict.fromkeys(AGREEMENT, 1)
    assert score("answer_correctness", TOWER, nothing) == Scored(
        value=0, detail="precision 0/3, recall 0/2"
    )
    assert score("answer_correctness", TOWER, everything) == Scored(
        value=1, detail="precision 3/3, recall 2/2"
    )


def test_answer_relevancy_counts_sentences_of_the_response() -> None:
    yes: dict[str, Label] = {"It was built in 1889.": 1, "It is in Paris.": 1, "It is golden.": 0}
    asked, outcome = asked_and_scored("answer_relevancy", TOWER, yes)
    assert outcome == Scored(value=2 / 3, numerator=2, denominator=3)
    assert {(task.unit.source, task.unit.kind) for task in asked} == {("response", "sentence")}
    assert {task.model_dump()["contexts"] for task in asked} == {(TOWER.response,)}


def test_context_precision_against_the_response_shows_the_response() -> None:
    """Only rank 2 is useful: (1/2) / 1. The reference is not shown."""
    sample = TOWER.model_copy(update={"reference": None})
    yes = table({"chunk 1": "0", "chunk 2": "1"}, ["response"])
    asked, outcome = asked_and_scored("context_precision(against=response)", sample, yes)
    assert outcome == Scored(value=1 / 2)
    assert {task.model_dump()["reference"] for task in asked} == {TOWER.response}


CELLS = [  # sufficient, refused, and what each metric makes of them
    (1, 0, "answered rightly", 1, 0, None),
    (1, 1, "over-refused", 0, 1, None),
    (0, 0, "made up", 0, None, 1),
    (0, 1, "refused rightly", 1, None, 0),
]


@pytest.mark.parametrize(
    ("sufficient", "refused", "cell", "right", "over_refused", "made_up"), CELLS
)
def test_abstention_puts_each_sample_into_one_of_four_cells(
    sufficient: Label,
    refused: Label,
    cell: str,
    right: int,
    over_refused: int | None,
    made_up: int | None,
) -> None:
    """In the other row, a mode is undefined, so its mean is a rate within its row."""
    yes: dict[str, Label] = {str(TOWER.user_input): sufficient, str(TOWER.response): refused}

    def expected(value: int | None) -> Outcome:
        if value is None:
            return Undefined(
                reason=f"the contexts {'suffice' if sufficient else 'do not suffice'}: {cell}"
            )
        return Scored(value=value, numerator=value, denominator=1, detail=cell)

    assert score("abstention", TOWER, yes) == expected(right)
    assert score("abstention(mode=over_refused)", TOWER, yes) == expected(over_refused)
    assert score("abstention(mode=made_up)", TOWER, yes) == expected(made_up)


def test_sufficiency_and_refusal_are_one_verdict_each_about_whole_texts() -> None:
    """1 / 1 and 0 / 1. Refusal is judged without contexts, sufficiency without the answer."""
    (sufficiency,), enough = asked_and_scored(
        "context_sufficiency", TOWER, {str(TOWER.user_input): 1}
    )
    (refusal,), refused = asked_and_scored("refusal", TOWER, {str(TOWER.response): 0})
    assert enough == Scored(value=1, numerator=1, denominator=1)
    assert refused == Scored(value=0, numerator=0, denominator=1)
    assert isinstance(sufficiency, Sufficiency)
    assert (sufficiency.contexts, sufficiency.unit.kind) == (("chunk 1", "chunk 2"), "question")
    assert isinstance(refusal, Refusal)
    assert (refusal.user_input, refusal.unit.kind) == (TOWER.user_input, "response")


def test_citation_marks_are_not_part_of_sentences() -> None:
    """2 sentences, although [2] has its own line; both are in the reference: 2 / 2."""
    sample = TOWER.model_copy(
        update={"response": "It was built in 1889 [1]. It is in Paris.\n\n[2]"}
    )
    yes = table({"It was built in 1889": "1", "It is in Paris.": "1"}, ["reference"])
    outcome = score("answer_correctness(mode=precision)", sample, yes)
    assert outcome == Scored(value=1, numerator=2, denominator=2)
    needed: dict[str, Label] = {"It was built in 1889": 1, "It is in Paris.": 0}
    assert score("answer_relevancy", sample, needed) == Scored(
        value=1 / 2, numerator=1, denominator=2
    )


POLICY = Sample(
    id="policy",
    user_input="Is rain insured?",
    response="No. Rain is not insured. I hope this helps. Kind regards, your team",
    retrieved_contexts=(Context(text="Rain is not insured."),),
)


def test_faithfulness_counts_sentences_without_a_claim_apart() -> None:
    """Of four sentences two claim something. "No." is supported, the other one is not: 1 / 2."""
    tasks, outcome = asked_and_scored("faithfulness", POLICY, {"No.": 1, "Rain is not insured.": 0})
    assert [task.unit.text for task in tasks] == ["Is rain insured? No.", "Rain is not insured."]
    assert [task.unit.index for task in tasks] == [0, 1]
    assert outcome == Scored(value=1 / 2, numerator=1, denominator=2, detail="2 without a claim")


def test_a_response_without_a_claim_has_no_faithfulness() -> None:
    refusal = "I am sorry, but I cannot answer this question. Kind regards, your team"
    outcome = score("faithfulness", POLICY.model_copy(update={"response": refusal}), {})
    assert isinstance(outcome, Undefined)
    assert "claim" in outcome.reason
