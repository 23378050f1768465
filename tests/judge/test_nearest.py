"""The sentences that a reader reads: golden cases, and properties for any texts."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge.judge.nearest import read_nearest
from localjudge.text import Segmenter

MARK = " ... "

CUT = Segmenter("en")
WORDS = ["Ulm", "Danube", "rises", "It", "the", "1,000", "東京", "ภาษาไทย", "a" * 70]
texts = st.lists(
    st.lists(st.sampled_from([*WORDS, ". ", "\n"]), max_size=40).map(" ".join),
    max_size=4,
)
statements = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)


def read(contexts: Sequence[str], statement: str, letters: int) -> Any:
    return read_nearest(contexts, statement, CUT, letters)


def test_the_nearest_sentences_are_read_in_the_order_of_the_texts() -> None:
    """Both passages share `danub`. The first has `ulm`, too, in its heading. 22 + 37 letters and
    the heading with 3 fit into 70, `It is old.` with 10 does not: each sentence takes one more
    letter, 3 + 1 + 22 + 1 + 37 + 1 = 65.
    """
    contexts = [
        "Ulm\nIt lies on the Danube. It is old. Many people live there.",
        "It is long. The Danube rises in the Black Forest.",
    ]

    nearest = read(contexts, "The Danube passes Ulm.", 70)

    rises = "The Danube rises in the Black Forest."
    assert nearest.text == f"Ulm\nIt lies on the Danube.{MARK}{rises}"
    assert [(part.text, part.span.start, part.span.end) for part in nearest.parts] == [
        (0, 0, 26),
        (1, 12, 49),
    ]


def test_a_statement_about_two_passages_reads_both() -> None:
    """By the scores alone, the two sentences about Ulm would be read, which leaves no room."""
    contexts = [
        "Ulm lies in Swabia, and Ulm is old. Ulm lies in Swabia, and Ulm is big.",
        "Rain falls. Bonn has a museum on the Rhine.",
    ]

    nearest = read(contexts, "Ulm lies in Swabia, and Bonn has a museum.", 72)

    assert {part.text for part in nearest.parts} == {0, 1}


@pytest.mark.parametrize("statement", ["It was built in 1377.", "Qqq zzz.", ""])
def test_a_short_text_is_read_whole(statement: str) -> None:
    text = "The church is high. It rains there. It was built in 1377."

    assert read([text], statement, 600).text == text


def test_a_sentence_that_begins_with_a_pronoun_is_read_with_the_one_before() -> None:
    sentences = [f"Street {number} is long and wide." for number in range(40)]
    sentences[20:22] = ["Max Eyth was born in Kirchheim.", "He wrote a novel about a bridge."]

    nearest = read([" ".join(sentences)], "Eyth wrote a novel.", 150)

    assert "Max Eyth was born in Kirchheim. He wrote a novel" in nearest.text


def test_without_a_common_word_the_first_text_is_read_from_its_beginning() -> None:
    contexts = ["First things. " * 20, "Other things. " * 20]

    nearest = read(contexts, "Zzz.", 60)

    assert [part.text for part in nearest.parts] == [0]
    assert nearest.text.startswith("First things.")
    assert 40 < len(nearest.text) <= 60


@pytest.mark.parametrize(
    "text",
    [
        ", ".join(f"Name{number} Surname{number}" for number in range(300)),
        "QmFzZTY0" * 500,
        "ภาษาไทยไม่มีช่องว่างระหว่างคำ" * 100,
        "| a | b " * 700,
        '{"key": [1, 2, 3], "name": "x"}, ' * 200,
    ],
    ids=["names", "base64", "Thai", "table", "JSON"],
)
@pytest.mark.parametrize("letters", [100, 600])
def test_a_long_text_without_a_stop_is_cut(text: str, letters: int) -> None:
    dam = "The dam was built in 1962."

    nearest = read([dam, text], dam, letters)

    assert nearest.text.startswith(dam)
    alone = read([text], text[:50], letters)
    assert 30 < sum(len(part.span.text) for part in alone.parts) <= letters


@pytest.mark.parametrize(
    ("language", "contexts", "statement", "ends"),
    [
        (
            "zh",
            [
                "多瑙河是欧洲第二长河。它发源于德国黑森林。" + "沿岸有许多城市和葡萄园。" * 40,
                "河上航运十分繁忙。" * 40 + "莱茵河发源于瑞士阿尔卑斯山。它在荷兰流入北海。",
            ],
            "多瑙河发源于黑森林，莱茵河在荷兰流入北海。",
            ("它发源于德国黑森林。", "它在荷兰流入北海。"),
        ),
        (
            "ja",
            [
                "ドナウ川は長い川である。ドイツの黒い森に源を発する。" + "沿岸に都市がある。" * 40,
                "水運が盛んである。" * 40 + "ライン川は短い。オランダで北海に注ぐ。",
            ],
            "ドナウ川は黒い森に源を発し、ライン川はオランダで北海に注ぐ。",
            ("ドイツの黒い森に源を発する。", "オランダで北海に注ぐ。"),
        ),
    ],
    ids=["Chinese", "Japanese"],
)
def test_without_spaces_pairs_of_signs_are_words(
    language: str, contexts: list[str], statement: str, ends: tuple[str, str]
) -> None:
    """60 of about 900 letters, from both passages."""
    nearest = read_nearest(contexts, statement, Segmenter(language), 60, language)

    assert sum(len(part.span.text) for part in nearest.parts) <= 60
    for end in ends:
        assert end in nearest.text


def test_thai_is_read_in_pieces_that_end_at_white_space() -> None:
    """Thai has no stops: a long run is one sentence, cut into pieces of at most 500 letters."""
    contexts = ["ริมฝั่งมีเมืองๆ " * 60, "การเดินเรือคึก " * 60 + "แม่น้ำไรน์ไหลลงสู่ทะเลเหนือ"]

    nearest = read_nearest(contexts, "แม่น้ำไรน์ไหลลงสู่ทะเลเหนือ", Segmenter("th"), 600, "th")

    assert {part.text for part in nearest.parts} == {1}
    assert nearest.text.endswith("แม่น้ำไรน์ไหลลงสู่ทะเลเหนือ")
    [part] = nearest.parts
    assert 300 < len(part.span.text) <= 600
    assert contexts[1][part.span.start - 1] == " "


def test_no_text_is_no_text() -> None:
    assert read([], "Ulm.", 600).text == ""
    assert read(["", " \n"], "Ulm.", 600).text == ""


@given(contexts=texts, statement=statements, letters=st.integers(20, 300))
def test_parts_are_verbatim_in_order_and_fit(
    contexts: list[str], statement: str, letters: int
) -> None:
    nearest = read(contexts, statement, letters)

    places = [(part.text, part.span.start, part.span.end) for part in nearest.parts]
    assert places == sorted(places)
    for text, start, end in places:
        assert 0 <= start < end <= len(contexts[text])
    for part in nearest.parts:
        assert part.span.text == contexts[part.text][part.span.start : part.span.end]
    ends: dict[int, int] = {}
    for text, start, end in places:
        assert start >= ends.get(text, 0)
        ends[text] = end
    letters_read = sum(len("".join(part.span.text.split())) for part in nearest.parts)
    assert letters_read <= letters
    assert nearest == read(contexts, statement, letters)
