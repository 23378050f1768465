"""A name with dots reaches into objects by keys and into lists by numbers."""

from typing import Any

import pytest

from localjudge.dataset import load
from localjudge.dataset.problems import MISSING, has_value, lookup
from localjudge.types import Context

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


def test_a_list_in_a_row_of_a_file_is_reached_too(tmp_path: Any) -> None:
    """Also where it is the only row: the list is reached into, so it is no column of answers."""
    for rows in (1, 2):
        (tmp_path / f"{rows}.jsonl").write_text('{"question": "q", "answer": [{"documents": ["a b"]}]}\n' * rows)
        data = load(tmp_path / f"{rows}.jsonl", mapping={"retrieved_contexts": "answer.0.documents"})
        assert data.mapping == {"user_input": "question", "retrieved_contexts": "answer.0.documents"}
        assert data.samples[-1].retrieved_contexts == (Context(text="a b"),)
