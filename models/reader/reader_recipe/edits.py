"""Changes of a sentence: some keep what it says, some do not."""

import random
import re
from itertools import pairwise

MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
NUMBER_WORDS = [
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]
OPPOSITES = (
    ("first", "last"), ("before", "after"), ("more", "less"), ("most", "least"),
    ("largest", "smallest"), ("larger", "smaller"), ("higher", "lower"), ("highest", "lowest"),
    ("increased", "decreased"), ("increase", "decrease"), ("rose", "fell"), ("won", "lost"),
    ("north", "south"), ("east", "west"), ("northern", "southern"), ("eastern", "western"),
    ("male", "female"), ("men", "women"), ("young", "old"), ("early", "late"), ("older", "younger"),
    ("above", "below"), ("began", "ended"), ("same", "different"), ("always", "never"),
    ("all", "none"), ("many", "few"), ("often", "rarely"), ("strong", "weak"), ("long", "short"),
    ("major", "minor"), ("public", "private"), ("accepted", "rejected"), ("supported", "opposed"),
    ("success", "failure"), ("successful", "unsuccessful"), ("possible", "impossible"),
    ("inside", "outside"), ("best", "worst"), ("better", "worse"), ("rich", "poor"),
    ("ancient", "modern"), ("allowed", "forbidden"), ("gained", "lost"), ("left", "joined"),
    ("father", "son"), ("mother", "daughter"), ("brother", "sister"), ("husband", "wife"),
    ("king", "queen"), ("hot", "cold"), ("wet", "dry"), ("expensive", "cheap"),
)  # fmt: skip
SYNONYMS = (
    ("began", "started"), ("large", "big"), ("near", "close to"), ("about", "roughly"),
    ("however", "but"), ("also", "as well"), ("many", "numerous"), ("because", "since"),
    ("while", "whereas"), ("built", "constructed"), ("created", "made"),
    ("important", "significant"),
    ("children", "kids"), ("received", "got"), ("often", "frequently"), ("several", "a number of"),
    ("main", "principal"), ("located", "situated"), ("such as", "like"), ("used", "employed"),
    ("usually", "normally"), ("help", "assist"), ("died", "passed away"), ("ended", "finished"),
    ("around", "approximately"), ("required", "needed"), ("shown", "demonstrated"),
    ("although", "though"), ("further", "additional"), ("obtained", "gained"), ("within", "inside"),
    ("known as", "called"), ("became", "turned into"), ("purchased", "bought"),
    ("wrote", "authored"),
    ("film", "movie"), ("rapidly", "quickly"), ("entire", "whole"), ("due to", "because of"),
    ("century", "hundred-year period"), ("prior to", "before"), ("in order to", "to"),
    ("percent", "%"), ("United States", "US"), ("United Kingdom", "UK"), ("approximately", "about"),
)  # fmt: skip
AUXILIARIES = [
    "was",
    "were",
    "is",
    "are",
    "has",
    "had",
    "can",
    "could",
    "will",
    "would",
    "did",
    "does",
    "do",
    "may",
    "might",
    "must",
    "should",
]

YEARS_END = 2100  # below, numbers change by little
SHORTEST_NAME = 4
SHORTEST_REST = 40

_NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?![\w])")
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-zA-Z'-]+(?: [A-Z][a-zA-Z'-]+)*")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9])")
_ABBREVIATION = re.compile(r"(?:\b[A-Z]|\b(?:Mr|Mrs|Ms|Dr|St|Jr|Sr|vs|No|etc|e\.g|i\.e|c|ca))\.$")


def split_sentences(text: str) -> list[str]:
    """Split at sentence ends by rules: good enough for generating rows, not for judging."""
    text = " ".join(text.split())
    sentences: list[str] = []
    start = 0
    for match in _SENTENCE_END.finditer(text):
        if _ABBREVIATION.search(text[start : match.start()]):
            continue
        sentences.append(text[start : match.end()].strip())
        start = match.end()
    sentences.append(text[start:].strip())
    return [sentence for sentence in sentences if sentence]


def names(text: str) -> list[str]:
    """Capitalised words inside sentences: mostly proper names."""
    matches: list[str] = _NAME.findall(text)
    return matches


def _chance(rng: random.Random, share: float) -> bool:
    return rng.random() < share


# Changes of the meaning. Each returns None if it does not apply.


def change_number(sentence: str, context: str, rng: random.Random) -> str | None:
    matches = list(_NUMBER.finditer(sentence))
    if not matches:
        return None
    match = rng.choice(matches)
    old = match.group()
    digits = old.replace(",", "")
    others: list[str] = [number for number in _NUMBER.findall(context) if number != old]
    same_length = [number for number in others if len(number) == len(old)]
    if same_length and _chance(rng, 0.5):
        new = rng.choice(same_length)
    elif "." in digits:
        new = f"{float(digits) * rng.choice([0.5, 0.8, 1.3, 2.0]):.1f}"
    else:
        value = int(digits)
        step = (
            rng.choice([1, 2, 3, 5, 10])
            if value < YEARS_END
            else max(1, value // rng.randint(2, 9))
        )
        new_value = value + step if _chance(rng, 0.5) or value <= step else value - step
        new = f"{new_value:,}" if "," in old else str(new_value)
    if new == old:
        return None
    return sentence[: match.start()] + new + sentence[match.end() :]


def _replace_word(sentence: str, old: str, new: str) -> str | None:
    pattern = re.compile(rf"\b{re.escape(old)}\b")
    if not pattern.search(sentence):
        return None
    replaced: str = pattern.sub(new, sentence, count=1)
    return replaced


def change_word(sentence: str, context: str, rng: random.Random) -> str | None:
    """Exchange a word for its opposite, a month for another, a number word for another."""
    pairs = list(OPPOSITES) + [(new, old) for old, new in OPPOSITES]
    pairs += [(month, rng.choice([m for m in MONTHS if m != month])) for month in MONTHS]
    pairs += [(word, rng.choice([w for w in NUMBER_WORDS if w != word])) for word in NUMBER_WORDS]
    present = [pair for pair in pairs if re.search(rf"\b{pair[0]}\b", sentence)]
    if not present:
        return None
    old, new = rng.choice(present)
    return _replace_word(sentence, old, new)


def change_name(sentence: str, context: str, rng: random.Random) -> str | None:
    """Exchange a name for another one of the context that the sentence lacks."""
    here = names(sentence)
    others = [
        name for name in names(context) if name not in sentence and len(name) >= SHORTEST_NAME
    ]
    if not here or not others:
        return None
    old = rng.choice(here)
    new: str = rng.choice(others)
    return sentence.replace(old, new, 1)


def swap_names(sentence: str, context: str, rng: random.Random) -> str | None:
    """Exchange two names of the sentence, if a verb stands between them."""
    here = names(" , " + sentence)
    if not here[1:]:
        return None
    first, second = sorted(rng.sample(here, 2), key=sentence.find)
    if first in second or second in first:
        return None
    between = sentence[sentence.find(first) : sentence.find(second)]
    if not any(
        f" {verb} " in between for verb in [*AUXILIARIES, "than", "by", "to", "from", "over"]
    ):
        return None
    marker = "\0"
    return sentence.replace(first, marker, 1).replace(second, first, 1).replace(marker, second, 1)


def negate(sentence: str, context: str, rng: random.Random) -> str | None:
    if " not " in sentence and _chance(rng, 0.8):
        return sentence.replace(" not ", " ", 1)
    present = [verb for verb in AUXILIARIES if f" {verb} " in sentence]
    if not present:
        return None
    verb = min(present, key=sentence.find)
    return sentence.replace(f" {verb} ", f" {verb} not ", 1)


def swap_numbers(sentence: str, context: str, rng: random.Random) -> str | None:
    """Exchange two neighbouring numbers of the sentence."""
    matches = list(_NUMBER.finditer(sentence))
    pairs = [
        (first, second) for first, second in pairwise(matches) if first.group() != second.group()
    ]
    if not pairs:
        return None
    first, second = rng.choice(pairs)
    between = sentence[first.end() : second.start()]
    start = sentence[: first.start()]
    return f"{start}{second.group()}{between}{first.group()}{sentence[second.end() :]}"


def take_number(sentence: str, context: str, rng: random.Random) -> str | None:
    """Put a number of the context, of like form, in the place of a number of the sentence."""
    matches = list(_NUMBER.finditer(sentence))
    if not matches:
        return None
    match = rng.choice(matches)
    others: list[str] = [
        number
        for number in _NUMBER.findall(context)
        if len(number) == len(match.group()) and number not in sentence
    ]
    if not others:
        return None
    return sentence[: match.start()] + rng.choice(others) + sentence[match.end() :]


PRECISE_CHANGES = (swap_numbers, take_number, swap_names, change_word, negate)


def change_precisely(sentence: str, context: str, rng: random.Random) -> str | None:
    """Swap values or roles, negate, or turn a word round; None if nothing applies."""
    for edit in rng.sample(PRECISE_CHANGES, len(PRECISE_CHANGES)):
        changed = edit(sentence, context, rng)
        if changed is not None and changed not in context:
            return changed
    return None


CHANGES = (change_number, change_number, change_name, change_name, swap_names, change_word, negate)


def change(sentence: str, context: str, rng: random.Random) -> str | None:
    """A sentence that says something else, or None if no change applies."""
    for edit in rng.sample(CHANGES, len(CHANGES)):
        changed = edit(sentence, context, rng)
        if changed is not None and changed not in context:
            return changed
    return None


# Changes that keep what is said


def use_synonyms(sentence: str, rng: random.Random) -> str | None:
    present = [pair for pair in SYNONYMS if re.search(rf"\b{re.escape(pair[0])}\b", sentence)]
    if not present:
        return None
    for old, new in rng.sample(present, min(2, len(present))):
        sentence = _replace_word(sentence, old, new) or sentence
    return sentence


def drop_part(sentence: str, rng: random.Random) -> str | None:
    """Drop brackets, a leading adverbial, or the part after the last comma."""
    without_brackets = re.sub(r"\s*\([^)]*\)", "", sentence)
    if without_brackets != sentence:
        return without_brackets
    leading = re.match(
        r"(?:However|Therefore|Thus|In addition|Moreover|Also|Then|Later|Today), ", sentence
    )
    if leading:
        rest = sentence[leading.end() :]
        return rest[0].upper() + rest[1:]
    clause = re.search(
        r", (?:and|but|which|who|while|where|although|including|with) [^,]*\.$", sentence
    )
    if clause and clause.start() > SHORTEST_REST:
        return sentence[: clause.start()] + "."
    return None


def move_time(sentence: str, rng: random.Random) -> str | None:
    """Move the time: `In 1990, it closed.` becomes `It closed in 1990.`."""
    match = re.match(
        r"((?:In|On|By|During|At|After|Before|From|Since) [^,]{3,40}), (.+)\.$", sentence
    )
    if not match or "," in match[2]:
        return None
    rest = match[2]
    return f"{rest[0].upper()}{rest[1:]} {match[1][0].lower()}{match[1][1:]}."


def write_differently(sentence: str, rng: random.Random) -> str | None:
    """Spell it differently: no commas in thousands, lower case, no full stop, other short forms."""
    without_commas = re.sub(r"(?<=\d),(?=\d{3})", "", sentence)
    if without_commas != sentence:
        return without_commas
    short = re.sub(r"\b(was|is|were|did|does|do|has|had|would|could) not\b", r"\1n't", sentence)
    if short != sentence:
        return short
    if _chance(rng, 0.3):
        return sentence.lower().rstrip(".")
    return None


def reword(sentence: str, rng: random.Random) -> str:
    """The sentence in other words where rules allow it, else as it stands."""
    for edit in rng.sample((use_synonyms, drop_part, move_time, write_differently), 4):
        if _chance(rng, 0.75):
            sentence = edit(sentence, rng) or sentence
    return sentence
