"""Tags that a text cannot close: `</context>` becomes `</context-2>` where the text itself says `</context>`.

However the text spells it: in other letter forms, with blanks or invisible characters in it.
"""

import re
import unicodedata
from functools import lru_cache
from itertools import count

_TAGS_KEPT = 64
_FENCED_TAG = re.compile(r"<[^<>\n]*\{fence\}>")


def fence(template: str, enclosed: list[str]) -> str:
    """What `{fence}` becomes in a template that encloses these texts."""
    tags = [tag.replace("{fence}>", "") for tag in _FENCED_TAG.findall(template)]
    if not tags:
        return ""
    inside = _as_read("\n".join(enclosed))
    for number in count(1):
        found = "" if number == 1 else f"-{number}"
        if not any(_tag_as_read(f"{tag}{found}>") in inside for tag in tags):
            return found
    raise AssertionError("a text cannot hold every number")


@lru_cache(maxsize=_TAGS_KEPT)
def _tag_as_read(tag: str) -> str:
    return _as_read(tag)


def _as_read(text: str) -> str:
    """A text as a model may take it: `＜ / Context >` reads as `</context>`, with invisible characters in it too."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    if "<" not in folded:
        return ""
    return "".join(part for part in folded if not part.isspace() and unicodedata.category(part) != "Cf")
