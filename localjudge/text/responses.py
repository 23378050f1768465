r"""Prepare a response for judging. Every metric that judges a response asks about these statements.

    <think>Ulm or Bern?</think>It is in Ulm [1]. Sources: [1] a.pdf
                               ^^^^^^^^^^^^ the only statement, with its mark [1]

Thinking and the list of sources are left out, and marks are no part of a statement. A span is a
verbatim part of the response: marks at its ends are cut off. The text shown to the judge also lacks
the marks inside it. A response that is a JSON text is one statement.

Thinking is in blocks of <think>, <thinking>, <thought> and <reasoning>:

    <think>Perhaps Ulm?</think>It is in Ulm.    from the opening to the closing tag, also nested
    Perhaps Ulm?</think>It is in Ulm.           a lone closing tag: everything up to it
    <think>Perhaps Ulm?                         an unclosed tag: everything after it
    <|channel|>analysis<|message|>Perhaps?      up to the channel `final` of gpt-oss
    <analysis>Perhaps?</analysis>It is.         <scratchpad>, <reflection> ...: in pairs before text

A tag in code, or in the middle of a sentence, is text: "Models write <think> before they answer."
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from localjudge.text.lines import Range
from localjudge.text.marks import Mark, find_marks, removal_ranges
from localjudge.text.markup import (
    ReadText,
    blanked,
    code_ranges,
    has_words,
    left_out_ranges,
    merged,
    overlaps,
    read_characters,
    trimmed,
)
from localjudge.text.source_list import source_ranges
from localjudge.types import Span

_AROUND_MARKS = re.compile(r"[\s.,;:!?\u3002]*")
_AFTER_FIRST_MARK = " .,;:："
_BEFORE_SIGN = re.compile(r"\s*(?:$|[\s.,;:!?。，、；：！？)\]」』”])")
_BETWEEN_PARTS = "\n\n"
_PREPARED_KEPT = 256

_NAMES = "(?:seed:)?think|thinking|thoughts?|reasoning|antthinking"
_OTHER_NAMES = "analysis|cot|inner_monologue|rationale|reason|reflection|scratchpad"
_PAIR = re.compile(
    rf"<(?P<name>{_OTHER_NAMES})>(?:(?!</?(?P=name)>).)*</(?P=name)>(?=\s*[^\s<]|\s*<(?!/))",
    re.IGNORECASE | re.DOTALL,
)
"""A block with a name that is also used for other content."""
_TOKEN = r"think(?:ing)?|thought"
_ANSWER_PHRASE = r"here is my response:"
# Each form of a tag, whose one group matches only in a closing tag.
_FORMS = (
    # <think>  </think>  &lt;thinking&gt;
    rf"(?:<|&lt;)(?P<slash>/)?\s?(?:{_NAMES})(?:\s[^<>]{{0,200}})?\s?(?<!/)(?:>|&gt;)",
    r"\[(?P<bracket>/)?THINK\]",  # [THINK]  [/THINK]
    r"◁(?P<triangle>/)?think▷",  # ◁think▷  ◁/think▷
    # <|begin_of_thought|>  <|end_of_thought|>
    rf"<\|?(?P<ends_token>/|end_of_|end_)?(?:(?:begin|start)_(?:of_)?)?(?:{_TOKEN})\|?>",
    r"<unused94>thought",
    r"(?P<ends_unused><unused95>)",
    r"<\|channel>thought",
    r"(?P<ends_thought><channel\|>)",
    # <|start|>assistant<|channel|>final<|message|>
    r"(?P<ends_channels>(?:<\|start\|>assistant)?<\|channel\|>final[^<>\n]{0,60}<\|message\|>)",
    r"(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary)",
    r"\Aanalysis(?=.{1,200000}?assistantfinal)",
    r"(?P<ends_analysis>assistantfinal)",
    rf"\Ahere is my thought process:(?=.{{1,200000}}?{_ANSWER_PHRASE})",
    rf"(?P<ends_process>{_ANSWER_PHRASE})",
)
_TAG = re.compile("|".join(_FORMS), re.IGNORECASE | re.DOTALL)
_ENDED = re.compile(r"(?:^|[\n.!?…。！？।۔؟:>\"'”’)\]】`*_-])[\s\u200b\ufeff]*\Z")
_PROCESS_START = re.compile(r"here is my thought process:", re.IGNORECASE)
_LINE_ENDS = re.compile(r"[ \t]*(?:\n|\r|$)")
_MAY_BEGIN_CODE = re.compile(r"[ \t\u200b]*(?:(?:[-*+]|\d+[.)])[ \t]+)*[`~>]")
_BEFORE = 40


class Statement(NamedTuple):
    """A sentence of a response: its verbatim span, the text shown to the judge, and its marks."""

    span: Span
    shown: str
    marks: tuple[Mark, ...]


class PreparedResponse(NamedTuple):
    """A response with its parts that are not judged, and its marks elsewhere."""

    text: str
    thinking: tuple[Range, ...]
    left_out: tuple[Range, ...]  # thinking and the list of sources
    marks: tuple[Mark, ...]

    @property
    def shown(self) -> str:
        """The text as shown to a judge: without thinking and the list of sources."""
        return _without(self.text, self.left_out)

    @property
    def without_thinking(self) -> str:
        return _without(self.text, self.thinking)

    def offset_in_shown(self, start: int) -> int:
        """Return where a character of the response stands in `shown`.

        Raises ValueError for a character that is left out.
        """
        offset = 0
        for part in _parts(self.text, self.left_out):
            if part.start <= start < part.end:
                return offset + start - part.start
            offset += part.end - part.start + len(_BETWEEN_PARTS)
        raise ValueError(f"character {start} is in no part that is shown")


@lru_cache(maxsize=_PREPARED_KEPT)
def prepare(
    text: str,
    ids: frozenset[str] = frozenset(),
    *,
    keep_thinking: bool = False,
) -> PreparedResponse:
    """Prepare a response. `ids` name the retrieved contexts."""
    read = read_characters(text, keep_markup=True)
    thinking: list[Range] = []
    if not keep_thinking:
        thinking = thinking_ranges(read.text)
    rest = blanked(read.text, thinking, "\n")
    marks = find_marks(rest, ids)
    sources = source_ranges(rest, marks)
    outside = []
    for mark in marks:
        if not overlaps(sources, mark.start, mark.end):
            start = read.stored(mark.start)
            outside.append(mark._replace(start=start, end=read.stored(mark.end)))
    left_out = _stored(read, merged([*thinking, *sources]))
    return PreparedResponse(text, _stored(read, thinking), left_out, tuple(outside))


def _stored(read: ReadText, ranges: Iterable[Range]) -> tuple[Range, ...]:
    return tuple(Range(read.stored(start), read.stored(end)) for start, end in ranges)


def statements(
    response: PreparedResponse,
    sentences: Callable[[str], Sequence[Span]],
) -> list[Statement]:
    """Cut a response into statements. A mark without a statement belongs to the one before it."""
    text = response.text
    marks = removal_ranges(text, response.marks)
    edges = merged([*left_out_ranges(text), *response.left_out, *marks])
    parts: list[tuple[Range, str]] = []
    for span in _cut(response, sentences):
        part = _without_marks_at_edges(text, trimmed(text, span.start, span.end, edges), marks)
        shown = _without_marks_inside(text, part, marks)
        if has_words(shown):
            parts.append((part, shown))
    # Marks before the first statement or at the start of a line belong to the statement after
    # them, and all others to the one before them.
    edges_of_marks = [0, *(_start_with_mark(text, part.start, marks) for part, _ in parts[1:])]
    edges_of_marks.append(len(text) + 1)
    starts_of_marks = [mark.start for mark in response.marks]
    result = []
    for number, (part, shown) in enumerate(parts):
        first, last = edges_of_marks[number : number + 2]
        span = Span(start=part.start, end=part.end, text=text[part.start : part.end])
        from_mark = bisect_left(starts_of_marks, first)
        marks_of_part = response.marks[from_mark : bisect_left(starts_of_marks, last)]
        result.append(Statement(span, shown, marks_of_part))
    return result


def is_json(text: str) -> bool:
    """Return whether a text is a JSON object or list."""
    bare = text.strip()
    if bare[:1] + bare[-1:] not in ("{}", "[]"):
        return False
    try:
        value = json.loads(bare)
    except (ValueError, RecursionError):
        return False
    if isinstance(value, dict):
        return True
    is_mark = all(isinstance(entry, int) for entry in value)  # [1, 2]
    return not is_mark


def _cut(response: PreparedResponse, sentences: Callable[[str], Sequence[Span]]) -> Sequence[Span]:
    """Cut a response as if it had no thinking, no list of sources and no marks after stops."""
    plain = blanked(response.text, response.left_out, "\n")
    if is_json(plain):
        return [Span.whole(plain)]
    after_stops = removal_ranges(plain, (mark for mark in response.marks if mark.after_stop))
    return sentences(blanked(plain, after_stops))


def _without_marks_at_edges(text: str, part: Range, marks: Sequence[Range]) -> Range:
    """Cut off the marks at the end of a sentence, and the comma or stop after marks before it."""
    start, end = part
    end_before = start
    while end_before > 0 and text[end_before - 1].isspace():
        end_before -= 1
    before = bisect_left(marks, end_before, key=lambda mark: mark.end)
    if before < len(marks) and marks[before].end == end_before:
        content = text[start:end]
        start += len(content) - len(content.lstrip(_AFTER_FIRST_MARK))
    last = bisect_right(marks, end, key=lambda mark: mark.end)
    for mark in reversed(marks[before:last]):
        if mark.start >= end:
            continue
        if mark.start <= start or not _AROUND_MARKS.fullmatch(text, mark.end, end):
            break
        end = mark.start
        while text[end - 1].isspace():
            end -= 1
    return Range(start, end)


def _start_with_mark(text: str, start: int, marks: Sequence[Range]) -> int:
    """Return the start of a statement with the mark that begins its line: "- [1] Open it."."""
    before = bisect_right(marks, (start, start)) - 1
    if before < 0 or "\n" in text[marks[before].end : start]:
        return start
    if any(map(str.isalnum, text[marks[before].end : start])):
        return start
    line_start = text.rfind("\n", 0, marks[before].start) + 1
    begins_line = not any(map(str.isalnum, text[line_start : marks[before].start]))
    return line_start if begins_line else start


def _without_marks_inside(text: str, part: Range, marks: Sequence[Range]) -> str:
    """Return a statement as it is shown: "Ulm [1] is old" becomes "Ulm is old"."""
    shown = ""
    position = part.start
    first = bisect_left(marks, part.start, key=lambda mark: mark.start)
    last = bisect_right(marks, part.end, key=lambda mark: mark.end)
    for mark in marks[first:last]:
        shown += text[position : mark.start]
        position = mark.end
        if _BEFORE_SIGN.match(text, position, part.end):
            shown = shown.rstrip()
    return shown + text[position : part.end]


def _parts(text: str, left_out: Sequence[Range]) -> list[Range]:
    """Return the parts that are not left out and not blank, without white space at edges next to
    what is left out.
    """
    if not left_out:
        return [Range(0, len(text))]
    parts = []
    position = 0
    for start, end in [*left_out, (len(text), len(text))]:
        content = text[position:start]
        if content.strip():
            first = position + len(content) - len(content.lstrip())
            parts.append(Range(first, position + len(content.rstrip())))
        position = end
    return parts


def _without(text: str, left_out: Sequence[Range]) -> str:
    return _BETWEEN_PARTS.join(text[slice(*part)] for part in _parts(text, left_out))


def thinking_ranges(text: str) -> list[Range]:
    """Return the thinking in a response, with its tags."""
    is_process = _PROCESS_START.match(text) is not None
    tags = []
    for match in _TAG.finditer(text):
        if is_process or not match["ends_process"]:
            tags.append(match)
    ranges: list[Range] = []
    code = code_ranges(text)
    for match in _PAIR.finditer(text):
        before = text[max(0, match.start() - _BEFORE) : match.start()]
        if _ENDED.search(before) and not overlaps(code, *match.span()):
            ranges.append(Range(*match.span()))
    last_mark = max(text.rfind("`"), text.rfind("~~~"))  # behind it there is no code
    number = _next_tag(text, tags, 0, code)
    while number is not None:
        tag = tags[number]
        if not _closes(tag):
            block = Range(tag.start(), _end_of_block(tags, number, len(text)))
        elif ranges:
            block = Range(tag.start(), tag.end())
        else:  # a lone closing tag ends what is before it
            block = Range(0, tag.end())
        ranges.append(block)
        code = _code_behind(text, block.end, code, last_mark)
        while number < len(tags) and tags[number].start() < block.end:
            number += 1
        number = _next_tag(text, tags, number, code)
    return merged(ranges)


def _code_behind(text: str, start: int, code: list[Range], last_mark: int) -> list[Range]:
    """Return the code of the rest of a text, read as a text of its own.

    It is the `code` of the whole unless some began before `start`, or could begin right there.
    """
    if start > last_mark:
        return []
    if not overlaps(code, start - 1, start) and not _MAY_BEGIN_CODE.match(text, start):
        return code
    return [Range(part.start + start, part.end + start) for part in code_ranges(text[start:])]


def _closes(tag: re.Match[str]) -> bool:
    return any(tag.groups())


def _next_tag(
    text: str, tags: list[re.Match[str]], number: int, code: Sequence[Range]
) -> int | None:
    """Return the number of the next tag, from `number` on, that is markup.

    Others are in `code`, or are mentioned in a sentence.
    """
    mention_end: int | None = None
    for each in range(number, len(tags)):
        tag = tags[each]
        start = tag.start()
        if overlaps(code, start, tag.end()):
            continue
        follows_end = _ENDED.search(text[max(0, start - _BEFORE) : start]) is not None
        if mention_end is not None and not text[mention_end:start].strip(" \t"):
            follows_end = False  # the ">" before it belongs to a mentioned tag
        closes = _closes(tag)
        if not closes and (follows_end or start == 0):
            return each
        at_edge = follows_end or _LINE_ENDS.match(text, tag.end()) is not None
        closes_mention = mention_end is not None and "\n" not in text[mention_end:start]
        if closes and at_edge and not closes_mention:
            return each
        mention_end = tag.end()
    return None


def _end_of_block(tags: list[re.Match[str]], opening: int, end_of_text: int) -> int:
    """Return the end of a block that the tag with this number opens.

    It ends at its closing tag, else at the last closing tag, else at the end of the text.
    """
    depth = 0
    last_closing = end_of_text
    for number in range(opening, len(tags)):
        if not _closes(tags[number]):
            depth += 1
            continue
        depth -= 1
        last_closing = tags[number].end()
        if depth == 0:
            return last_closing
    return last_closing
