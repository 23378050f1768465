import random

import pytest
from reader_recipe.rules import FAMILIES, LANGUAGES, Fact, RuleText, capitalised

SEEDS = range(40)


def texts() -> list[RuleText]:
    return [RuleText(random.Random(seed), LANGUAGES[seed % 4]) for seed in SEEDS]


def test_every_family_is_written_in_four_languages() -> None:
    for family in FAMILIES:
        assert tuple(family.forms) == LANGUAGES


def test_a_pattern_names_its_object_and_its_value() -> None:
    for family in FAMILIES:
        has_value = family.unit != "bool"
        for forms in family.forms.values():
            for pattern in (*forms.says, *(p for pair in forms.limits for p in pair)):
                assert "{o}" in pattern
                assert ("{v}" in pattern) == has_value
            for pattern in (*forms.denies, *forms.asks):
                assert "{o}" in pattern
                assert "{v}" not in pattern


def test_a_text_has_each_fact_once_and_no_value_twice_in_a_family() -> None:
    for text in texts():
        for fact in text.facts:
            assert text.text().count(text.sentence(fact)) == 1
            assert text.sentence(fact) not in text.text(without=fact)
            values = [other.value for other in text.neighbours(fact)]
            if fact.value is not None:
                assert fact.value not in values
                assert text.strange_value(fact) not in {*values, fact.value}


def test_a_claim_names_the_value_of_each_fact() -> None:
    for text in texts():
        facts = [fact for fact in text.facts if fact.value]
        for fact in facts:
            claim = text.claim([fact, facts[0]])
            assert str(fact.value).casefold() in claim.casefold()


def test_yes_and_no_have_different_words() -> None:
    bools = [family for family in FAMILIES if family.unit == "bool"]
    for family in bools:
        for language, forms in family.forms.items():
            rng = random.Random(1)
            yes = Fact(language, family, forms.objects[0], None)
            no = Fact(language, family, forms.objects[0], None, is_yes=False)
            assert {yes.say(rng) for _ in SEEDS}.isdisjoint(no.say(rng) for _ in SEEDS)


@pytest.mark.parametrize(
    ("text", "expected"), [("it opens", "It opens"), ("¿abre hoy?", "¿Abre hoy?"), ("", "")]
)
def test_capital_letters(text: str, expected: str) -> None:
    assert capitalised(text) == expected
