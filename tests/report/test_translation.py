"""Tables of texts: complete, used, and never applied to the texts of users."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from jinja2 import Environment, nodes

import localjudge
from localjudge import resources
from localjudge.metrics import catalog
from localjudge.metrics.metric import about_of
from localjudge.report.translation import FOLDER, Words
from localjudge.types import Language

PACKAGE = Path(localjudge.__file__).parent
PAGES = PACKAGE / "report" / "page"
TABLES = {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.toml"))}
KEYS = TABLES["de"].keys()
_PLACE = re.compile(r"\{(\w+)(?::[nst])?\}")
_OF_SCRIPT = re.compile(r"\bt\(\s*((?:[^()\"]|\"(?:[^\"\\]|\\.)*\"|\([^()]*\))*?)[,)]")


def of_templates() -> Iterator[str]:
    """Yield the texts in calls such as `t("Mean")` or `t("1 label" if n == 1 else "{n} labels", n=n)`."""
    for path in PAGES.glob("*.html"):
        for call in Environment().parse(path.read_text()).find_all(nodes.Call):
            if isinstance(call.node, nodes.Name) and call.node.name == "t":
                chosen = call.args[0]
                parts = [chosen.expr1, chosen.expr2] if isinstance(chosen, nodes.CondExpr) else [chosen]
                yield from (part.value for part in parts if isinstance(part, nodes.Const))


def of_scripts() -> Iterator[str]:
    for path in PAGES.glob("*.js"):
        for call in _OF_SCRIPT.findall(path.read_text()):
            yield from re.findall(r'"((?:[^"\\]|\\.)*)"', call)


def of_modules() -> str:
    """Return all literal texts of the package, also the fixed parts of composed ones."""
    trees = [ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")]
    texts = [node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    cautions = resources.bundled_file("models", "registry.toml").read_text()
    names = [*(name.replace("@k", "@3") for name in catalog.names()), "citation_support(of=all)"]
    metrics = [about_of(catalog.ours(name)).headline for name in names]
    questions = [f"{text[:1].upper()}{text[1:]}?" for text in (words.format("how many") for words in metrics)]
    return "\n".join([cautions, *metrics, *questions, *(text for text in texts if isinstance(text, str))])


def places(text: str) -> list[str]:
    return sorted(_PLACE.findall(text))


def test_every_language_has_a_table() -> None:
    assert {"en", *TABLES} == set(get_args(Language))


@pytest.mark.parametrize("language", TABLES)
def test_tables_have_the_same_keys_and_places(language: str) -> None:
    table = TABLES[language]
    assert list(table) == list(KEYS)
    assert {key: text for key, text in table.items() if places(key) != places(text) or not text.strip("\n")} == {}
    tags = re.compile(r"</?\w+>")
    assert {key: text for key, text in table.items() if sorted(tags.findall(key)) != sorted(tags.findall(text))} == {}


def test_every_text_of_pages_has_a_key() -> None:
    assert {*of_templates(), *of_scripts()} - KEYS == set()


def test_every_key_is_used_by_a_page_or_composed_by_a_module() -> None:
    """The fixed parts of a composed sentence are literal texts of the package."""
    modules = of_modules()
    composed = KEYS - {*of_templates(), *of_scripts(), ",", "."}
    parts = {key: re.split(r"\{\w+(?::[nst])?\}|[,;:.?()]|^1 ", key) for key in composed}
    unused = {key for key in composed if not all(_is_in(part.strip(), modules, _runs(key)) for part in parts[key])}
    assert unused == set()


def _runs(key: str) -> int:
    """Return how many literal texts of a module may follow each other without a place between them."""
    return 3 if re.search("stays at|more labels would|equals the threshold", key) else 2


def _is_in(part: str, modules: str, runs: int) -> bool:
    """Return whether the words are in the texts, in at most this many runs of words."""
    if any(words in modules for words in (part, part.removesuffix("s"), part[:1].lower() + part[1:])):
        return True
    words = part.split()
    ends = range(len(words) - 1, 0, -1) if runs > 1 else ()
    return any(
        _is_in(" ".join(words[:end]), modules, 1) and _is_in(" ".join(words[end:]), modules, runs - 1) for end in ends
    )


GERMAN = {
    "in an average answer, about 69 % of the sentences are supported by the documents (59 to 78)": (
        "in einer durchschnittlichen Antwort sind etwa 69 % der Sätze durch die Dokumente belegt (59 bis 78)"
    ),
    "the mean of Mean is 0.708 (0.2 to 0.9)": "der Mittelwert von Mean ist 0,708 (0,2 bis 0,9)",
    "1,234 labels": "1.234 Labels",
    "50 of 63 labels": "50 von 63 Labels",
    "14 statements with several labels: 86 % agreement, Krippendorff's alpha 0.713": (
        "14 Aussagen mit mehreren Labels: 86 % Übereinstimmung, Krippendorffs Alpha 0,713"
    ),
    "1 drawn statement without a label, which may be harder than the rest; 3 labels": (
        "1 gezogene Aussage ohne Label, vielleicht schwieriger als die übrigen; 3 Labels"
    ),
    '0 of 2 attributed; not attributed: "none; or 1.5 labels" and 1 more': (
        '0 von 2 belegt; nicht belegt: "none; or 1.5 labels" und 1 weitere'
    ),
    "3 of 4 useful, at ranks 1, 2 and 4": "3 von 4 nützlich, auf den Rängen 1, 2 und 4",
    "1/3 = 0.333": "1/3 = 0,333",
    "whatever a user writes to another": "whatever a user writes to another",
    "3 labels; and more": "3 labels; and more",
}


@pytest.mark.parametrize("text", GERMAN)
def test_composed_sentences_are_recognised(text: str) -> None:
    assert Words("de").sentence(text) == GERMAN[text]


def test_english_is_unchanged() -> None:
    assert [Words().sentence(text) for text in GERMAN] == list(GERMAN)
    assert (Words().number(1234), Words().number(0.5), Words().number(None)) == ("1,234", "0.500", "-")


def test_numbers_have_the_signs_of_the_language() -> None:
    languages: tuple[Language, ...] = ("de", "es", "fr")
    shown = {name: [Words(name).number(value) for value in (1234, 0.5)] for name in languages}
    assert shown == {"de": ["1.234", "0,500"], "es": ["1\u202f234", "0,500"], "fr": ["1\u202f234", "0,500"]}


def test_values_in_own_texts_are_escaped() -> None:
    words = Words("de")
    assert words("corrected by {labels}", labels="<b>\x1b") == "korrigiert durch &lt;b&gt;\\x1b"
    assert words("and {n} more", n=1234) == "und 1.234 weitere"
    assert words.missing == set()
    assert (words("nowhere"), words.missing) == ("nowhere", {"nowhere"})
