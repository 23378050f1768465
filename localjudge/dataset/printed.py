r"""Read lists and objects that are stored as text, and recognise those that cannot be read.

JSON and Python's notation are read; Python itself parses the latter (`ast.literal_eval`):

    ["one", "two"]      ['one', 'two']      ('one', 'two')      [{'text': 'one'}]

Other programs print lists that neither reads. Counted as one context, they would give another
score:

    [Document(page_content='one'), ...]     LangChain, Haystack, LlamaIndex: any object in brackets
    ['one' 'two']     [array(['one'])]      NumPy; Python would join the first into one text
    {"one","two"}                           a set, PostgreSQL
    [One sentence.,Another sentence.]       texts without quotes

Prose may begin with a bracket, too:

    [REDACTED]    [1] A footnote.    (see below)    ["Company"] means ...    [[Wiki page]]
    [text](address)
"""

import ast
import re
from typing import Any

from localjudge.dataset.rows import DECODER

_CLOSERS = {"[": "]", "(": ")", "{": "}"}
_QUOTED_OPENERS = {f"{quote}{opener}" for quote in "'\"" for opener in _CLOSERS}
_STRING = re.compile(
    r"""(?<!\w)u?(?:'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*")""",
    re.DOTALL,
)
_LITERALS_ONLY = re.compile(r"(?:[\[\](){},:\s\d.+\-']|[eE]|None|True|False)*+")
_JOINED_STRINGS = re.compile(r"''\s*''")
_PRINTED_ESCAPES = re.compile(
    r"(?:[^\\]|\\(?:[\\'\"abfnrtv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}"
    r"|U00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4}))*+",
    re.DOTALL,
)
_OPENERS = re.compile(r"[\[({\s]+")
_CALL = re.compile(r"<?[A-Za-z_][\w.]*\(\s*(?:\w+\s*[=:]|['\"\[{(<]|[\w.]+\()")
_ADDRESS = re.compile(r"<[\w. ]+ at 0x[0-9a-fA-F]+>|<[\w.]+: [\[{]")
_AFTER_COMMA = re.compile(r"""u?['"\[({<]|[\w.]+\(|\.\.\.|None\b|nan\b|-?\d|[\])}]|$""")
_QUOTED_PAIR = re.compile(r"""['"]\s*,\s*u?['"]""")
_QUOTED_END = re.compile(r"""['"]\s*[\])]$""")
_NEXT_LIST = re.compile(r"\s*(?:,\s*[\[({]|\[|\{)")
_BETWEEN_LISTS = re.compile(r"\]\s*,\s*\[")
_OBJECT_KEYS = r"(?:text|content|page_content|id|metadata|meta|score)"
_FIRST_KEY = re.compile(rf"""\{{\s*['"]{_OBJECT_KEYS}['"]\s*:""")
_DOCUMENT = re.compile(
    r"page_content=['\"]|<?(?:[\w.]+\.)?(?:[A-Z]\w*|defaultdict|namespace)\("
    r".*\b(?:page_content|content|text|payload)(?:['\"]?\s*[=:]|['\"],)",
    re.DOTALL,
)
_NODE = re.compile(r"(?:Node|Doc) ID: \S+\s*\nText: ")
_FIELDS = re.compile(
    r"\w+=(?:['\"{\[]|None |[\d.]+ ).*\b(?:page_content|content|text|payload)=['\"{]"
    r"|(?:content|text)=(['\"]).*\1 \w+=",
    re.DOTALL,
)
"""Documents as LlamaIndex prints them, and the fields of an object without its class."""
_ARRAY = re.compile(
    r"(?:\w+\.)*(?:array|ndarray|deque|Series|Index|tensor|set|frozenset|o?dict_values)\(\s*[\[({]",
)
_SERIES_END = re.compile(r"\n(?:Name: [^\n]*, )?(?:Length: \d+, )?dtype: \w+$")
_SENTENCE_AND_COMMA = re.compile(r"""(?<=[.!?。！？])["'”’)]*\s*,\s*""")
_LETTER_COMMA_LETTER = re.compile(r"[^\W\d_],[^\W\d_]")
_MIN_WORDS = 3
_CJK = re.compile("[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")


def parse_printed(text: str) -> list[Any] | dict[str, Any] | None:
    """Parse a list, a tuple or an object in JSON or Python notation, also if it is printed twice.

    Return None for other text, and for an object with a repeated key.
    """
    text = text.strip()
    if text[:1] not in _CLOSERS and text[:2] not in _QUOTED_OPENERS:
        return None
    try:
        value = DECODER.decode(text)
    except (ValueError, RecursionError):
        value = _parse_python(text)
    if isinstance(value, str):  # printed twice
        return parse_printed(value)
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, list | dict):
        return value
    return None


def _parse_python(text: str) -> Any:
    """Return None for text that Python does not print: joined strings, names, other escapes, and
    objects with a repeated key.
    """
    outside_strings = _STRING.sub("''", text)
    if not _LITERALS_ONLY.fullmatch(outside_strings) or _JOINED_STRINGS.search(outside_strings):
        return None
    if not _PRINTED_ESCAPES.fullmatch(text):
        return None
    try:
        tree = ast.parse(text, mode="eval")
        for node in ast.walk(tree):
            if isinstance(node, ast.Dict):
                keys = {ast.literal_eval(key) for key in node.keys if key is not None}
                if len(keys) < len(node.keys):
                    return None
        return ast.literal_eval(tree)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


def looks_printed(text: str) -> bool:
    """Return whether a program printed several contexts, or one object, as this text.

    `parse_printed` cannot read it.
    """
    text = text.strip()
    if looks_like_document(text) or _SERIES_END.search(text):
        return True
    if _ARRAY.match(text) and text.endswith(")"):
        return True
    if text[:1] not in _CLOSERS:
        return False
    openers = _OPENERS.match(text)
    inside = text[openers.end() :] if openers else ""
    if inside[:1] in {"'", '"'} or inside[:2] in {"u'", 'u"'}:
        return _looks_like_quoted_list(text, inside)
    if _CALL.match(inside) or _ADDRESS.match(inside):
        return _is_whole_or_cut_off(text)
    return text.startswith("[") and _looks_like_bare_list(text)


def looks_like_document(text: str) -> bool:
    """Return whether the text is a document printed by LangChain, Haystack or another program.

    Others print an object without content.
    """
    if text.startswith("page_content=") or _NODE.match(text) or _FIELDS.match(text):
        return True
    if _FIRST_KEY.match(text) and parse_printed(text) is None:
        return True
    if _ADDRESS.match(text) and text.endswith(">"):
        return True
    return text.endswith((")", ")>")) and bool(_DOCUMENT.match(text))


def _looks_like_quoted_list(text: str, inside: str) -> bool:
    end = _closing_position(_STRING.sub(_mask, text))
    if end is not None and end < len(text) - 1:
        return _NEXT_LIST.match(text, end + 1) is not None
    if text[0] == "{":
        first = _STRING.match(inside)
        rest = inside[first.end() :].lstrip() if first else ""
        if rest.startswith(":"):
            return _FIRST_KEY.match(text) is not None
        return rest.startswith((",", "}"))
    if text[0] == "(":
        return text.endswith(")") and _QUOTED_PAIR.search(text) is not None
    first = _STRING.match(inside)
    if first is None:
        return "]" not in text or _QUOTED_PAIR.search(text) is not None
    return _continues_list(inside[first.end() :].lstrip())


def _continues_list(rest: str) -> bool:
    """Whether this may follow the first text of a list."""
    if rest.startswith(","):
        return _AFTER_COMMA.match(rest[1:].lstrip()) is not None
    if not rest or rest.startswith(("'", '"', ":", "]", ")", "}", "...")):
        return True
    return _QUOTED_END.search(rest) is not None  # a quote inside a text: ['the tower's top', 'b']


def _is_whole_or_cut_off(text: str) -> bool:
    """Return whether the first bracket closes at the end, or never, or another list follows."""
    last = len(text) - 1
    for masked in (text, _STRING.sub(_mask, text)):
        end = _closing_position(masked)
        if end in {None, last} or (end is not None and _NEXT_LIST.match(text, end + 1)):
            return True
    return False


def _looks_like_bare_list(text: str) -> bool:
    """Return whether the text is a list without quotes, of sentences or of unseparated words."""
    if _closing_position(text) != len(text) - 1:
        return False
    content = text[1:-1].strip().rstrip(",")
    if content.startswith("["):
        return _BETWEEN_LISTS.search(content) is not None
    without_brackets = re.sub(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}", "", content)
    if _LETTER_COMMA_LETTER.search(without_brackets):
        return True
    parts = _SENTENCE_AND_COMMA.split(content)
    for part in parts:
        is_long = len(part.split()) >= _MIN_WORDS or _CJK.search(part) is not None
        if part[:1].islower() or not is_long:
            return False
    return len(parts) > 1


def _mask(match: re.Match[str]) -> str:
    return "_" * len(match.group())


def _closing_position(text: str) -> int | None:
    """Return the position of the bracket that closes the first one, or None if none does."""
    opener = text[0]
    depth = 0
    for match in re.finditer(rf"[{re.escape(opener + _CLOSERS[opener])}]", text):
        depth += 1 if match.group() == opener else -1
        if depth == 0:
            return match.start()
    return None
