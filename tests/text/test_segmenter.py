import logging
import re
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
import spacy
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from spacy.language import Language

from localjudge import InputError
from localjudge.metrics import Span
from localjudge.text import Segmenter

sentences = Segmenter()

MAX_PART = 100_000

ANY_TEXT = st.text(
    st.one_of(
        st.characters(),
        st.characters(categories=["Cs", "Cc", "Cf", "Zs", "Zl", "Zp"]),
        st.sampled_from(" \n\r\t.!?…\"'“”«»)([]:;,-*#|>1aA。！？「」।؟•😀"),
    )
)
SIGNS = (
    "Dr. U.S. e.g. No. p. 55 p.m. J. Co. etc. The he said I - 1. a) • # www.a.org. b@c.org! "
    'Yahoo! ... … ." ?) [17] '
    ':-) (Then "We end.Then 。 「はい。」 ===== !!!!!!!!!!! '
    "``` ```python ~~~ | a|b |---| `a. b` <b> </b> <br> <p> </p> <tr> </tr> <td> . ** .[1] [1] "
    ".(1) <sup>1</sup> \\n "
    "【1†s】 [[1]](u) \u200b <think> </think> [a.pdf] 維.持 D.的 "
    "4 g. 5 ft. 2 in. 120/80. Vitamin K. A and B. De Vries BP Fig. 3. (excl. Suppl. q.6.h. Abs. "
    "l'art. Puls 72. 3.4."
)
BLANKS = "\n \n\n \r\n \ud800 \x00 \x1c \ufeff \u2028 \u2029 \u3000"
NEAR_TEXT = st.lists(st.sampled_from(f"{SIGNS} {BLANKS}".split(" "))).map(" ".join)
"""Text fragments that the rules handle, in any order."""


def assert_verbatim_and_complete(text: str, spans: list[Span]) -> None:
    end = 0
    for span in spans:
        assert span.text == text[span.start : span.end]
        assert span.text
        assert span.text == span.text.strip()
        assert not text[end : span.start].strip()
        end = span.end
    assert not text[end:].strip()


def moved(spans: list[Span], offset: int) -> list[Span]:
    return [
        Span(start=span.start + offset, end=span.end + offset, text=span.text) for span in spans
    ]


@given(ANY_TEXT | NEAR_TEXT, st.sampled_from(["en", "de", "el", "fr", "it", "zh", "xx"]))
@example("", "en")
@example(" \n\t\u3000\u2029", "en")
@example("\ud800.\udfff A", "en")
@example("One.\x00Two.\x1cThree.\x85Four.", "en")
@settings(max_examples=400)
def test_spans_are_verbatim_ordered_and_complete(text: str, language: str) -> None:
    assert_verbatim_and_complete(text, Segmenter(language)(text))


@given(NEAR_TEXT, NEAR_TEXT, st.sampled_from(["en", "de", "fr"]))
@example("No. I", "e.g.", "en")
def test_a_paragraph_is_split_the_same_in_any_position(
    first: str, second: str, language: str
) -> None:
    assume(
        "```" not in first and "~~~" not in first and "<" not in first + second
    )  # tags are no text
    assume(not re.search(r"\d\W*$", first))  # a number belongs to the clause after it
    apart = Segmenter(language)(first) + moved(Segmenter(language)(second), len(first) + 2)
    assert Segmenter(language)(f"{first}\n\n{second}") == apart


def test_offsets_count_code_points() -> None:
    """One emoji is one code point, but two UTF-16 units and four UTF-8 bytes."""
    assert sentences("😀 Yes. No.")[1] == Span(start=7, end=10, text="No.")


def test_texts_over_the_spacy_limit_are_split_like_their_paragraphs() -> None:
    paragraph = "Dr. No came" + " and came" * 30 + ". He left.\n\n"
    many = 1_100_000 // len(paragraph)
    spans = sentences(paragraph * many)
    assert len(spans) == 2 * many
    assert spans[-2:] == moved(sentences(paragraph), len(paragraph) * (many - 1))


@pytest.mark.parametrize("unit", ["a", "word ", "One. ", "。", "line\n", ")", "\ud800"])
def test_a_paragraph_of_any_length_is_covered(unit: str) -> None:
    text = unit * (2 * MAX_PART // len(unit) + 1)
    assert_verbatim_and_complete(text, sentences(text))


@pytest.mark.parametrize(
    "unit",
    [
        "!",
        '"(',
        "=",
        "a:",
        "http://a.b/c?",
        "😀",
        "'",
        "( ",
        "e.g. ",
        "<p>",
        "<b>",
        "</b>.",
        "[",
        ".[1]",
        "<tr>",
        "`",
        "```\n",
        "|\n",
        "|-|\n",
        "<sup>1",
        ".\\n",
        "(",
        ".(1)",
        "【1",
        "a[1",
        ".1 ",
        "$$",
        "$$a",
        "\\[",
        "\\[a\\]\n",
        "\\begin{math}",
        "*1.1.",
        "&lt;",
        "&",
    ],
)
def test_segmentation_takes_linear_time(unit: str) -> None:
    """100,000 take a second. Quadratic time would be beyond the limit of a test.

    The tokenizer takes 17 s for 16,000 of some of these, so 11 minutes for 100,000.
    """
    size = 100_000
    text = (unit * size)[:size]
    assert_verbatim_and_complete(text, sentences(text))


def test_the_identity_covers_everything_that_affects_splitting() -> None:
    cut_by = {"name": "localjudge", "version": version("spacy"), "rules": "7", "language": "de"}
    assert Segmenter("de").identity == cut_by


@pytest.mark.parametrize("language", ["ja", "ko", "th", "vi", "zh"])
def test_a_language_needs_no_other_package_and_logs_nothing(
    language: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The tokenizers of these languages need SudachiPy, mecab, PyThaiNLP or pyvi; rules do not."""
    with caplog.at_level(logging.DEBUG):
        assert len(Segmenter(language)("良かったね！「すごい」です。")) == 2
    assert caplog.records == []


Install = Callable[[Language, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a pipeline as `spacy package` does: with `load`, listed among spaCy's pipelines.

    It stays loaded, so each test gives its own name.
    """

    def installed(nlp: Language, name: str) -> None:
        (tmp_path / name).mkdir()
        nlp.to_disk(tmp_path / name / "data")
        load = "import spacy\n\ndef load():\n    return spacy.load(__path__[0] + '/data')\n"
        (tmp_path / name / "__init__.py").write_text(load, encoding="utf-8")
        about = tmp_path / f"{name}-1.0.dist-info"
        about.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        (about / "METADATA").write_text(metadata, encoding="utf-8")
        entry_point = f"[spacy_models]\n{name} = {name}\n"
        (about / "entry_points.txt").write_text(entry_point, encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))

    return installed


def test_an_installed_pipeline_reads_a_long_text_in_parts(install: Install) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer", config={"punct_chars": [";"]})
    install(nlp, "xx_parts")
    segmenter = Segmenter(pipeline="xx_parts")
    assert [span.text for span in segmenter("One. Two; three.")] == [
        "One. Two;",
        "three.",
    ]
    assert segmenter.identity["name"] == "xx_parts"
    text = ("One" + " two" * 40 + "; ") * 7_000
    spans = segmenter(text)
    assert len(text) > 1_000_000
    assert len(spans) >= 7_000
    assert_verbatim_and_complete(text, spans)


def test_a_pipeline_that_sets_no_boundaries_is_a_usage_error(install: Install) -> None:
    install(spacy.blank("en"), "xx_bare")
    with pytest.raises(InputError, match="no sentence boundaries"):
        Segmenter(pipeline="xx_bare")("One. Two.")


@pytest.mark.parametrize("name", ["pip", "antigravity", "blank:en", ".", "en_no_such_pipeline"])
def test_a_named_pipeline_imports_no_other_package(name: str) -> None:
    """Configurations may be untrusted, so a name must belong to a registered pipeline."""
    before = set(sys.modules)
    with pytest.raises(InputError, match="no spaCy pipeline"):
        Segmenter(pipeline=name)("One.")
    assert not {module for module in set(sys.modules) - before if module.partition(".")[0] == name}


@pytest.mark.parametrize(
    "language", ["en.stop_words", "lex_attrs", "..util", "zzz", "EN", "", "../en", "english"]
)
def test_an_invalid_language_code_is_refused(language: str) -> None:
    with pytest.raises(InputError, match="does not support the language"):
        Segmenter(language)("One.")


@pytest.mark.parametrize("inside", ["|x| = 1. Y = 2\n|y| = 2", "x \\in [1, 2]", "a. B"])
def test_a_displayed_formula_is_part_of_a_sentence(inside: str) -> None:
    text = f"The value is\n$$\n{inside} = 1\n$$\nwhere $x$ is real. It grows."
    assert len(sentences(text)) == 2
