"""Messages in each language: complete, used, and with escaped values."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from command_line import printed
from jinja2 import Environment, nodes

import localjudge
from localjudge.judging.verify_files import Reason
from localjudge.labels.matched_labels import LabelCounts
from localjudge.metrics import catalog
from localjudge.model_registry import registered
from localjudge.report.messages import Messages, describe_examination, translate_labels
from localjudge.run_directory.measured_judges import Examination
from tests.conftest import LANGUAGES

REPORT = Path(localjudge.__file__).parent / "report"
FOLDER = REPORT / "languages"
OTHERS = [language for language in LANGUAGES if language != "en"]
OF_METRICS = {"question", "headline", "labelled"}
METRICS = [name.replace("@k", "@3") for name in (*catalog.names(), "citation_support(of=all)")]
SECTIONS_OF_SCRIPTS = ("page", "label")


Message = str | dict[str, str]


def read_messages(language: Any) -> dict[str, dict[str, Message]]:
    return tomllib.loads((FOLDER / f"{language}.toml").read_text(encoding="utf-8"))


def messages_by_key(language: Any) -> dict[str, Message]:
    """Return the messages as `section.name`, without those about metrics."""
    messages: dict[str, Message] = {}
    for section, entries in read_messages(language).items():
        if section not in OF_METRICS:
            messages |= {f"{section}.{name}": message for name, message in entries.items()}
    return messages


ENGLISH = messages_by_key("en")


def forms(message: Message) -> dict[str, str]:
    return {"": message} if isinstance(message, str) else message


def find_values(text: str) -> list[str]:
    return sorted(re.findall(r"\{(\w+)\}", text))


def find_tags(text: str) -> list[str]:
    return sorted(re.findall(r"</?\w+>", text))


def keys_in_templates() -> Iterator[str]:
    """Yield the keys in calls such as `t("label.start")`."""
    for path in (REPORT / "page").glob("*.html"):
        for call in Environment().parse(path.read_text(encoding="utf-8")).find_all(nodes.Call):
            if not isinstance(call.node, nodes.Name) or call.node.name != "t":
                continue
            key = call.args[0]
            branches = [key.expr1, key.expr2] if isinstance(key, nodes.CondExpr) else [key]
            yield from (branch.value for branch in branches if isinstance(branch, nodes.Const))


def names_in_scripts() -> set[str]:
    names: set[str] = set()
    for path in (REPORT / "page").glob("*.js"):
        names |= set(
            re.findall(r"\b(?:t|pieces|words)\(\s*\"(\w+)\"", path.read_text(encoding="utf-8"))
        )
    return names


def test_every_language_that_can_be_chosen_has_a_file() -> None:
    chosen = re.search(r"--language +\[([a-z|]+)\]", printed("label", "--help"))
    assert chosen
    assert set(chosen[1].split("|")) == set(LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_languages_have_the_same_keys_values_and_markup(language: Any) -> None:
    messages = messages_by_key(language)
    assert list(messages) == list(ENGLISH)
    for key, message in messages.items():
        assert forms(message).keys() == forms(ENGLISH[key]).keys(), key
        for form, text in forms(message).items():
            assert find_values(text) == find_values(forms(ENGLISH[key])[form]), key
            assert find_tags(text) == find_tags(forms(ENGLISH[key])[form]), key
            assert text, key


@pytest.mark.parametrize(
    "key", [key for key, message in ENGLISH.items() if not isinstance(message, str)]
)
def test_only_the_form_for_one_omits_its_count(key: str) -> None:
    one = find_values(forms(ENGLISH[key])["one"])
    other = find_values(forms(ENGLISH[key])["other"])
    assert forms(ENGLISH[key]).keys() == {"one", "other"}
    assert "n" in other
    assert set(other) - set(one) <= {"n"}


def label_counts(metric: str, supported: int = 30, **values: Any) -> LabelCounts:
    """Return 50 labels, of which 20 count by the judge, and annotators differ on one."""
    counts = {"is_share": True, "labelled": 50, "of": 100, "supported_by_judge": 20}
    counts["undisputed_by_judge"] = 19
    return LabelCounts(
        metric=metric, supported=supported, **{**counts, "disputed": 1, "p_value": 0.5, **values}
    )


SHARES = [
    name
    for name in METRICS
    if catalog.is_judged(name) and "{} of the " in catalog.about(name).headline
]


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("name", SHARES)
def test_labels_of_a_share_have_a_sentence_in_each_language(language: Any, name: str) -> None:
    if name == "context_precision":  # no share of its verdicts
        return
    sentence = Messages(language).labelled(name)
    assert sentence is not None
    assert find_values(sentence) == ["n", "supported"]


@pytest.mark.parametrize("p_value", [0.5, 0.004, 0.0000002])
@pytest.mark.parametrize("disputed", [0, 2, 50])
@pytest.mark.parametrize("name", ["faithfulness", "answer_correctness", "a_criterion"])
def test_each_language_states_the_labels_as_the_report_does(
    name: str, disputed: int, p_value: float
) -> None:
    """German once said the number of yes only, without the p-value and without the disputes."""
    counts = label_counts(name, disputed=disputed, p_value=p_value)
    english = translate_labels(counts, Messages())
    assert english in (counts.contradiction, counts.in_words)
    numbers = re.findall(r"\d+(?:\.\d+)?", english)
    for language in OTHERS:
        text = translate_labels(counts, Messages(language)).replace(",", ".")
        assert sorted(re.findall(r"\d+(?:\.\d+)?", text)) == sorted(numbers), language


@pytest.mark.parametrize(
    "uses",
    [
        {"attribution": ()},
        {"attribution": ("ranking", "means"), "relevance": ("ranking", "means")},
        {"attribution": ("ranking", "means"), "relevance": (), "answers": ()},
    ],
)
def test_each_language_states_what_doctor_found(uses: dict[str, tuple[Any, ...]]) -> None:
    for items in (384, 0):
        examination = Examination(uses=uses, items=items)
        assert describe_examination(examination, Messages()) == str(examination)
        german = describe_examination(examination, Messages("de"))
        assert "empfohlen" in german
        assert ("384" in german) == bool(items)


def test_every_message_is_used_and_every_used_message_exists() -> None:
    """Sections that are looked up by value (alteration, origin, caution) are tested below."""
    scripts = names_in_scripts()
    existing = {
        key.partition(".")[2] for key in ENGLISH if key.partition(".")[0] in SECTIONS_OF_SCRIPTS
    }
    assert scripts <= existing
    code = "".join(path.read_text(encoding="utf-8") for path in REPORT.glob("*.py"))
    used = {*keys_in_templates(), *re.findall(r"\"(\w+\.\w+)\"", code)}
    used |= {f"{section}.{name}" for section in SECTIONS_OF_SCRIPTS for name in scripts}
    sections_by_value = ("alteration.", "origin.", "caution.", "number.", "examined.")
    by_value = {key for key in ENGLISH if key.startswith(sections_by_value)}
    assert ENGLISH.keys() - used - by_value == set()
    assert set(keys_in_templates()) <= ENGLISH.keys()


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("name", METRICS)
def test_every_metric_has_its_sentence_and_question_in_each_language(
    language: Any, name: str
) -> None:
    messages = Messages(language)
    about = catalog.about(name)
    headline = messages.headline(name)
    assert headline is not None
    assert find_values(headline) == ["share"]
    assert headline != about.headline.replace("{}", "{share}")
    assert about.unit == "none" or messages.question(name)


@pytest.mark.parametrize("language", LANGUAGES)
def test_cautions_of_registered_judges_have_a_message(language: Any) -> None:
    cautioned = {name for name, model in registered().items() if model.caution}
    assert cautioned <= read_messages(language)["caution"].keys()


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_reason_of_an_alteration_has_a_message(language: Any) -> None:
    assert read_messages(language)["alteration"].keys() == set(get_args(Reason))


def test_a_cutoff_and_options_of_a_metric_choose_its_sentence() -> None:
    german = Messages("de")
    assert "unter den ersten 3" in (german.headline("hit_rate@3(compare_by=id)") or "")
    assert german.headline("citation_support(of=all)") != german.headline("citation_support")
    assert german.headline("unknown_metric") is None
    assert german.question("unknown_metric") is None


def test_numbers_have_the_signs_of_the_language() -> None:
    shown = {
        name: [Messages(name).number(value) for value in (1234, 0.5, None)] for name in LANGUAGES
    }
    assert shown == {
        "en": ["1,234", "0.500", "-"],
        "de": ["1.234", "0,500", "-"],
        "es": ["1\u202f234", "0,500", "-"],
        "fr": ["1\u202f234", "0,500", "-"],
    }


@pytest.mark.parametrize(
    ("key", "values", "text"),
    [
        ("labels.count", {"n": 1}, "1 Label"),
        ("labels.count", {"n": 1234}, "1.234 Labels"),
        ("labels.counted", {"counted": 50, "labelled": 63}, "50 von 63 Labels"),
        (
            "labels.settled",
            {"n": 1, "settled": 1},
            "1 strittige Aussage: 1 durch Schiedsspruch geklärt",
        ),
    ],
)
def test_a_count_chooses_the_form(key: str, values: dict[str, Any], text: str) -> None:
    assert Messages("de").plain(key, **values) == text


def test_values_in_a_page_are_escaped() -> None:
    messages = Messages("de")
    assert messages("certificate.corrected", labels="<b>\x1b") == "korrigiert durch &lt;b&gt;\\x1b"
    assert messages.plain("certificate.corrected", labels="<b>\x1b") == "korrigiert durch <b>\\x1b"
