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
        if not _closes(tag):
            block = Range(tag.start(), _end_of_block(tags, tag, len(text)))
        elif ranges:
            block = Range(tag.start(), tag.end())
        else:  # a lone closing tag ends what is before it
            block = Range(0, tag.end())
        ranges.append(block)
        tag = _next_tag(text, tags, block.end)
    return merged(ranges)


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
    return any(tag.groups())


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
