from typing import Any

import pytest

from localjudge.dataset import load
from localjudge.errors import InputError
from localjudge.types import Context


@pytest.mark.parametrize(
    ("value", "separator", "contexts"),
    [
        ("a|b", "|", ["a", "b"]),
        (" a | b\n", "|", ["a", "b"]),
        ("|a||  |b|", "|", ["a", "b"]),
        ("a", "|", ["a"]),
        ("", "|", []),
        ("||", "|", []),
        (["a|b", "c"], "|", ["a|b", "c"]),
        ('["a|b", "c"]', "|", ["a|b", "c"]),
        ({"text": "a|b"}, "|", ["a|b"]),
        ("a\n---\nb - c", "\n---\n", ["a", "b - c"]),
    ],
)
def test_a_text_is_split_and_trimmed_and_a_list_is_unchanged(value: Any, separator: str, contexts: list[str]) -> None:
    (sample,) = load([{"question": "q", "contexts": value}], context_separator=separator).samples
    assert sample.retrieved_contexts == tuple(Context(text=text) for text in contexts)


def test_an_empty_separator_is_refused() -> None:
    with pytest.raises(InputError, match="the context separator is empty"):
        load([{"contexts": "a"}], context_separator="")


def test_ids_of_contexts_are_split_too() -> None:
    (sample,) = load([{"contexts": "a|b", "retrieved_context_ids": "x| y"}], context_separator="|").samples
    assert sample.retrieved_contexts == (Context(text="a", id="x"), Context(text="b", id="y"))
