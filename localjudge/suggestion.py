"""What to say to a name that does not exist: the ones that may have been meant, or what there is."""

import difflib
from collections.abc import Callable, Collection

# "answer_relevancy" is not a typing error for "context_relevancy" (0.73), "contxt_recall" is one (0.96).
_ALIKE = 0.75
_MOST_NAMES = 20


def suggestion(wanted: str, names: Collection[str], what: str, *, show: Callable[[str], str] = str) -> str:
    """A hint: the names that are like the wanted one or hold it, else all of them as the `what`, or the first of many.

    `show` is how a name is written.
    """
    if alike := difflib.get_close_matches(wanted, names, cutoff=_ALIKE) or [name for name in names if wanted in name]:
        return f"did you mean {', '.join(map(show, alike[:_MOST_NAMES]))}?"
    more = len(names) - _MOST_NAMES
    shown = ", ".join(map(show, list(names)[:_MOST_NAMES]))
    return f"{what} are {shown}{f' and {more:,} more' if more > 0 else ''}"
