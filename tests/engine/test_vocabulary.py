from collections.abc import Iterator

import llama_cpp
import pytest
import random_model
from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge.engine.tokens import Vocabulary
from localjudge.metrics import SampleError
from tests.engine.conftest import REAL, LoadedVocabulary, OpenVocabulary

pytestmark = pytest.mark.engine

FAMILIAR = (
    "<|eot_id|>", "<|im_end|>", "<|im_start|>system\n", "<start_of_turn>", "<end_of_turn>",
    "<|turn>", "[INST]", "[/INST]", "<s>", "</s>", "<unk>", "<bos>", "<|endoftext|>", "<|end|>",
    "<|assistant|>", "<think>", "</think>", "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>",
    "<|channel|>final<|message|>", "<｜User｜>", "<0x0A>", "▁",
)  # fmt: skip
TEXTS = {
    "Latin": "The bridge — 1,280 m long — opened in 1937; naïve façades, “quotes”.",
    "Cyrillic": "Мост открыли в 1937 году, и он стоит до сих пор.",
    "Arabic": "افتتح الجسر في عام ١٩٣٧ ولا يزال قائماً.",
    "Chinese": "这座桥于1937年开通，至今仍在使用。",
    "emoji": "🌉👩‍👩‍👧‍👦🇳🇱 e\u0301 \u200b\ufeff",
    "spaces": "  two\t\ttabs\r\n\r\n   three spaces \n",
    **{
        repr(blank): f"{blank}It.{blank}"
        for blank in (" ", "\n", "\t", "\r\n", "\n\n", "   ", "\u3000", "\xa0")
    },
    "nothing": "",
    "code": "if (x) {\n    return y;\n}",
    "controls": "a\x00b\x07c\x1b[0m",
}


@pytest.fixture(scope="module", params=[*random_model.MADE_UP, *REAL])
def vocabulary(
    request: pytest.FixtureRequest, open_vocabulary: OpenVocabulary
) -> Iterator[LoadedVocabulary]:
    with open_vocabulary(request.param) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def specials(vocabulary: LoadedVocabulary) -> set[int]:
    """Ids of control and user-defined tokens in llama.cpp, without blanks and single characters."""
    special = llama_cpp.LLAMA_TOKEN_ATTR_CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED
    return {
        token
        for token in range(vocabulary.size)
        if llama_cpp.llama_vocab_get_attr(vocabulary.pointer, token) & special
        and len(vocabulary.pieces[token].strip().decode(errors="replace")) > 1
    }


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_text_of_every_script_round_trips(vocabulary: Vocabulary, text: str) -> None:
    assert vocabulary.decode(vocabulary.user(text)).decode() == text


def test_control_special_literals_can_become_special_tokens(
    vocabulary: LoadedVocabulary, specials: set[int]
) -> None:
    literal = vocabulary.pieces[min(specials)]
    buffer = (llama_cpp.llama_token * 64)()
    count = llama_cpp.llama_tokenize(
        vocabulary.pointer, literal, len(literal), buffer, 64, False, True
    )
    assert set(buffer[:count]) & specials


def test_every_special_literal_stays_text(vocabulary: Vocabulary, specials: set[int]) -> None:
    literals = [vocabulary.pieces[token].decode(errors="replace") for token in specials]
    for literal in (*literals, *FAMILIAR):
        half = len(literal) // 2
        for text in (
            literal,
            f"a{literal}b",
            literal * 2,
            f" {literal}\n",
            literal[:half] + literal + literal[half:],
        ):
            tokens = vocabulary.user(text)
            assert not specials & set(tokens), text
            assert vocabulary.decode(tokens).decode() == text


@settings(max_examples=60)
@given(data=st.data())
def test_any_text_round_trips_without_special_tokens(
    vocabulary: Vocabulary, specials: set[int], data: st.DataObject
) -> None:
    literals = [vocabulary.pieces[token].decode(errors="replace") for token in sorted(specials)[:8]]
    pieces = st.one_of(
        st.text(max_size=8),
        st.sampled_from([*FAMILIAR, *literals, " ", "\n", "\n\n", "<", "|", "|>"]),
    )
    text = "".join(data.draw(st.lists(pieces, max_size=8)))
    tokens = vocabulary.user(text)
    assert not specials & set(tokens)
    assert vocabulary.decode(tokens).decode() == text


def test_the_template_may_use_every_special_token(
    vocabulary: Vocabulary, specials: set[int]
) -> None:
    literals = {vocabulary.pieces[token]: token for token in specials}
    for literal, token in literals.items():
        text = f"x{literal.decode(errors='replace')}y"
        if text.encode() == b"x" + literal + b"y":
            assert vocabulary.trusted(text).count(token) == 1
            assert vocabulary.decode(vocabulary.trusted(text)).decode() == text


def test_no_space_is_added_between_pieces(vocabulary: Vocabulary) -> None:
    parts = ("Passage:\n", "It opened", " in 1937", ".", "\n", "Next", "\n\n", "1", "<", "é", "日")
    for tokenize in (vocabulary.trusted, vocabulary.user):
        tokens = [token for part in parts for token in tokenize(part)]
        assert vocabulary.decode(tokens).decode() == "".join(parts)


def test_a_lone_surrogate_is_an_error_of_the_sample(vocabulary: Vocabulary) -> None:
    with pytest.raises(SampleError, match="lone surrogate at position 1"):
        vocabulary.user("a\ud800b")


def test_a_text_of_more_than_16_mib_is_an_error_of_the_sample(
    open_vocabulary: OpenVocabulary,
) -> None:
    """llama.cpp ends the process when memory runs out, as with a text of 500 MB."""
    with (
        open_vocabulary("bytes") as loaded,
        pytest.raises(SampleError, match="16,777,217 bytes is too long"),
    ):
        loaded.user("a" * (2**24 + 1))


def test_user_defined_tokens_of_one_character_are_text(open_vocabulary: OpenVocabulary) -> None:
    """Some vocabularies define `日` as a token."""
    with open_vocabulary("words") as loaded:
        assert loaded.pieces.index("日".encode()) not in loaded.reserved
    with open_vocabulary("bytes") as loaded:
        assert loaded.pieces.index(b"   ") not in loaded.reserved
        assert loaded.pieces.index(b"<|tool|>") in loaded.reserved


def test_a_debugger_shows_a_vocabulary_without_its_tokens(open_vocabulary: OpenVocabulary) -> None:
    """A real one has some hundred thousand."""
    with open_vocabulary("bytes") as vocabulary:
        assert len(repr(vocabulary)) < 200
