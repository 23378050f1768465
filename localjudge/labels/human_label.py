"""Parse human labels: 1 or 0, yes or no in several languages, or a spreadsheet's version of them.

1     1   1.0   1,00   TRUE   WAHR    VRAI  VERO    y  yes  ja    oui  si   sí  sì  tak  sim  да
0     0   0.0   0,00   FALSE  FALSCH  FAUX  FALSO   n  no   nein  non  nee  nie  não  нет
None  empty   ?   -
"""

import math
import re
import unicodedata
from typing import Any

from localjudge.types import Label

HUMAN = "human"
LABEL_FORM = "1 or 0 (also true and false, yes and no, in several languages), or an empty cell"

_NUMBER = re.compile(r"([01])(?:[.,]0+)?")
_LABELS: dict[str, Label | None] = {
    **dict.fromkeys(("y", "yes", "ja", "oui", "si", "sí", "sì", "tak", "sim", "да"), 1),
    **dict.fromkeys(
        ("true", "wahr", "vrai", "verdadero", "verdadeiro", "vero", "waar", "prawda", "истина"),
        1,
    ),
    **dict.fromkeys(("n", "no", "nein", "non", "nee", "nie", "não", "нет"), 0),
    **dict.fromkeys(("false", "falsch", "faux", "falso", "onwaar", "fałsz", "ложь"), 0),
    **dict.fromkeys(("", "?", "-"), None),
}


def is_undecidable(value: Any) -> bool:
    """Return whether a cell or JSON value says that the annotator cannot tell: `?`."""
    return isinstance(value, str) and unicodedata.normalize("NFKC", value).strip() == "?"


def parse_label(value: Any) -> Label | None:
    """Parse the label in a cell or JSON value, None if unlabelled. Raises ValueError otherwise."""
    if isinstance(value, str):
        word = unicodedata.normalize("NFKC", value).strip().casefold()
        if word in _LABELS:
            return _LABELS[word]
        number = _NUMBER.fullmatch(word)
        if number:
            value = int(number[1])
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, int | float) and value == 1:
        return 1
    if isinstance(value, int | float) and value == 0:
        return 0
    raise ValueError(f"not a label: {value!r:.40}")
