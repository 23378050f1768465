"""The ways in which a listed word may be written: the lists hold it in one."""

from collections.abc import Iterable


def written(words: Iterable[str], *, capitals: bool = False) -> frozenset[str]:
    """Words as they stand and with a capital first letter: "etc" and "Etc", but "Dr" not as "dr". Letters stay.

    `capitals`: also in capitals alone, "ETC", which for a title or a company may be something else: "He has MS.".
    """
    given = list(words)
    first = (word[0].upper() + word[1:] for word in given if len(word) > 1)
    whole = (word.upper() for word in given if capitals and len(word) > 1 and "." not in word)
    return frozenset([*given, *first, *whole])
