"""Models with a classification head, in llama.cpp: made-up ones, and the bundled reader."""

import math
import random
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from localjudge import ModelError, model_registry
from localjudge.engine import gguf
from localjudge.engine.decoding import answer_texts
from localjudge.engine.llamacpp.classifier import LlamaCppClassifier, answer_from
from localjudge.engine.llamacpp.context import Encoder
from localjudge.engine.llamacpp.loading import load
from localjudge.engine.opening import open_engine
from localjudge.engine.protocol import EngineSettings
from localjudge.judge.profile import load_grammar
from localjudge.metrics import SampleError
from localjudge.model_registry import ModelFile
from localjudge.run_directory.store_reader import RequestKeys
from localjudge.types import Answer, ClassifierReading, Grammar, NoAnswer, Piece, VerdictRequest
from tests.conftest import PROFILES
from tests.engine.classifiers import (
    ENTAILMENT,
    NLI_SHAPE,
    SHAPE,
    make_classifier,
    open_classifier,
    register_adapter,
    statement_requests,
    write_adapter,
    write_profile,
)
from tests.engine.conftest import Asker, ModelMaker
from tests.engine.contract import check_engine

pytestmark = pytest.mark.engine

CONTEXTS = (
    "The bridge over the river opened in 1936, and it was widened twice.",
    "A toll was charged until 1954.",
)
STATEMENTS = (
    "The bridge opened in 1936.",
    "It was closed in 1987.",
    "A toll was charged.",
    "</s><mask>{share}",
    "x",
)
READER_PROFILE = PROFILES / "reader"


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    return write_profile(tmp_path / "made-up")


def collect_answers(
    engine: LlamaCppClassifier, requests: Sequence[VerdictRequest]
) -> list[Answer | NoAnswer]:
    answers = dict(engine.answers(requests))
    return [answers[index] for index in range(len(requests))]


def test_a_classifier_meets_the_contract(make_model: ModelMaker, profile: Path) -> None:
    file = make_classifier(make_model)
    requests = statement_requests(profile, STATEMENTS, CONTEXTS)
    assert check_engine(lambda: open_classifier(file), requests) == []


def test_a_classifier_of_three_outputs_meets_the_contract(
    make_model: ModelMaker, tmp_path: Path
) -> None:
    file = make_classifier(make_model, NLI_SHAPE)
    folder = write_profile(
        tmp_path / "nli", outputs=ENTAILMENT, answer='{ yes = ["entailment"] }', share=False
    )
    requests = statement_requests(folder, STATEMENTS, CONTEXTS)
    assert check_engine(lambda: open_classifier(file), requests) == []


def require_equal_bits(
    open_with: Callable[[int], LlamaCppClassifier], requests: Sequence[VerdictRequest]
) -> None:
    """Check equal answers with 1 and 2 threads, shuffled, and in a second engine after a part."""
    with closing(open_with(1)) as engine:
        expected = collect_answers(engine, requests)
    assert any(isinstance(answer, Answer) for answer in expected)
    order = list(range(len(requests)))
    random.Random(1).shuffle(order)
    with closing(open_with(2)) as engine:
        shuffled = collect_answers(engine, [requests[index] for index in order])
    assert shuffled == [expected[index] for index in order]
    half = len(requests) // 2
    with closing(open_with(2)) as engine:
        assert collect_answers(engine, requests[half:]) == expected[half:]


def test_answers_have_the_same_bits_for_any_order_and_number_of_threads(
    make_model: ModelMaker, profile: Path
) -> None:
    file = make_classifier(make_model)
    requests = statement_requests(
        profile, [f"The bridge opened in {year}. " * 3 for year in range(1930, 1960)], CONTEXTS
    )
    require_equal_bits(lambda threads: open_classifier(file, threads=threads), requests)


def test_the_engine_of_a_classifier_is_found_by_its_header(
    make_model: ModelMaker, profile: Path
) -> None:
    file = make_classifier(make_model, NLI_SHAPE)
    assert gguf.can_judge(file.path)
    assert gguf.read_model(file.path).outputs == ENTAILMENT
    with closing(open_engine(file, EngineSettings(threads=1))) as engine:
        assert isinstance(engine, LlamaCppClassifier)
        assert engine.outputs == ENTAILMENT
        assert engine.identity["outputs"] == list(ENTAILMENT)
        assert engine.identity["self_check"] == "bit-identical"
        assert engine.capacity == SHAPE.context


def test_one_output_is_a_logit() -> None:
    """P = 1 / (1 + exp(-(2 x 0.75 - 0.5))) = 1 / (1 + exp(-1))."""
    reading = ClassifierReading(outputs=("supported",), yes=("supported",), scale=2, bias=-0.5)
    answer = answer_from(np.array([0.75], np.float32), reading, load_grammar("attributed"))
    assert answer == Answer(p_yes=1 / (1 + math.exp(-1)), valid_mass=1, raw='{"attributed":1}')


def test_three_outputs_share_the_probability() -> None:
    """Softmax of log 1, 2, 5 is 1/8, 2/8, 5/8; yes are the first two: p = 3/8, odds 3/5."""
    outputs = np.log(np.array([1, 2, 5], np.float32))
    reading = ClassifierReading(outputs=("a", "b", "c"), yes=("b", "a"))
    answer = answer_from(outputs, reading, load_grammar("relevant"))
    assert answer.p_yes == pytest.approx(3 / 8, abs=1e-7)
    assert answer.raw == '{"relevant":0}'
    calibrated = answer_from(
        outputs, reading.model_copy(update={"scale": 2.0}), load_grammar("relevant")
    )
    assert calibrated.p_yes == pytest.approx(9 / (9 + 25), abs=1e-7)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_outputs_that_are_not_numbers_are_no_answer(value: float) -> None:
    reading = ClassifierReading(outputs=("supported",), yes=("supported",))
    with pytest.raises(SampleError):
        answer_from(np.array([value], np.float32), reading, load_grammar("attributed"))


@pytest.mark.parametrize(
    "grammar",
    [
        load_grammar("attributed_reason"),
        load_grammar("level"),
        Grammar(name="three", pattern="(yes|no|maybe)", labels={"yes": 1, "no": 0, "maybe": 0.5}),
    ],
    ids=lambda grammar: grammar.name,
)
def test_a_grammar_with_other_answers_is_refused(grammar: Grammar) -> None:
    with pytest.raises(ModelError):
        answer_texts(grammar)


@pytest.mark.parametrize(
    ("statement", "context", "step"),
    [
        ("the bridge", "the bridge", 3),
        ("the bridge", "z", 0),
        ("the bridge", "the z", 1),  # scores -4 and -5: 4 of 9 of the information, 4 x 4/9 = 1.8
        ("the bridge", "bridge z", 2),  # 5 of 9: 4 x 5/9 = 2.2
        ("the the bridge", "the z", 2),  # 8 of 13: 4 x 8/13 = 2.5; repetitions count
        ("the ☃", "z ☃", 1),  # the, space and unknown: 2 of 4 + 2 + 0; 4 x 2/6 = 1.3
    ],
)
def test_the_share_token_says_how_much_of_the_statement_is_in_the_text(
    make_model: ModelMaker, profile: Path, statement: str, context: str, step: int
) -> None:
    [request] = statement_requests(profile, [statement], [context])
    with closing(open_classifier(make_classifier(make_model))) as engine:
        tokens, _ = engine.tokenize(request)
    assert (tokens[0], tokens[-1]) == (0, 2)
    assert tokens[1] == 20 + step


def test_literals_of_control_tokens_stay_text(make_model: ModelMaker, profile: Path) -> None:
    """Only `<s>` and two `</s>` of the profile are control tokens; a user's `{share}` is text."""
    literals = "<s></s><mask><pad>{share}"
    [request] = statement_requests(profile, [literals], [literals])
    with closing(open_classifier(make_classifier(make_model))) as engine:
        tokens, _ = engine.tokenize(request)
        control = [token for token in tokens if token in engine.vocabulary.reserved]
        assert control == [0, 2, 2]
        assert sum(token in range(20, 24) and place == 1 for place, token in enumerate(tokens)) == 1


def ascii_start(text: str) -> str:
    return ascii(text)[:12]


@pytest.mark.parametrize(
    "text",
    ["\x00", "a\x00b", "\ufeff", "😀" * 50, " \n\t ", "a" * 100_000, "\ud800"],
    ids=ascii_start,
)
def test_strange_texts_get_an_answer_or_a_reason(
    make_model: ModelMaker, profile: Path, text: str
) -> None:
    for statement, context in (("It opened.", text), (text, "It opened.")):
        [request] = statement_requests(profile, [statement], [context])
        with closing(open_classifier(make_classifier(make_model))) as engine:
            [answer] = collect_answers(engine, [request])
        fails = len(text) > SHAPE.context or text == "\ud800"
        assert isinstance(answer, NoAnswer if fails else Answer)


def test_a_prompt_for_text_models_is_refused(
    make_model: ModelMaker, ask: Asker, tmp_path: Path
) -> None:
    other = write_profile(tmp_path / "other", outputs=("no", "yes"), answer='{ yes = ["yes"] }')
    with closing(open_classifier(make_classifier(make_model))) as engine:
        for request in (
            ask("It opened."),
            *statement_requests(other, ["It opened."], ["It opened."]),
        ):
            with pytest.raises(ModelError):
                list(engine.answers([request]))


def test_a_prompt_without_user_text_is_answered(make_model: ModelMaker, profile: Path) -> None:
    [request] = statement_requests(profile, ["x"], ["x"])
    bare = request._replace(path=((Piece("<s>{share}</s>", trusted=True),),))
    with closing(open_classifier(make_classifier(make_model))) as engine:
        assert engine.tokenize(bare)[0] == (0, 20, 2)
        assert isinstance(collect_answers(engine, [bare])[0], Answer)


def test_quantised_classifiers_answer(make_model: ModelMaker, profile: Path) -> None:
    file = make_model("bert", "Q8_0", shape=SHAPE, vocabulary="unigrams")
    requests = statement_requests(profile, STATEMENTS, CONTEXTS)
    with closing(open_classifier(file)) as engine:
        assert all(isinstance(answer, Answer) for answer in collect_answers(engine, requests))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state directory, with an empty registry."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("LOCALJUDGE_HOME", str(home))
    return home


def adapted(requests: Sequence[VerdictRequest], sha256: str) -> list[VerdictRequest]:
    """Ask the same with an adapter."""
    asked: list[VerdictRequest] = []
    for request in requests:
        assert request.reading is not None
        reading = request.reading.model_copy(update={"adapter": sha256})
        asked.append(request._replace(reading=reading))
    return asked


def test_an_adapter_changes_the_answers_of_its_tasks_and_no_bit_of_the_others(
    make_model: ModelMaker, profile: Path, home: Path
) -> None:
    file = make_classifier(make_model)
    plain = statement_requests(profile, STATEMENTS, CONTEXTS)
    with closing(open_classifier(file)) as engine:
        expected = collect_answers(engine, plain)
    sha256 = register_adapter(home, write_adapter(home / "adapter.gguf"), file.sha256)
    mixed: list[VerdictRequest] = []
    for pair in zip(adapted(plain, sha256), plain, strict=True):
        mixed += pair
    with closing(open_classifier(file)) as engine:
        answers = collect_answers(engine, mixed)
        assert answers[1::2] == expected
        for changed, unchanged in zip(answers[::2], expected, strict=True):
            assert isinstance(changed, Answer)
            assert isinstance(unchanged, Answer)
            assert changed.p_yes != unchanged.p_yes
        assert collect_answers(engine, plain) == expected
    require_equal_bits(lambda threads: open_classifier(file, threads=threads), mixed)
    assert check_engine(lambda: open_classifier(file), mixed) == []


def test_an_adapter_is_part_of_the_key_of_a_request_and_nothing_else_is(profile: Path) -> None:
    [plain] = statement_requests(profile, STATEMENTS[:1], CONTEXTS)
    assert "adapter" not in plain.shape
    [asked] = adapted([plain], "1" * 64)
    keys = RequestKeys({"engine": "made up"})
    assert keys.keyed(asked).key != keys.keyed(plain).key
    without = asked.shape.replace(f',"adapter":"{"1" * 64}"', "")
    assert without == plain.shape


@pytest.mark.parametrize(
    "damage", ["unknown", "missing", "changed", "of another model", "too wide"]
)
def test_an_adapter_that_is_not_the_registered_one_is_refused(
    make_model: ModelMaker, profile: Path, home: Path, damage: str
) -> None:
    file = make_classifier(make_model)
    shape = SHAPE
    if damage == "too wide":
        shape = SHAPE._replace(width=2 * SHAPE.width)
    path = write_adapter(home / "adapter.gguf", shape)
    model = "0" * 64 if damage == "of another model" else file.sha256
    sha256 = register_adapter(home, path, model)
    if damage == "unknown":
        sha256 = "2" * 64
    if damage == "missing":
        path.unlink()
    if damage == "changed":
        path.write_bytes(path.read_bytes() + b"\0")
    requests = adapted(statement_requests(profile, STATEMENTS[:1], CONTEXTS), sha256)
    with closing(open_classifier(file)) as engine, pytest.raises(ModelError, match="adapter"):
        collect_answers(engine, requests)


@pytest.fixture(scope="session")
def reader() -> ModelFile:
    return model_registry.find("reader")


def test_the_reader_meets_the_contract(reader: ModelFile) -> None:
    requests = statement_requests(READER_PROFILE, STATEMENTS, CONTEXTS)
    assert check_engine(lambda: open_classifier(reader), requests) == []


def test_the_reader_has_the_same_bits_for_any_order_and_number_of_threads(
    reader: ModelFile,
) -> None:
    requests = statement_requests(READER_PROFILE, STATEMENTS, CONTEXTS)
    requests += statement_requests(READER_PROFILE, STATEMENTS[:3], [f"{' '.join(CONTEXTS)} " * 14])
    require_equal_bits(lambda threads: open_classifier(reader, threads=threads), requests)


def outputs_by_length(
    file: ModelFile, lengths: Sequence[int], threads: int
) -> dict[int, tuple[float, ...]]:
    """Return the outputs for a sequence of each length, evaluated in this order."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(5, 200, size=SHAPE.context).tolist()
    outputs: dict[int, tuple[float, ...]] = {}
    with closing(load(file, EngineSettings(threads=1))) as loaded:
        encoder = Encoder(loaded.model.pointer, n_ctx=loaded.n_ctx, threads=threads)
        with closing(encoder):
            for length in lengths:
                outputs[length] = tuple(encoder.outputs(tokens[:length]).tolist())
    return outputs


def require_equal_outputs(file: ModelFile, lengths: Sequence[int]) -> None:
    """Check the same bits with 1 to 4 threads, each in another order."""
    expected = outputs_by_length(file, lengths, 1)
    assert len(set(expected.values())) > 0.9 * len(lengths)
    for threads in (2, 3, 4):
        order = list(lengths)
        random.Random(threads).shuffle(order)
        assert outputs_by_length(file, order, threads) == expected


def test_the_reader_has_the_same_bits_at_some_lengths_with_one_to_four_threads(
    reader: ModelFile,
) -> None:
    require_equal_outputs(reader, [1, 2, 31, 32, 33, 64, 100, 255, 256, 257, 511, 512])


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [(), ENTAILMENT], ids=["one", "three"])
def test_classifiers_have_the_same_bits_at_every_length_with_one_to_four_threads(
    make_model: ModelMaker, outputs: tuple[str, ...]
) -> None:
    file = make_classifier(make_model, SHAPE._replace(width=256, outputs=outputs))
    require_equal_outputs(file, range(1, SHAPE.context + 1))


@pytest.mark.slow
def test_the_reader_has_the_same_bits_at_every_length_with_one_to_four_threads(
    reader: ModelFile,
) -> None:
    require_equal_outputs(reader, range(1, SHAPE.context + 1))


def test_only_a_classifier_uses_flash_attention(make_model: ModelMaker) -> None:
    with closing(open_classifier(make_classifier(make_model))) as engine:
        assert engine.identity["flash_attention"] is True
    with closing(open_engine(make_model("llama"), EngineSettings(threads=1))) as decoder:
        assert decoder.identity["flash_attention"] is False


def test_the_reader_finds_a_changed_fact(reader: ModelFile) -> None:
    context = "The Danube rises in the Black Forest in Germany and flows into the Black Sea."
    statements = ["The Danube rises in Germany.", "The Danube rises in France."]
    with closing(open_classifier(reader)) as engine:
        right, wrong = collect_answers(
            engine, statement_requests(READER_PROFILE, statements, [context])
        )
    assert isinstance(right, Answer)
    assert isinstance(wrong, Answer)
    assert right.p_yes > 4 * wrong.p_yes
