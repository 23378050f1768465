r"""Find displayed formulas. Each is a part of the sentence around it.

    The area is given by\n$$A = \pi r^2$$\nwhere $r$ is the radius.     one sentence
    \[ A = \pi r^2 \]    \begin{equation} ... \end{equation}            other forms
    The area is:\n$$A = \pi r^2$$\nIt grows with $r$.                   the second line ends one

Code is no formula. Everything here keeps offsets.
"""

import re
from collections.abc import Collection, Iterator

from localjudge.text.lines import Range
from localjudge.text.markup import code_ranges, overlaps

_ENVIRONMENTS = "equation|align|alignat|flalign|gather|multline|eqnarray|displaymath|math"
_FORMS = (
    r"(?<![\\$])\$\$(?!\$)(?:\\\$|[^$]){1,2000}?\$\$(?!\$)",  # $$ ... $$
    # \[ ... \], but not the mark \[1\]
    r"(?<!\\)\\\[(?![\d\s,;–-]*\\\])(?:(?!(?<!\\)\\\[).){1,2000}?(?<!\\)\\\]",
    # \begin{align} ... \end{align}
    rf"\\begin\{{(?P<name>(?:{_ENVIRONMENTS})\*?)\}}.{{1,2000}}?\\end\{{(?P=name)\}}",
    # [ a = b ] on a separate line
    r"^[ \t]*\[[ \t][^\[\]\n]{0,500}[=\\][^\[\]\n]{0,500}[ \t]\][ \t]*$",
)
_FORMULA = re.compile("|".join(_FORMS), re.DOTALL | re.MULTILINE)
_MATHS = re.compile(r"[=\\^_+*/<>|≤≥≈∈→−-]|^\s*\S+\s*$")
_BLANK_LINE = re.compile(r"\n\s*\n")
_ENDED = re.compile(r"[.!?…。！？।۔؟][\"'”’»)\]*_]*\Z")
_STOP_INSIDE = re.compile(r"[.!?](?=\s*(?:\$\$|\\\]|\\end\{[^{}]*\}|\])?\Z)")
_HEADING = re.compile(r"\s*(?:#{1,6}\s|\||```|~~~|\*\*[^*]*\*\*\s*\Z)")
_CONTINUING = ",;:.!?)，。；、"


def formula_ranges(text: str) -> list[Range]:
    """Return the displayed formulas in order."""
    if "$$" not in text and "\\" not in text and "[ " not in text:
        return []
    code = code_ranges(text)
    formulas = []
    for match in _FORMULA.finditer(text):
        is_formula = _MATHS.search(match[0][2:-2]) and not _BLANK_LINE.search(match[0])
        if is_formula and not overlaps(code, *match.span()):
            formulas.append(Range(*match.span()))
    return formulas


def join_formulas(text: str, continuing: Collection[str]) -> str:
    """Return a text of the same length where a formula is a word of the sentence around it.

    A sentence goes on after a formula with a small letter or with a word in `continuing`.
    """
    formulas = formula_ranges(text)
    if not formulas:
        return text
    parts: list[str] = []
    position = 0
    for formula in formulas:
        before = text[position : formula.start]
        gap_start = formula.start - (len(before) - len(before.rstrip()))
        above = text[text.rfind("\n", 0, gap_start) + 1 : gap_start]
        parts.append(text[position:gap_start])
        gap = text[gap_start : formula.start]
        if any(map(str.isalnum, above)) and not (_ENDED.search(above) or _HEADING.match(above)):
            gap = " " * len(gap)
        position = formula.end
        while position < len(text) and text[position].isspace():
            position += 1
        parts += [gap, *_as_word(text, formula, position, continuing)]
    return "".join([*parts, text[position:]])


def _as_word(
    text: str, formula: Range, following: int, continuing: Collection[str]
) -> Iterator[str]:
    """Yield the word for a formula, and the gap after it."""
    gap = text[formula.end : following]
    length = formula.end - formula.start
    word = "X".ljust(length, "x")
    if _goes_on(text, following, continuing):
        yield word
        yield " " * len(gap)
        return
    if "\n" in gap or _STOP_INSIDE.search(text, formula.start, formula.end):
        word = word[:-1] + "."
    yield word
    yield gap


def _goes_on(text: str, start: int, continuing: Collection[str]) -> bool:
    """Return whether the sentence of a formula goes on at a position after it."""
    ahead = text[start : start + 40].casefold()
    if not ahead:
        return False
    if text[start].islower() or text[start] in _CONTINUING or _FORMULA.match(text, start):
        return True
    return any(re.match(rf"{re.escape(word)}(?![a-z])", ahead) for word in continuing)
