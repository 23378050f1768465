"""A name with dots reaches into objects by keys and into lists by numbers."""

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
        ("a.b.2.c", MISSING),
        ("a.b.-3.c", MISSING),
        ("a.b.c", MISSING),
        ("a.b.0.d", MISSING),
        ("a.b.+1.c", MISSING),
        ("a.b.1_0.c", MISSING),
        ("a.b.٠.c", MISSING),
        ("a.b.99999999999999999999.c", MISSING),
        ("l.1.0", MISSING),
        ("n.0", MISSING),
        ("z", MISSING),
        ("z.0", MISSING),
    ],
)
def test_a_name_reaches_a_value_or_none(name: str, value: Any) -> None:
    assert lookup(ROW, name, MISSING) == value
    assert has_value(ROW, name) == (value is not MISSING)
