"""The copy of the tokenizer equals llama.cpp's, and no user text forms a marker."""

import pytest
from bare_llama import BareModel
from hypothesis import given, settings
from hypothesis import strategies as st
from lexical_judge.committed import CONTROL, Vocabulary

pytestmark = pytest.mark.engine

TEXTS = (
    "The Eiffel Tower was completed in 1889 for the World's Fair in Paris.",
    "Été à l'Île-de-France; ÜBER straße, naïve café.",
    "U.S. GDP rose 3.5% to $1,000.50 (see [12], p. 4-7). US, 12,345,678 in May 5,2010",
    "Привет, мир! Γειά σου Κόσμε. مرحبا بالعالم. שלום עולם",
    "你好,世界。東京タワーは1958年に完成した。",
    "대한민국의 수도는 서울이다. नमस्ते दुनिया สวัสดี 뷁",
    "a\tb\nc\r\n  d\u00a0e\u200bf — “quoted” … \ufffd",
    "supercalifragilisticexpialidocious x" + "y" * 60,
    '<ctx> <stmt> <unk> <ans>{"attributed":1}',
    "▁ ▁x 𝔘𝔫𝔦 ﬁn ½ e\u0301 Ⅷ \U0001f600",
    "",
)

SAME = (
    ("PARIS", "paris"),
    ("Café", "cafe\u0301"),
    ("Straße", "strasse"),
    ("1,000", "1000"),
    ("12,345,678", "12345678"),
    ("the U.S. economy", "the US economy"),
    ("U.K.", "UK"),
    ("well-known", "well - known"),
    ("well–known", "well-known"),
    ("١٩٤٥", "1945"),
    ("５０％", "50%"),
    ("مُحَمَّد", "محمد"),
)


@pytest.mark.parametrize("text", TEXTS)
def test_the_mirror_gives_llama_cpps_tokens(
    text: str, words: Vocabulary, llama_judge: BareModel
) -> None:
    assert words.tokenizer.encode(text) == llama_judge.encode(text)


@given(text=st.text(max_size=40))
@settings(deadline=None, max_examples=200)
def test_the_mirror_gives_llama_cpps_tokens_for_any_text(
    text: str, words: Vocabulary, llama_judge: BareModel
) -> None:
    text = text.replace("\0", "")  # ends a text in C
    assert words.tokenizer.encode(text) == llama_judge.encode(text)


@pytest.mark.parametrize("marker", CONTROL)
def test_a_marker_in_user_text_stays_text(
    marker: str, words: Vocabulary, llama_judge: BareModel
) -> None:
    found = {
        words.tokens[token].text for token in llama_judge.encode(f"see {marker} here, {marker}")
    }
    assert not found & set(CONTROL)


@pytest.mark.parametrize(("one", "other"), SAME)
def test_one_thing_is_written_one_way(one: str, other: str, words: Vocabulary) -> None:
    assert words.tokenizer.encode(one) == words.tokenizer.encode(other)


def test_the_country_is_not_the_pronoun(words: Vocabulary) -> None:
    assert words.tokenizer.encode("in the US today") != words.tokenizer.encode("in the us today")
