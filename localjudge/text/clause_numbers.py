r"""Find the number of a clause, which is no sentence: it belongs to the clause after it.

1.1. The buyer pays.    § 1.1. The    **II.3.** The    Art. 5. The    1.\nOpen the door.
"""

import re

from localjudge.text.languages import Conventions

LETTER = r"(?:[^\W\d_]|[\u0900-\u0963\u0970-\u0dff])"
"""A letter, or a vowel sign of the scripts of India."""
_LEVEL = r"(?:\d{1,2}[a-z]?|[a-z]|[ivxIVX]{1,4})"
CLAUSE_NUMBER = (
    rf"(?=[\w.٫]*\d|[IVX]{{2}})(?:\d{{1,3}}[a-z]?|[IVXLC]{{1,7}}|[A-Z])(?:[.٫]{_LEVEL})+"
)
"""Pattern of a number with two levels or more: "1.1", "II.3", "A.1", "1.a"."""
_PARAGRAPH = r"[§№#]{1,2}\s?"
_OPENING = r"[\s*_`\"'“‘«(\[{>•–—-]*(?:#{1,6}\s+)?[*_]*"
_CLOSING = r"[*_`\"'”’»)\]}]*"
_LONE_NUMBER = re.compile(
    rf"{_OPENING}(?:{_PARAGRAPH})?{CLAUSE_NUMBER}{_CLOSING}\.{_CLOSING}"
    rf"|{_OPENING}{_PARAGRAPH}\d{{1,3}}(?:[-–]\d{{1,3}})?{_CLOSING}\.?{_CLOSING}"
)
_NUMBER_ON_A_LINE = re.compile(rf"{_OPENING}\d{{1,3}}[.)]{_CLOSING}[ \t]*(?:\r\n|[\n\r])[ \t]*")
_LABEL = re.compile(
    rf"{_OPENING}(?P<word>{LETTER}+)(?P<stop>\.?)\s?"
    rf"(?:{CLAUSE_NUMBER}|\d{{1,3}}|(?P<roman>[IVXLC]{{1,7}})){_CLOSING}\.{_CLOSING}"
)
_MAX_CHARACTERS = 60


def is_number_of_next(text: str, conventions: Conventions) -> bool:
    """Return whether the text before a sentence is only the number of this sentence."""
    if len(text) > _MAX_CHARACTERS:
        return False
    if _NUMBER_ON_A_LINE.fullmatch(text):
        return True
    bare = text.strip()
    if _LONE_NUMBER.fullmatch(bare):
        return True
    label = _LABEL.fullmatch(bare)
    return label is not None and _names_part(label, conventions)


def _names_part(label: re.Match[str], conventions: Conventions) -> bool:
    """Return whether a word takes the number after it: "Step 2.", "Art. 5.", "Article II."."""
    word = label["word"]
    if label["roman"]:
        return word.lower() in conventions.clauses
    if label["stop"]:
        return word in conventions.before_number
    return not word.islower() and word.lower() in conventions.lettered
