import pytest

from localjudge import Sample
from localjudge.metrics import Context, Label, Scored, Undefined
from localjudge.text import Segmenter
from tests.golden.scoring import score, table

sentences = Segmenter()

EIFFEL = Sample(
    id="eiffel-tower",
    user_input="When was the Eiffel Tower built, where is it, and who designed it?",
    reference=(
        "The Eiffel Tower was built in 1889. It is located in Paris, France. "
        "Gustave Eiffel designed it."
    ),
    retrieved_contexts=(
        Context(text="The Eiffel Tower was completed in 1889 for the World's Fair in Paris."),
    ),
)
EINSTEIN = Sample(
    id="albert-einstein",
    user_input="What can you tell me about Albert Einstein?",
    reference=(
        "Albert Einstein born in 14 March 1879 was  German-born theoretical physicist, widely held "
        "to be one of the greatest and most influential scientists of all time. "
        "He received the 1921 Nobel Prize in Physics for his services to theoretical physics. "
        "He published 4 papers in 1905.  Einstein moved to Switzerland in 1895"
    ),
    retrieved_contexts=(
        Context(
            text="Albert Einstein (born 14 March 1879) was a physicist. He won the Nobel Prize.",
        ),
    ),
)


def test_context_recall_of_the_eiffel_tower_is_two_thirds() -> None:
    """Built 1889: yes. Paris: yes. Designed by Eiffel: no. (1 + 1 + 0) / 3."""
    yes: dict[str, Label] = {
        "The Eiffel Tower was built in 1889.": 1,
        "It is located in Paris, France.": 1,
    }
    yes["Gustave Eiffel designed it."] = 0
    assert score("context_recall", EIFFEL, yes) == Scored(value=2 / 3, numerator=2, denominator=3)


def test_context_recall_of_einstein_is_two_quarters() -> None:
    """Birth and profession: yes. Prize: yes. Papers: no. Switzerland: no. (1 + 1 + 0 + 0) / 4."""
    assert EINSTEIN.reference is not None
    spans = [span.text for span in sentences(EINSTEIN.reference)]
    assert len(spans) == 4
    yes: dict[str, Label] = dict(zip(spans, (1, 1, 0, 0), strict=True))
    assert score("context_recall", EINSTEIN, yes) == Scored(value=2 / 4, numerator=2, denominator=4)


def test_faithfulness_counts_the_sentences_of_the_response() -> None:
    sample = EIFFEL.model_copy(update={"response": "It was completed in 1889. It is made of gold."})
    outcome = score(
        "faithfulness", sample, {"It was completed in 1889.": 1, "It is made of gold.": 0}
    )
    assert outcome == Scored(value=1 / 2, numerator=1, denominator=2)


LONG_CHUNK = (
    "Paris is the capital of France. It lies on the Seine. "
    "It has many parks. It was founded long ago."
)
OTHER_CHUNK = "Berlin is the capital of Germany."
CAPITAL = Sample(
    id="capital",
    user_input="What is the capital of France?",
    reference="Paris.",
    retrieved_contexts=(Context(text=OTHER_CHUNK), Context(text=LONG_CHUNK)),
)


def test_context_relevancy_counts_sentences_of_all_contexts() -> None:
    """One sentence about Berlin, four about Paris; one is needed: 1 / 5."""
    yes: dict[str, Label] = {
        span.text: 0 for chunk in (OTHER_CHUNK, LONG_CHUNK) for span in sentences(chunk)
    }
    yes["Paris is the capital of France."] = 1
    assert score("context_relevancy", CAPITAL, yes) == Scored(
        value=1 / 5, numerator=1, denominator=5
    )


def test_a_long_chunk_with_one_good_sentence_counts_whole_at_chunk_level() -> None:
    """One of 2 chunks is needed: 1 / 2 (1 / 5 by sentences)."""
    outcome = score("context_relevancy_chunk", CAPITAL, {OTHER_CHUNK: 0, LONG_CHUNK: 1})
    assert outcome == Scored(value=1 / 2, numerator=1, denominator=2)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ((1, 0), 1.0),  # the useful chunk is first: (1/1) / 1
        ((0, 1), 1 / 2),  # the useful chunk is second: (1/2) / 1
        ((0, 0), 0.0),  # decided: something was retrieved and none of it served
        ((1, 1), 1.0),  # (1/1 + 2/2) / 2, exactly 1
    ],
)
def test_context_precision_is_average_precision(
    labels: tuple[Label, Label], expected: float
) -> None:
    yes = dict(zip((OTHER_CHUNK, LONG_CHUNK), labels, strict=True))
    assert score("context_precision", CAPITAL, yes) == Scored(value=expected)


def test_context_precision_of_a_mixed_ranking() -> None:
    """Useful at ranks 1, 3 and 4 of 4: (1/1 + 2/3 + 3/4) / 3 = 29/36."""
    chunks = tuple(Context(text=f"chunk {rank}") for rank in (1, 2, 3, 4))
    sample = CAPITAL.model_copy(update={"retrieved_contexts": chunks})
    yes: dict[str, Label] = {"chunk 1": 1, "chunk 2": 0, "chunk 3": 1, "chunk 4": 1}
    assert score("context_precision", sample, yes).model_dump()["value"] == pytest.approx(29 / 36)


@pytest.mark.parametrize(
    ("metric", "changes", "reason"),
    [
        ("context_recall", {"reference": " \n"}, "the reference has no sentence"),
        ("faithfulness", {"response": ""}, "the response has no sentence"),
        ("context_relevancy", {"retrieved_contexts": ()}, "the contexts have no sentence"),
        ("context_relevancy", {"user_input": " "}, "there is no question"),
        (
            "context_relevancy_chunk",
            {"retrieved_contexts": (Context(text=" "),)},
            "the contexts have no chunk",
        ),
        ("context_relevancy_chunk", {"user_input": ""}, "there is no question"),
        ("context_precision", {"retrieved_contexts": ()}, "the contexts have no chunk"),
        ("context_precision", {"user_input": ""}, "there is no question"),
        ("context_precision", {"reference": ""}, "there is no reference"),
        ("context_precision(against=response)", {"response": " "}, "there is no response"),
        ("answer_relevancy", {"response": "Paris.", "user_input": " "}, "there is no question"),
        ("answer_relevancy", {"response": " "}, "the response has no sentence"),
        ("context_sufficiency", {"user_input": "\n"}, "there is no question"),
        ("refusal", {"response": ""}, "the response has no sentence"),
        ("abstention", {"response": "Paris.", "user_input": ""}, "there is no question"),
        ("abstention", {"response": " "}, "the response has no sentence"),
        ("noise_sensitivity", {"response": "\n"}, "the response has no sentence"),
        (
            "noise_sensitivity",
            {"response": "Paris.", "reference": ""},
            "the reference has no sentence",
        ),
        (
            "noise_sensitivity",
            {"response": "Paris.", "retrieved_contexts": ()},
            "the contexts have no chunk",
        ),
    ],
)
def test_an_empty_denominator_is_undefined(
    metric: str, changes: dict[str, object], reason: str
) -> None:
    assert score(metric, CAPITAL.model_copy(update=changes), {}) == Undefined(reason=reason)


CHUNKS = tuple(Context(text=f"chunk {rank}") for rank in (1, 2, 3))
MATRIX = Sample(id="matrix", reference="One. Two. Three.", retrieved_contexts=CHUNKS)
SUPPORTS = table({"One.": "101", "Two.": "001", "Three.": "000"}, ["chunk 1", "chunk 2", "chunk 3"])


VALUE = "marginal value by chunk"


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        # One and Two are supported, Three is not; only chunk 3 supports Two.
        (
            "matrix_recall",
            Scored(value=2 / 3, numerator=2, denominator=3, detail=f"{VALUE}: 0.000, 0.000, 0.333"),
        ),
        ("matrix_recall@1", Scored(value=1 / 3, numerator=1, denominator=3)),
        ("matrix_recall@2", Scored(value=1 / 3, numerator=1, denominator=3)),
        ("matrix_recall@9", Scored(value=2 / 3, numerator=2, denominator=3)),
        # Chunks 1 and 3 support a sentence, chunk 2 does not.
        ("matrix_precision", Scored(value=2 / 3, numerator=2, denominator=3)),
    ],
)
def test_metrics_share_one_table_of_verdicts(metric: str, expected: Scored) -> None:
    assert score(metric, MATRIX, SUPPORTS) == expected


# Chunk 1 supports the reference, and is relevant; chunks 2 and 3 do not.
NOISE = Sample(
    id="noise",
    reference="It opened in 1936.",
    response="Right. Misled. Both. Distracted. Invented. Lucky.",
    retrieved_contexts=CHUNKS,
)
NOISE_VERDICTS = table(
    {
        "Right.": "1100",
        "Misled.": "0100",  # wrong, and in the relevant chunk
        "Both.": "0110",  # wrong, and in chunks of both kinds
        "Distracted.": "0011",  # wrong, and in irrelevant chunks alone
        "Invented.": "0000",  # wrong, and in no chunk
        "Lucky.": "1010",  # in an irrelevant chunk, and not wrong
    },
    ["reference", "chunk 1", "chunk 2", "chunk 3"],
) | table({"It opened in 1936.": "100"}, ["chunk 1", "chunk 2", "chunk 3"])


def test_noise_sensitivity_counts_wrong_sentences_supported_by_a_relevant_chunk() -> None:
    """Misled and Both, of six sentences. None without a relevant chunk, or if all is right."""
    assert score("noise_sensitivity", NOISE, NOISE_VERDICTS) == Scored(
        value=2 / 6, numerator=2, denominator=6
    )
    irrelevant = NOISE_VERDICTS | table(
        {"It opened in 1936.": "000"}, ["chunk 1", "chunk 2", "chunk 3"]
    )
    right = NOISE_VERDICTS | {key: 1 for key in NOISE_VERDICTS if key.endswith("| reference")}
    for verdicts in (irrelevant, right):
        assert score("noise_sensitivity", NOISE, verdicts) == Scored(
            value=0, numerator=0, denominator=6
        )
