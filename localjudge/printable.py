r"""Text from data, made safe to print: no user text can write a control sequence to the terminal.

    "a\x1b[2Jb\u202ec"   ->   "a\\x1b[2Jb\\u202ec"

Replaced by escapes: control characters (C0, C1, DEL: they clear screens and set titles), characters that change the
writing direction (they make text read as something else), line and paragraph separators, and lone surrogates (they
cannot be encoded). Everything else, all scripts and emoji, is left as it is.
"""

import re

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""The text on one line, with a visible escape (`\n`, `\x1b`, `\u202e`) for what would act on the terminal."""
    return _UNSAFE.sub(lambda match: match.group().encode("unicode_escape", "surrogatepass").decode(), text)


def printable_lines(text: str) -> str:
    """As `printable`, but the text keeps its own lines."""
    return "\n".join(map(printable, text.split("\n")))


def numbered(count: int, noun: str) -> str:
    """A number of things: `1 sample`, `2,318 samples`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
