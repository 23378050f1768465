"""Short texts of rules in four languages, with limits, dates, amounts and duties.

A text has four to seven facts of one language. A claim repeats or changes one or two of them. The
texts are written for this recipe and describe no real company.
"""

import random
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LANGUAGES = ("en", "de", "fr", "es")
FEWEST_FACTS = 4
MOST_FACTS = 7

DAYS = {
    "en": "{} days",
    "de": "{} Tagen",
    "fr": "{} jours",
    "es": "{} días",
}
MONTHS_AS_TIME = {
    "en": "{} months",
    "de": "{} Monaten",
    "fr": "{} mois",
    "es": "{} meses",
}
MONEY = {
    "en": "{} euros",
    "de": "{} Euro",
    "fr": "{} euros",
    "es": "{} euros",
}
PERCENT = {
    "en": "{} percent",
    "de": "{} Prozent",
    "fr": "{} %",
    "es": "{} %",
}
AGE = {
    "en": "{} years",
    "de": "{} Jahren",
    "fr": "{} ans",
    "es": "{} años",
}
CLOCK = {
    "en": "{}:00",
    "de": "{} Uhr",
    "fr": "{} h",
    "es": "las {}:00",
}
UNITS = {
    "days": (DAYS, (3, 5, 7, 8, 10, 14, 15, 20, 21, 28, 30, 45, 60, 90)),
    "months": (MONTHS_AS_TIME, (2, 3, 4, 6, 9, 12, 18, 24, 36)),
    "money": (
        MONEY,
        (15, 25, 40, 50, 80, 120, 150, 200, 250, 300, 450, 500, 750, 1200, 2500, 5000),
    ),
    "percent": (PERCENT, (2, 3, 5, 10, 12, 15, 20, 25, 30, 40, 50, 60, 75, 80, 90)),
    "age": (AGE, (14, 16, 18, 21, 25, 27, 30, 60, 65, 67, 70)),
    "clock": (CLOCK, (7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 22)),
}  # fmt: skip


@dataclass(frozen=True)
class Forms:
    """How one language says a fact.

    `says` and `asks` have {o} for the object and {v} for the value or the role. `denies` says the
    opposite of `says`, where a fact has no value. Each row of `limits` says a limit twice: right,
    and turned round.
    """

    objects: tuple[str, ...]
    says: tuple[str, ...]
    asks: tuple[str, ...]
    denies: tuple[str, ...] = ()
    limits: tuple[tuple[str, str], ...] = ()
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Family:
    """Facts of one kind: with a value of a unit, with a role, or with yes or no."""

    unit: str
    forms: dict[str, Forms] = field(default_factory=dict)


def read_table() -> dict[str, Any]:
    """Read rules.toml, which has the words of all facts."""
    return tomllib.loads(Path(__file__).with_name("rules.toml").read_text(encoding="utf-8"))


def read_forms(table: Mapping[str, Any]) -> Forms:
    fields = {name: tuple(values) for name, values in table.items()}
    fields["limits"] = tuple(map(tuple, table.get("limits", ())))
    return Forms(**fields)


_TABLE = read_table()
FAMILIES = tuple(
    Family(family["unit"], {name: read_forms(forms) for name, forms in family["forms"].items()})
    for family in _TABLE["family"]
)
FILLERS: dict[str, list[str]] = _TABLE["fillers"]
PREFIXES: dict[str, list[str]] = _TABLE["prefixes"]
JOINTS = {"en": ", and ", "de": ", und ", "fr": ", et ", "es": ", y "}
FILLER_SHARE = 0.5
YES_SHARE = 0.5
JOINED_SHARE = 0.4


@dataclass(frozen=True)
class Fact:
    """One fact of a text. `value` is the written value or role; None if it is yes or no."""

    language: str
    family: Family
    object: str
    value: str | None
    is_yes: bool = True

    @property
    def forms(self) -> Forms:
        return self.family.forms[self.language]

    def say(self, rng: random.Random) -> str:
        patterns = self.forms.says
        if not self.is_yes:
            patterns = self.forms.denies
        return capitalised(self._fill(rng.choice(patterns)))

    def ask(self, rng: random.Random) -> str:
        return capitalised(self._fill(rng.choice(self.forms.asks)))

    def say_limit(self, rng: random.Random, *, turned: bool) -> str:
        """Say the limit as it is, or turned round: at most in place of at least."""
        right, wrong = rng.choice(self.forms.limits)
        return capitalised(self._fill(wrong if turned else right))

    def _fill(self, pattern: str) -> str:
        text = pattern.format(o=self.object, v=self.value)
        if self.language == "es":
            text = text.replace(" de el ", " del ")
        return text


def capitalised(text: str) -> str:
    """Begin with a capital letter; a question mark turned round stays before it."""
    start = 1 if text.startswith("¿") else 0
    return text[:start] + text[start : start + 1].upper() + text[start + 1 :]


def draw_value(family: Family, language: str, rng: random.Random) -> str | None:
    if family.unit == "bool":
        return None
    if family.unit == "role":
        return rng.choice(family.forms[language].values)
    pattern, numbers = UNITS[family.unit]
    return pattern[language].format(rng.choice(numbers))


class RuleText:
    """A text of facts, of which several are of one family, so that values can be swapped."""

    def __init__(self, rng: random.Random, language: str) -> None:
        self._rng = rng
        self.language = language
        count = rng.randint(FEWEST_FACTS, MOST_FACTS)
        families = rng.sample(FAMILIES, rng.choice((1, 2, 2, 3)))
        facts: list[Fact] = []
        for number in range(count):
            family = families[number % len(families)]
            fact = self._draw(family, facts)
            facts.append(fact)
        self.facts: tuple[Fact, ...] = tuple(facts)
        self._sentences = [fact.say(rng) for fact in facts]
        filler = rng.choice(FILLERS[language]).format(y=rng.randint(2005, 2029))
        self._filler: list[str] = []
        if rng.random() < FILLER_SHARE:
            self._filler = [filler]

    def _draw(self, family: Family, facts: Sequence[Fact]) -> Fact:
        """A new fact: another object, and another value, than those of its family."""
        others = [fact for fact in facts if fact.family is family]
        forms = family.forms[self.language]
        free = [o for o in forms.objects if o not in {fact.object for fact in others}]
        taken = {fact.value for fact in others}
        value = draw_value(family, self.language, self._rng)
        while value is not None and value in taken:
            value = draw_value(family, self.language, self._rng)
        is_yes = family.unit != "bool" or self._rng.random() < YES_SHARE
        return Fact(self.language, family, self._rng.choice(free), value, is_yes)

    def text(self, without: Fact | None = None) -> str:
        """The text, without the sentence of one fact."""
        sentences = [
            sentence
            for fact, sentence in zip(self.facts, self._sentences, strict=True)
            if fact is not without
        ]
        return " ".join(self._filler + sentences)

    def sentence(self, fact: Fact) -> str:
        return self._sentences[self.facts.index(fact)]

    def neighbours(self, fact: Fact) -> list[Fact]:
        return [f for f in self.facts if f.family is fact.family and f is not fact]

    def strange_value(self, fact: Fact) -> str:
        """A value that no fact of this family has."""
        taken = {f.value for f in self.facts if f.family is fact.family}
        while True:
            value = draw_value(fact.family, self.language, self._rng)
            if value not in taken:
                return str(value)

    def claim(self, facts: Sequence[Fact]) -> str:
        """Say facts in words that may differ from the text's."""
        said = [fact.say(self._rng) for fact in facts]
        if self._rng.random() < JOINED_SHARE:
            joint = JOINTS[self.language]
            return said[0].rstrip(".") + "".join(joint + self._lowered(s) for s in said[1:])
        prefix = self._rng.choice(PREFIXES[self.language])
        if prefix.endswith(", "):
            said[0] = self._lowered(said[0])
        return prefix + " ".join(said)

    def _lowered(self, sentence: str) -> str:
        if self.language == "de":
            return sentence
        return sentence[0].lower() + sentence[1:]
