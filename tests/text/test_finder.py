"""The finder of evidence: golden scores, order, and properties for any texts."""

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge.metrics import Span
from localjudge.text import Segmenter
from localjudge.text.finder import Finder

CUT = Segmenter("en")
WORDS = ["Ulm", "Danube", "rises", "flows", "the", "of", "1,000", "東京", "<b>", "|", "in"]
texts = st.lists(
    st.lists(st.sampled_from([*WORDS, ". ", "\n", ".\n"]), max_size=25).map(" ".join),
    max_size=5,
)
statements = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)


def found(statement: str, contexts: Sequence[str], language: str = "en") -> list[tuple[int, str]]:
    matches = Finder(contexts, CUT, language).find(statement)
    return [(match.text, match.span.text) for match in matches]


def test_score_is_the_weight_of_common_words() -> None:
    """Two sentences, n = 2. `danub` is in both: ln(1 + 3 / 2.5) = 0.7885. `ulm` is in one:
    ln(1 + 3 / 1.5) = 1.0986. `cross` is in none: ln(1 + 3 / 0.5) = 1.9459.

    Sentence 1 has `danub` and `ulm`: 1.8871 of 3.8330. Sentence 2 has `danub`: 0.7885 of 3.8330,
    which is less than half of the first score.
    """
    finder = Finder(["Danube near Ulm. Danube."], CUT)

    [match] = finder.find("Danube crosses Ulm")

    both = math.log(1 + 3 / 2.5)
    one = math.log(1 + 3 / 1.5)
    none = math.log(1 + 3 / 0.5)
    assert match == (0, Span(start=0, end=16, text="Danube near Ulm."), 0.4923)
    assert round((both + one) / (both + one + none), 4) == 0.4923


def test_a_stop_word_counts_a_tenth() -> None:
    """One sentence, n = 1: both words are in it, and `absent` in none.

    ln(1 + 2 / 1.5) = 0.8473 for `ulm`, a tenth of it for `the`; ln(1 + 2 / 0.5) = 1.6094 for
    `absent`. (0.8473 + 0.0847) / (0.8473 + 0.0847 + 1.6094) = 0.3667.
    """
    [match] = Finder(["The Ulm."], CUT).find("the absent Ulm")

    assert match.score == 0.3667


@pytest.mark.parametrize(
    ("language", "word", "count"),
    [
        ("en", "the", 0.1),
        ("de", "der", 0.1),
        ("fr", "les", 0.1),
        ("es", "los", 0.1),
        ("xx", "der", 1),
    ],
)
def test_stop_words_are_those_of_the_language(language: str, word: str, count: float) -> None:
    """No sentence has either word. A language without a list has no stop words."""
    weights = Finder([], CUT, language).weights(f"{word} Ulm")

    assert weights[word] == pytest.approx(count * weights["ulm"])


def test_a_heading_counts_for_the_sentences_below_it() -> None:
    """`ulm` is only in the heading. Sentences: `Ulm` and `It lies on the Danube.`, n = 2.

    Both words are in one sentence each: 1.0986. The second sentence has `danub` and 0.4 of `ulm`:
    (1.0986 + 0.4394) / 2.1972 = 0.7. The heading has `ulm`: 0.5, which is more than half of that.
    """
    matches = Finder(["Ulm\nIt lies on the Danube."], CUT).find("Ulm Danube")

    assert [(match.span.text, match.score) for match in matches] == [
        ("It lies on the Danube.", 0.7),
        ("Ulm", 0.5),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Ulm.\nIt lies on the Danube.",  # a sentence
        "Ulm " * 40 + "\nIt lies on the Danube.",  # too long
        "Ulm",  # nothing below it
    ],
)
def test_a_sentence_or_a_long_line_is_no_heading(text: str) -> None:
    [match, *_] = Finder([text], CUT).find("Ulm")

    assert "Ulm" in match.span.text


def test_the_same_sentence_twice_is_named_twice_the_first_first() -> None:
    contexts = ["It rains. Ulm lies on the Danube.", "Ulm lies on the Danube."]

    assert found("Ulm lies on the Danube.", contexts) == [
        (0, "Ulm lies on the Danube."),
        (1, "Ulm lies on the Danube."),
    ]


@pytest.mark.parametrize("contexts", [[], [""], ["   \n"], ["It rains."], ["..."]])
def test_without_a_common_word_there_is_no_evidence(contexts: list[str]) -> None:
    assert found("Ulm", contexts) == []


@pytest.mark.parametrize("statement", ["", "...", "🙂"])
def test_a_statement_without_a_word_has_no_evidence(statement: str) -> None:
    assert found(statement, ["Ulm lies on the Danube."]) == []


def test_only_the_named_texts_are_searched() -> None:
    finder = Finder(["Ulm is old.", "Ulm is new."], CUT)

    assert [match.text for match in finder.find("Ulm is old", [1])] == [1]
    assert finder.find("Ulm is old", []) == []


def test_rows_of_a_table_and_items_of_a_list_are_found() -> None:
    table = "| City | River |\n|---|---|\n| Ulm | Danube |\n| Bonn | Rhine |"
    items = "- Ulm: Danube\n- Bonn: Rhine\n"

    assert found("Bonn lies on the Rhine.", [table])[0] == (0, "| Bonn | Rhine |")
    assert "Bonn: Rhine" in found("Bonn lies on the Rhine.", [items])[0][1]


def test_a_japanese_statement_finds_its_sentence() -> None:
    contexts = ["大阪は商業の町です。", "東京は日本の首都です。"]

    assert found("日本の首都は東京です。", contexts, "ja")[0] == (1, "東京は日本の首都です。")


@pytest.mark.parametrize(
    "question",
    [
        "In which year was the old tower of Ulm built?",
        '"In which year was the old tower of Ulm built?"',
        "In which year was the old tower of Ulm built？",
        "(Was it built in the year of the old tower of Ulm?)",
    ],
)
def test_the_answer_is_closer_than_the_question(question: str) -> None:
    """A statement that repeats the question shares most words with it, but it asserts nothing."""
    statement = "The year in which the old tower of Ulm was built is 1889."
    contexts = ["Towers are high.", f"{question} In 1889. It is closed."]

    assert found(statement, contexts)[0] == (1, "In 1889.")


def test_a_question_counts_half_and_names_what_the_answer_is_about() -> None:
    """Sentences `Is Ulm old?` and `Very.`, n = 2; `ulm` and `old` in one, `very` in the other.

    Each weighs ln(1 + 3 / 1.5) = 1.0986; `very` is a stop word and weighs a tenth.
    Question: 1/2 * (1 + 1) / 2.1 = 0.4762. Answer: (0.1 + 0.4 * 2) / 2.1 = 0.4286.
    """
    matches = Finder(["Is Ulm old? Very."], CUT).find("Ulm old very")

    assert [(match.span.text, match.score) for match in matches] == [
        ("Is Ulm old?", 0.4762),
        ("Very.", 0.4286),
    ]


def test_a_question_is_no_heading_of_the_sentence_after_next() -> None:
    scores = {}
    for text in ("Is it Ulm? Yes. Linz is far.", "Ulm? Linz is far."):
        for match in Finder([text], CUT).find("Linz Ulm far"):
            scores[text, match.span.text] = match.score

    assert (
        scores["Is it Ulm? Yes. Linz is far.", "Linz is far."]
        < (scores["Ulm? Linz is far.", "Linz is far."])
    )


def test_text_that_looks_like_html_is_found_verbatim() -> None:
    [(_, sentence), *_] = found(
        "Ulm is bold", ["<script>alert('Ulm')</script>\nUlm is <b>bold</b>."]
    )

    assert sentence == "Ulm is <b>bold</b>."


def test_a_long_text_without_stops_is_cut_into_parts() -> None:
    text = "lorem ipsum " * 2_000 + "Ulm lies on the Danube " + "dolor sit " * 2_000

    [match] = Finder([text], CUT).find("Ulm lies on the Danube.")

    assert "Ulm" in match.span.text
    assert len(match.span.text) <= 500
    assert text[match.span.start : match.span.end] == match.span.text


def test_a_hundred_thousand_characters_without_spaces_are_cut() -> None:
    text = "a" * 50_000 + "東京" + "b" * 50_000
    matches = Finder([text, "東京"], CUT).find("東京")

    assert (1, "東京") in [(match.text, match.span.text) for match in matches]
    assert all(len(match.span.text) <= 500 for match in matches)


def test_200_contexts_are_searched() -> None:
    contexts = [f"Town {number} lies on river {number}." for number in range(200)]

    assert found("Town 137 lies on river 137.", contexts)[0] == (137, contexts[137])


@given(texts, statements)
def test_offsets_give_the_text_verbatim(contexts: list[str], statement: str) -> None:
    for match in Finder(contexts, CUT).find(statement):
        assert contexts[match.text][match.span.start : match.span.end] == match.span.text


@given(texts, statements)
def test_scores_are_shares_and_fall_with_the_rank(contexts: list[str], statement: str) -> None:
    scores = [match.score for match in Finder(contexts, CUT).find(statement)]

    assert len(scores) <= 2
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)


@given(texts, statements, st.integers())
def test_the_order_of_contexts_changes_no_score(
    contexts: list[str], statement: str, seed: int
) -> None:
    order = list(range(len(contexts)))
    random.Random(seed).shuffle(order)
    shuffled = [contexts[place] for place in order]

    one, other = (Finder(each, CUT).find(statement) for each in (contexts, shuffled))

    assert [match.score for match in one] == [match.score for match in other]


@given(texts, st.lists(statements, max_size=4), st.integers())
def test_other_statements_and_their_order_change_nothing(
    contexts: list[str], several: list[str], seed: int
) -> None:
    finder = Finder(contexts, CUT)
    order = list(several)
    random.Random(seed).shuffle(order)
    together = {statement: finder.find(statement) for statement in order}

    for statement in several:
        assert together[statement] == Finder(contexts, CUT).find(statement)
