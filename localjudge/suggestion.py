"""What to say to a name that does not exist: the ones that may have been meant, or what there is."""

import difflib
from collections.abc import Callable, Collection

# "answer_relevancy" is not a typing error for "context_relevancy" (0.73), "contxt_recall" is one (0.96).
_ALIKE = 0.75
_MOST_NAMES = 20
_MOST_NEAR = 3


def suggestion(wanted: str, names: Collection[str], what: str, *, show: Callable[[str], str] = str) -> str:
    """A hint: the names that are like the wanted one, then those that hold it; else all as the `what`, or the first.

    A part of one name may be spelt like another: "recall" is near `recall@k`, and `context_recall` may be meant.
    `show` is how a name is written.
    """
    near = difflib.get_close_matches(wanted, names, cutoff=_ALIKE)
    held = [name for name in names if wanted in name and name not in near]
    if alike := [*near, *held][: _MOST_NEAR if near else _MOST_NAMES]:
        return f"did you mean {', '.join(map(show, alike))}?"
    more = len(names) - _MOST_NAMES
    shown = ", ".join(map(show, list(names)[:_MOST_NAMES]))
    return f"{what} are {shown}{f' and {more:,} more' if more > 0 else ''}"
