from typing import Any

import pytest

from localjudge.dataset.problems import MISSING, has_value, lookup

ROW: dict[str, Any] = {
    "a": {"b": [{"c": 1}, {"c": 2}], "0": "key", "": "nothing"},
    "l": ["x", "y"],
    "l.0": "a column",
    "n": None,
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("a.b.0.c", 1),
        ("a.b.1.c", 2),
        ("a.b.-1.c", 2),
        ("a.b.-2.c", 1),
        ("a.0", "key"),
        ("a.", "nothing"),
        ("l.1", "y"),
        ("l.0", "a column"),
        ("n", None),
        *((name, MISSING) for name in ("a.b.2.c", "a.b.-3.c", "a.b.c", "a.b.0.d", "l.1.0", "n.0", "z", "z.0")),
        *((f"a.b.{number}.c", MISSING) for number in ("+1", "1_0", "٠", "9" * 20)),
    ],
)
def test_a_name_reaches_a_value_or_none(name: str, value: Any) -> None:
    assert lookup(ROW, name, MISSING) == value
    assert has_value(ROW, name) == (value is not MISSING)
