"""Profiles for models with a classification head."""

from pathlib import Path

import pytest

from localjudge import InputError, model_registry
from localjudge.judge.profile import Head
from localjudge.judge.profile_choice import ProfileFolder, choose_profile, load_profile
from localjudge.judge.wording import PromptWriter
from localjudge.metrics import Attribution, Relevance, Usefulness
from localjudge.types import ClassifierReading, Piece
from tests.engine.classifiers import ENTAILMENT, write_profile
from tests.judge.conftest import unit

OUTPUTS_KEY = "classifier.output_labels"
VOCABULARY_KEY = "vocabulary_size"

BERT = {"general.architecture": "bert", "general.name": "some encoder"}
NLI = BERT | {OUTPUTS_KEY: ",".join(ENTAILMENT)}
RERANKER = BERT | {OUTPUTS_KEY: "LABEL_0"}
SHARE = (106, 116, 138, 201, 190, 305, 361, 382)


def write_prompt(task: Attribution | Relevance | Usefulness) -> list[Piece]:
    request = PromptWriter(load_profile("reader")).request(task)
    reading = request.reading
    assert reading is not None
    assert (reading.outputs, reading.yes, reading.share) == (("supported",), ("supported",), SHARE)
    return [piece for node in request.path for piece in node]


def test_the_bundled_reader_is_asked_as_it_was_trained() -> None:
    """As in training: `<s>` SHARE statement `</s>` text `</s>`; nothing about passages."""
    attribution = Attribution(unit=unit("statement", "It rains."), contexts=("One.", " ", "Two."))
    assert write_prompt(attribution) == [
        Piece("<s>{share}", trusted=True),
        Piece("It rains.", trusted=False),
        Piece("</s>", trusted=True),
        Piece("One.", trusted=False),
        Piece("Two.", trusted=False),
        Piece("</s>", trusted=True),
    ]
    reader = PromptWriter(load_profile("reader"))
    assert reader.unsupported(["relevance_sentence", "usefulness"]) == [
        "relevance_sentence",
        "usefulness",
    ]


def test_the_bundled_reader_reads_a_sentence_of_an_answer_with_its_question() -> None:
    """As in training: `<s>` SHARE `<mask>` `<mask>` question `</s>` sentence `</s>`."""
    sentence = unit("sentence", "In 1936.").model_copy(update={"source": "response"})
    task = Relevance(unit=sentence, user_input="When?", contexts=("In 1936. It is red.",))
    assert write_prompt(task) == [
        Piece("<s>{share}<mask><mask>", trusted=True),
        Piece("When?", trusted=False),
        Piece("</s>", trusted=True),
        Piece("In 1936.", trusted=False),
        Piece("</s>", trusted=True),
    ]
    reading = PromptWriter(load_profile("reader")).request(task).reading
    assert reading is not None
    file = model_registry.find("reader")
    assert model_registry.find_adapter(reading.adapter, file.sha256).is_file()


def test_the_bundled_reader_reads_a_passage_with_its_question() -> None:
    """As in training: `<s>` SHARE `<mask>` question `</s>` passage `</s>`."""
    task = Relevance(unit=unit("chunk", "It opened in 1936."), user_input="When?")
    assert write_prompt(task) == [
        Piece("<s>{share}<mask>", trusted=True),
        Piece("When?", trusted=False),
        Piece("</s>", trusted=True),
        Piece("It opened in 1936.", trusted=False),
        Piece("</s>", trusted=True),
    ]


@pytest.mark.parametrize("profile", ["lexical", "instruct", "qwen3-reranker"])
def test_other_profiles_ask_about_a_sentence_of_an_answer_as_about_one_of_a_passage(
    profile: str,
) -> None:
    writer = PromptWriter(load_profile(profile))
    tasks = []
    for source in ("response", "retrieved_contexts"):
        sentence = unit("sentence", "In 1936.").model_copy(update={"source": source})
        tasks.append(Relevance(unit=sentence, user_input="When?", contexts=("In 1936.",)))
    of_answer, of_passage = writer.requests(tasks)
    assert of_answer == of_passage
    assert not writer.unsupported(["answer_sentence"])
    assert writer.identity(["answer_sentence"]) == writer.identity()


def test_a_reading_is_part_of_the_question(tmp_path: Path) -> None:
    folder = write_profile(
        tmp_path / "nli",
        outputs=ENTAILMENT,
        answer='{ yes = ["entailment"], scale = 2.5, bias = -1 }',
    )
    task = Attribution(unit=unit("statement", "It rains."), contexts=("One.",))
    request = PromptWriter(load_profile(str(folder))).request(task)
    expected = ClassifierReading(
        outputs=ENTAILMENT, yes=("entailment",), scale=2.5, bias=-1.0, share=(20, 21, 22, 23)
    )
    assert request.reading == expected
    other = request._replace(reading=expected.model_copy(update={"bias": 0.0}))
    assert other.shape != request.shape
    assert '"reading"' not in request._replace(reading=None).shape


@pytest.mark.parametrize(
    ("head", "outputs", "fits"),
    [
        (("supported",), ["LABEL_0"], True),
        (("supported",), ["Supported"], True),
        (("supported",), ["relevant"], False),
        (("supported",), ["LABEL_0", "LABEL_1"], False),
        (("no", "yes"), ["LABEL_0", "LABEL_1"], True),
        (("no", "yes"), ["yes", "no"], False),
        (("supported",), [], False),
    ],
)
def test_a_head_fits_by_number_and_by_names(
    head: tuple[str, ...], outputs: list[str], fits: bool
) -> None:
    assert Head(outputs=head).fits(outputs) is fits


def test_a_classifier_without_a_fitting_profile_is_refused_with_its_outputs() -> None:
    with pytest.raises(InputError) as caught:
        choose_profile(None, None, NLI)
    assert ", ".join(ENTAILMENT) in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("profile", "metadata"),
    [
        ("instruct", NLI),
        ("reader", NLI),
        ("reader", {"general.architecture": "llama"}),
        ("instruct", RERANKER),
    ],
)
def test_a_profile_for_another_kind_of_model_is_refused(
    profile: str, metadata: dict[str, str]
) -> None:
    for requested, registered in ((profile, None), (None, profile)):
        with pytest.raises(InputError):
            choose_profile(requested, registered, metadata)


@pytest.mark.parametrize(("size", "fits"), [(24, True), (23, False), (3, False), (0, True)])
def test_share_tokens_are_tokens_of_the_model(tmp_path: Path, size: int, fits: bool) -> None:
    """Its share tokens are 20 to 23. A size of 0 is unknown."""
    folder = ProfileFolder.read(write_profile(tmp_path / "made-up"))
    metadata = RERANKER | {VOCABULARY_KEY: str(size)}
    if fits:
        choose_profile(folder, None, metadata)
        return
    with pytest.raises(InputError) as caught:
        choose_profile(folder, None, metadata)
    assert str(size - 1) in caught.value.message
    assert "share" in str(caught.value.hint)


def test_the_readers_profile_is_chosen_by_its_name() -> None:
    named = {**BERT, "general.name": "localjudge reader trial", OUTPUTS_KEY: "LABEL_0"}
    assert choose_profile(None, None, named)[0].name == "reader"
    assert choose_profile("reader", None, RERANKER)[0].name == "reader"


def test_an_engine_without_a_model_takes_any_profile() -> None:
    assert choose_profile("reader", None, {})[0].name == "reader"


@pytest.mark.parametrize(
    ("outputs", "answer", "head", "share"),
    [
        (("a", "b"), "", "", True),  # which of them means yes?
        (("a", "b"), '{ yes = ["a", "b"] }', "", True),
        (("a", "b"), '{ yes = ["c"] }', "", True),
        (("a",), '{ yes = ["b"] }', "", True),
        (("a",), "{ scale = 0 }", "", True),
        (("a",), "{ scale = -1 }", "", True),
        (("a",), "{ bias = nan }", "", True),
        (("a",), "", "window_tokens = 0", True),
        (("a",), "", "overlap = -1", True),
        ((), "", "", True),
        (("a", "b", "a"), '{ yes = ["b"] }', "", True),
        (("a", "b", "a"), '{ yes = ["a"] }', "", True),
    ],
)
def test_an_invalid_head_is_refused(
    tmp_path: Path, outputs: tuple[str, ...], answer: str, head: str, share: bool
) -> None:
    folder = write_profile(
        tmp_path / "wrong", outputs=outputs, answer=answer, head=head, share=share
    )
    with pytest.raises(InputError) as caught:
        load_profile(str(folder))
    assert str(folder) in caught.value.message


@pytest.mark.parametrize(
    "nearest",
    [
        "letters = 0",
        "letters = -1",
        'units = ["statement"]',
        'letters = 9\nunits = ["x"]',
        "letters = 9\nunits = []",
    ],
)
def test_an_invalid_number_of_letters_is_refused(tmp_path: Path, nearest: str) -> None:
    folder = write_profile(tmp_path / "wrong", nearest=nearest)
    with pytest.raises(InputError) as caught:
        load_profile(str(folder))
    assert "nearest" in caught.value.message


@pytest.mark.parametrize(
    "removed",
    ["share = [20, 21, 22, 23]\n", '[head]\noutputs = ["supported"]\nshare = [20, 21, 22, 23]\n'],
)
def test_share_tokens_need_their_ids(tmp_path: Path, removed: str) -> None:
    folder = write_profile(tmp_path / "wrong")
    file = folder / "profile.toml"
    text = file.read_text(encoding="utf-8")
    assert removed in text
    file.write_text(text.replace(removed, ""), encoding="utf-8")
    with pytest.raises(InputError):
        load_profile(str(folder))


@pytest.mark.parametrize("reasons", ["before", "after"])
def test_a_classifier_gives_no_reasons(reasons: str) -> None:
    with pytest.raises(InputError):
        PromptWriter(load_profile("reader"), reasons=reasons)  # type: ignore[arg-type]
