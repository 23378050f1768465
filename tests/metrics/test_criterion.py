from pathlib import Path
from typing import Any

import pytest

from localjudge import Criterion, InputError, Sample, resources
from localjudge.metrics import Context, CustomQuestion, Outcome, Scored, Undefined, Verdict
from localjudge.metrics.criterion import read_criteria
from localjudge.text import Segmenter

sentences = Segmenter()

SAMPLE = Sample(
    id="a",
    user_input="Why?",
    retrieved_contexts=(Context(text="It rained."), Context(text=" "), Context(text="It snowed.")),
    response="It rained. It snowed. It hailed.",
)
LEVELS = {1: "rude", 2: "curt", 3: "neutral", 4: "friendly", 5: "courteous"}


def own(**fields: Any) -> Criterion:
    return Criterion(**{"name": "kind", "question": "Is it kind?", **fields})


def scored(
    criterion: Criterion, sample: Sample, *values: float
) -> tuple[list[CustomQuestion], Outcome]:
    steps = criterion.steps(sample, sentences)
    asked: list[CustomQuestion] = []
    try:
        asked += next(steps)  # type: ignore[arg-type]
        steps.send([Verdict(label=1 if value >= 0.5 else 0, p_yes=value) for value in values])
    except StopIteration as finished:
        return asked, finished.value
    raise AssertionError("it asked twice")


@pytest.mark.parametrize(
    ("of", "good", "values", "expected"),
    [
        ("response", "yes", [0.9], (1, 1)),
        ("response", "no", [0.9], (0, 1)),
        ("sentence", "yes", [0.9, 0.4, 0.5], (2, 3)),
        ("sentence", "no", [0.9, 0.4, 0.5], (1, 3)),
        ("chunk", "yes", [0.1, 0.7], (1, 2)),
    ],
)
def test_scores_are_shares_of_good_answers(
    of: str, good: str, values: list[float], expected: tuple[int, int]
) -> None:
    asked, outcome = scored(own(of=of, good=good), SAMPLE, *values)
    right, count = expected
    assert outcome == Scored(value=right / count, numerator=right, denominator=count)
    assert [task.unit.kind for task in asked] == [of] * count


def test_a_rubric_has_the_same_digits_in_every_python() -> None:
    """Ten times .1 is 1. Added one by one, as `sum` does before Python 3.12, it is 1 - 2^-53."""
    sample = SAMPLE.model_copy(update={"response": "It rained. " * 10})
    _, outcome = scored(own(of="sentence", levels=LEVELS), sample, *[0.1] * 10)
    assert isinstance(outcome, Scored)
    assert outcome.value == 1 / 10


def test_a_rubric_scores_the_mean_expected_level() -> None:
    """(.3 + .6 + .75) / 3 = .55, which is level 1 + 4 x .55 = 3.2."""
    _, outcome = scored(own(of="sentence", levels=LEVELS), SAMPLE, 0.3, 0.6, 0.75)
    assert isinstance(outcome, Scored)
    assert outcome.value == pytest.approx(0.55)
    assert (outcome.numerator, outcome.detail) == (None, "expected level 3.20 of 1 to 5")


def test_prompts_show_only_the_fields_of_the_criterion() -> None:
    (bare,), _ = scored(own(), SAMPLE, 1)
    assert (bare.user_input, bare.contexts, bare.reference, bare.response) == (None, (), None, None)
    all_of_it = own(of="sentence", shows=["response", "retrieved_contexts", "user_input"])
    asked, _ = scored(all_of_it, SAMPLE, 1, 1, 1)
    assert (asked[1].user_input, asked[1].contexts) == ("Why?", ("It rained.", " ", "It snowed."))
    assert (asked[1].response, asked[1].unit.span.text) == (SAMPLE.response, "It snowed.")
    assert all_of_it.required_fields == {"response", "retrieved_contexts", "user_input"}
    assert own(of="chunk").required_fields == {"retrieved_contexts"}


@pytest.mark.parametrize(
    ("fields", "changed", "reason"),
    [
        ({}, {"response": " -- "}, "the response has no sentence"),
        ({"of": "sentence"}, {"response": ""}, "the response has no sentence"),
        ({"of": "chunk"}, {"retrieved_contexts": (Context(text=" "),)}, "no context text"),
        ({"shows": ["user_input"]}, {"user_input": " \n"}, "user_input is blank"),
        (
            {"shows": ["retrieved_contexts"]},
            {"retrieved_contexts": ()},
            "retrieved_contexts is blank",
        ),
    ],
)
def test_criteria_without_units_are_undefined(fields: Any, changed: Any, reason: str) -> None:
    def spoken(text: str) -> list[Any]:
        return [span for span in sentences(text) if any(map(str.isalnum, span.text))]

    with pytest.raises(StopIteration) as finished:
        next(own(**fields).steps(SAMPLE.model_copy(update=changed), spoken))
    assert finished.value.value == Undefined(reason=reason)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        *(
            ({"name": name}, "name: String should match")
            for name in ("Kind", "kind@3", "k" * 61, "\x1b[31m", "kind\n")
        ),
        ({"question": "  "}, "at least 1 character"),
        ({"question": "?" * 4_001}, "at most 4000"),
        ({"question": "Is it \ud800?"}, "valid string, unable to parse"),
        ({"colour": "red"}, "Extra inputs"),
        ({"shows": ["response"]}, "lists only other fields"),
        ({"levels": {1: "bad", 5: "good"}}, "each of the levels"),
        ({"levels": LEVELS | {6: "more"}}, "each of the levels"),
        ({"levels": LEVELS, "good": "no"}, "level 5 of a rubric is the best"),
        ({"examples": [{"text": "x", "answer": "maybe"}]}, "'yes', 'no'"),
        ({"examples": [{"text": "x", "answer": 4}]}, "the answer of example 1 must be yes or no"),
        (
            {"levels": LEVELS, "examples": [{"text": "x", "answer": "yes"}]},
            "the answer of example 1 must be a level",
        ),
        (
            {"shows": ["user_input"], "examples": [{"text": "x", "answer": "yes"}]},
            "example 1 has nothing, but",
        ),
        (
            {"examples": [{"text": "x", "answer": "yes", "reference": "y"}]},
            "has reference, but shows lists nothing",
        ),
    ],
)
def test_an_invalid_criterion_is_refused(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        own(**fields)
    with pytest.raises(InputError, match=complaint) as refused:
        read_criteria({"name": "kind", "question": "Is it kind?", **fields})
    assert "\n" not in refused.value.args[0]


def test_checksum_covers_every_word_but_no_default() -> None:
    """New fields with defaults keep today's checksums; the order of levels does not matter."""
    different = [
        own(),
        own(question="Is it nice?"),
        own(good="no"),
        own(of="sentence"),
        own(shows=["user_input"]),
        own(levels=LEVELS),
        own(levels=LEVELS | {5: "very courteous"}),
        own(examples=[{"text": "Thanks.", "answer": "yes"}]),
        own(examples=[{"text": "Thanks.", "answer": "no"}]),
    ]
    assert len({criterion.sha256 for criterion in different}) == len(different)
    assert own().sha256 == own(good="yes", of="response", levels={}, examples=()).sha256
    assert own(levels=LEVELS).sha256 == own(levels=dict(reversed(LEVELS.items()))).sha256
    both = ["reference", "user_input"]
    assert own(shows=both).sha256 == own(shows=[*reversed(both), "reference"]).sha256
    assert own().sha256 == "9a0a27c9626bc13b58a3f05fc13b0e6b043efad2fcadc1e35db877df4009d022"


def test_file_and_python_criteria_are_equal(tmp_path: Path) -> None:
    file = tmp_path / "kind.toml"
    file.write_text(
        'name = "kind"\nquestion = "Is it kind?"\n'
        'levels = {1 = "rude", 2 = "curt", 3 = "neutral", 4 = "friendly", 5 = "courteous"}\n'
        '[[examples]]\ntext = "Thanks."\nanswer = 4\n'
    )
    same = own(levels=LEVELS, examples=[{"text": "Thanks.", "answer": 4}])
    assert read_criteria([str(file), same, same.model_dump(mode="json")]) == (same,)
    assert read_criteria(file) == read_criteria(same) == (same,)
    assert read_criteria(None) == read_criteria([]) == ()


def test_invalid_lists_of_criteria_are_refused() -> None:
    for criteria in (5, [5], [None]):
        with pytest.raises(InputError, match="must be TOML files"):
            read_criteria(criteria)
    with pytest.raises(InputError, match=r"two different criteria .*'kind'"):
        read_criteria([own(), own(good="no")])


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"name = ", "is not TOML"),
        (b"\xff\xfe", "is not TOML"),
        (b'name = "kind"', "question: Field required"),
    ],
)
def test_a_file_without_criteria_is_named(tmp_path: Path, content: bytes, complaint: str) -> None:
    file = tmp_path / "kind.toml"
    file.write_bytes(content)
    with pytest.raises(InputError, match=complaint) as refused:
        read_criteria(file)
    assert str(file) in str(refused.value)
    assert refused.value.hint


def test_bundled_criteria_are_named_after_their_files() -> None:
    assert sorted(resources.criterion_files()) == ["formal_register", "names_its_source", "refuses"]
    for name in resources.criterion_files():
        [criterion] = read_criteria(name)
        assert criterion.name == name
        assert criterion.required_fields == {"response", *criterion.shows}
    with pytest.raises(InputError, match=r"cannot be read(?s:.*)did you mean names_its_source"):
        read_criteria("names_its_sources")
