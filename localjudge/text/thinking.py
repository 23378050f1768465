"""Find the thinking in a response: blocks of <think>, <thinking>, <thought> and <reasoning>.

    <think>Perhaps Ulm?</think>It is in Ulm.    from the opening to the closing tag, also nested
    Perhaps Ulm?</think>It is in Ulm.           a lone closing tag: everything up to it
    <think>Perhaps Ulm?                         an unclosed tag: everything after it
    <|channel|>analysis<|message|>Perhaps?      up to the channel `final` of gpt-oss
    <analysis>Perhaps?</analysis>It is.         <scratchpad>, <reflection> ...: in pairs before text

A tag in code, or in the middle of a sentence, is text: "Models write <think> before they answer."
"""

import re

from localjudge.text.lines import Range
from localjudge.text.markup import code_ranges, merged, overlaps

_NAMES = "(?:seed:)?think|thinking|thoughts?|reasoning|antthinking"
_OTHER_NAMES = "analysis|cot|inner_monologue|rationale|reason|reflection|scratchpad"
_PAIR = re.compile(
    rf"<(?P<name>{_OTHER_NAMES})>(?:(?!</?(?P=name)>).)*</(?P=name)>(?=\s*[^\s<]|\s*<(?!/))",
    re.IGNORECASE | re.DOTALL,
)
_TOKEN = r"think(?:ing)?|thought"
_ANSWER_PHRASE = r"here is my response:"
_TAG = re.compile(
    rf"(?:<|&lt;)(?P<slash>/)?\s?(?:{_NAMES})(?:\s[^<>]{{0,200}})?\s?(?<!/)(?:>|&gt;)"
    r"|\[(?P<bracket>/)?THINK\]|◁(?P<triangle>/)?think▷"
    rf"|<\|?(?P<ends_token>/|end_of_|end_)?(?:(?:begin|start)_(?:of_)?)?(?:{_TOKEN})\|?>"
    r"|<unused94>thought|(?P<ends_unused><unused95>)"
    r"|<\|channel>thought|(?P<ends_thought><channel\|>)"
    r"|(?P<ends_channels>(?:<\|start\|>assistant)?<\|channel\|>final[^<>\n]{0,60}<\|message\|>)"
    r"|(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary)"
    r"|\Aanalysis(?=.{1,200000}?assistantfinal)|(?P<ends_analysis>assistantfinal)"
    rf"|\Ahere is my thought process:(?=.{{1,200000}}?{_ANSWER_PHRASE})"
    rf"|(?P<ends_process>{_ANSWER_PHRASE})",
    re.IGNORECASE | re.DOTALL,
)
_CLOSING_GROUPS = (
    "slash",
    "bracket",
    "triangle",
    "ends_token",
    "ends_unused",
    "ends_thought",
    "ends_channels",
    "ends_analysis",
    "ends_process",
)
_ENDED = re.compile(r"(?:^|[\n.!?…。！？।۔؟:>\"'”’)\]】`*_-])[\s\u200b\ufeff]*\Z")
_PROCESS_START = re.compile(r"here is my thought process:", re.IGNORECASE)
_LINE_ENDS = re.compile(r"[ \t]*(?:\n|\r|$)")
_BEFORE = 40


def thinking_ranges(text: str) -> list[Range]:
    """Return the thinking in a response, with its tags."""
    is_process = _PROCESS_START.match(text) is not None
    tags = []
    for match in _TAG.finditer(text):
        if is_process or not match["ends_process"]:
            tags.append(match)
    ranges = _pairs(text)
    tag = _next_tag(text, tags, 0)
    while tag is not None:
        block = _block_at(tag, tags, len(text), is_first=not ranges)
        ranges.append(block)
        tag = _next_tag(text, tags, block.end)
    return merged(ranges)


def _block_at(
    tag: re.Match[str], tags: list[re.Match[str]], end_of_text: int, *, is_first: bool
) -> Range:
    """Return the thinking that begins with a tag. A lone closing tag ends what is before it."""
    if not _closes(tag):
        return Range(tag.start(), _end_of_block(tags, tag, end_of_text))
    if is_first:
        return Range(0, tag.end())
    return Range(tag.start(), tag.end())


def _pairs(text: str) -> list[Range]:
    """Return blocks with names that are also used for other content."""
    code = code_ranges(text)
    pairs = []
    for match in _PAIR.finditer(text):
        before = text[max(0, match.start() - _BEFORE) : match.start()]
        if _ENDED.search(before) and not overlaps(code, *match.span()):
            pairs.append(Range(*match.span()))
    return pairs


def _closes(tag: re.Match[str]) -> bool:
    return any(tag[group] for group in _CLOSING_GROUPS)


def _next_tag(text: str, tags: list[re.Match[str]], position: int) -> re.Match[str] | None:
    """Return the next tag from a position on that is markup, and not mentioned in a sentence."""
    following = [tag for tag in tags if tag.start() >= position]
    if not following:
        return None
    code = code_ranges(text[position:])
    mention_end: int | None = None
    for tag in following:
        start = tag.start()
        if overlaps(code, start - position, tag.end() - position):
            continue
        follows_end = _ENDED.search(text[max(0, start - _BEFORE) : start]) is not None
        if mention_end is not None and not text[mention_end:start].strip(" \t"):
            follows_end = False  # the ">" before it belongs to a mentioned tag
        closes = _closes(tag)
        if not closes and (follows_end or start == 0):
            return tag
        at_edge = follows_end or _LINE_ENDS.match(text, tag.end()) is not None
        closes_mention = mention_end is not None and "\n" not in text[mention_end:start]
        if closes and at_edge and not closes_mention:
            return tag
        mention_end = tag.end()
    return None


def _end_of_block(tags: list[re.Match[str]], opening: re.Match[str], end_of_text: int) -> int:
    """Return the end of a block that a tag opens.

    It ends at its closing tag, else at the last closing tag, else at the end of the text.
    """
    depth = 0
    last_closing = end_of_text
    for tag in tags:
        if tag.start() < opening.start():
            continue
        if not _closes(tag):
            depth += 1
            continue
        depth -= 1
        last_closing = tag.end()
        if depth == 0:
            return last_closing
    return last_closing
