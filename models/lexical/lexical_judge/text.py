"""Text as the judge reads it: normalised, cut into tokens, with classes of words.

    "Été 1889: 1,000 km² in the U.S."     ->  "ete 1889 :  1000 km2 in the usa "         Normaliser
    "▁" + word, cut as cheaply as can be   "parishioner" -> "▁parish" "ion" "er"         Tokenizer
    designed, designing, designs -> design;   built -> build;   two -> 2;   percent -> %     stem

The first two mirror llama.cpp's unigram tokenizer, which applies a table of replacements that comes
in the model file, always the longest entry that fits. So the table is the judge's own. It is
committed, because the Unicode database that it is derived from changes with the version of Python;
only replacements that follow a pattern of digits are made here. Of equal cuts, the one with the
longest last piece is taken; a character that the vocabulary lacks becomes the unknown token, and
the rest of the word stays. Words of one class get the same identity, so that another form of a word
matches as well as the word itself.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from pathlib import Path

SPACE = "▁"
VOWELS = frozenset("aeiouy")
_UNKNOWN_PENALTY = 10.0
_SHORTEST_STEM = 3
_SHORTEST_ROOT = 4
_DERIVATIONS = """
ization isation ational ation ations ition itions ement ements ment ments ity ities ion ions
ance ances ence ences ing ings er ers or ors ist ists ism isms ive ives ness al als
ical ic ics ous able ible ian ians ant ants ent ents
ful ary ory age ure y i
"""
_EQUIVALENTS = Path(__file__).resolve().parents[1] / "equivalents.txt"
_LONGEST_FIRST = sorted(_DERIVATIONS.split(), key=lambda suffix: (-len(suffix), suffix))


def _read_classes() -> dict[str, str]:
    """Return the first form of each class of equivalent words, by form."""
    classes: dict[str, str] = {}
    for line in _EQUIVALENTS.read_text(encoding="utf-8").splitlines():
        head, _, forms = line.partition(": ")
        for form in (head, *forms.split()):
            classes[form] = head
    return classes


_CLASS_OF = _read_classes()


def load_table(path: Path) -> dict[str, str]:
    """The whole table: what is committed, and the thousands."""
    table = dict(_thousands())
    for line in path.read_text(encoding="ascii").splitlines():
        text, _, replacement = line.partition("\t")
        table[_text(text)] = _text(replacement)
    return table


class Normaliser:
    """Applies a table of replacements, the longest entry first: a mirror of llama.cpp's."""

    def __init__(self, table: Mapping[str, str]) -> None:
        self._table = table
        lengths: dict[str, set[int]] = {}
        for text in table:
            lengths.setdefault(text[0], set()).add(len(text))
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}

    def words(self, text: str) -> list[str]:
        """The words of a text, normalised."""
        return self._normalised(text).split(" ")

    def _normalised(self, text: str) -> str:
        parts = []
        place = 0
        while place < len(text):
            for length in self._lengths.get(text[place], ()):
                replacement = self._table.get(text[place : place + length])
                if replacement is not None:
                    parts.append(replacement)
                    place += length
                    break
            else:
                parts.append(text[place])
                place += 1
        return "".join(parts)


class Tokenizer:
    """Cheapest cuts with the given pieces: their ids and costs by text."""

    def __init__(
        self,
        normaliser: Normaliser,
        ids: Mapping[str, int],
        costs: Mapping[str, float],
        unknown: int,
    ) -> None:
        self._normaliser = normaliser
        self._ids = ids
        self._costs = costs
        self._unknown = unknown
        self._unknown_cost = max(costs.values()) + _UNKNOWN_PENALTY
        self._longest = max(map(len, ids))
        self._known: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text: markers in it stay text."""
        return [
            token for word in self._normaliser.words(text) if word for token in self._word(word)
        ]

    def words(self, text: str) -> list[str]:
        """The normalised words that are cut into tokens."""
        return [word for word in self._normaliser.words(text) if word]

    def _word(self, word: str) -> list[int]:
        if word not in self._known:
            self._known[word] = self._cut(SPACE + word)
        return self._known[word]

    def _cut(self, text: str) -> list[int]:
        cheapest: list[tuple[float, int, int]] = [(0.0, 0, 0)] + [(float("inf"), 0, 0)] * len(text)
        for start in range(len(text)):
            before = cheapest[start][0]
            for end in range(start + 1, min(len(text), start + self._longest) + 1):
                piece = text[start:end]
                if piece in self._ids and before + self._costs[piece] < cheapest[end][0]:
                    cheapest[end] = (before + self._costs[piece], start, self._ids[piece])
            if (
                text[start] not in self._ids
                and before + self._unknown_cost < cheapest[start + 1][0]
            ):
                cheapest[start + 1] = (before + self._unknown_cost, start, self._unknown)
        return self._traced(cheapest)

    def _traced(self, cheapest: list[tuple[float, int, int]]) -> list[int]:
        """Return the pieces in order; a run of unknown characters becomes one token."""
        tokens: list[int] = []
        end = len(cheapest) - 1
        while end:
            _, end, token = cheapest[end]
            if not (token == self._unknown and tokens and tokens[-1] == token):
                tokens.append(token)
        return tokens[::-1]


@cache
def stem(word: str) -> str:
    """Class of a folded word."""
    if word in _CLASS_OF:
        return _CLASS_OF[word]
    if not word.isascii() or not word.isalpha():
        return word
    return _without_derivation(_without_final_e(_without_suffix(word)))


def _without_suffix(word: str) -> str:
    for suffix, replacement in (
        ("sses", "ss"),
        ("ies", "y"),
        ("ied", "y"),
        ("ing", ""),
        ("ed", ""),
        ("ly", ""),
        ("s", ""),
    ):
        if word.endswith(suffix):
            return _stripped(word, suffix, replacement)
    return word


def _stripped(word: str, suffix: str, replacement: str) -> str:
    base = word[: -len(suffix)]
    if len(base) < _SHORTEST_STEM or not VOWELS & set(base):
        return word
    if suffix == "s" and base[-1] in "sui":
        return word
    if suffix == "s" and base.endswith(("xe", "che", "she", "sse", "zze")):
        return base[:-1]
    if suffix in ("ed", "ing"):
        return _undoubled(base)
    return base + replacement


def _undoubled(base: str) -> str:
    doubled = (
        len(base) > _SHORTEST_STEM and base[-1] == base[-2] and base[-1] not in VOWELS | set("lsz")
    )
    return base[:-1] if doubled else base


def _without_final_e(word: str) -> str:
    return (
        word[:-1]
        if len(word) > _SHORTEST_STEM and word.endswith("e") and word[-2] not in VOWELS
        else word
    )


def _without_derivation(word: str) -> str:
    for suffix in _LONGEST_FIRST:
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_ROOT:
            return word[: -len(suffix)]
    return word


def _thousands() -> Iterator[tuple[str, str]]:
    """A comma before exactly three digits joins them to the number; before four it does not."""
    for digits in product("0123456789", repeat=3):
        yield "," + "".join(digits), "".join(digits)
    for digits in product("0123456789", repeat=4):
        yield "," + "".join(digits), " , " + "".join(digits)


def _text(codes: str) -> str:
    return "".join(chr(int(code, 16)) for code in codes.split())
