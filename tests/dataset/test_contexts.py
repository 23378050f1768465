from typing import Any

import pytest

from localjudge import DataError, InputError
from localjudge.dataset import load
from localjudge.metrics import Context


def read(value: Any) -> tuple[Context, ...] | None:
    return load([{"question": "q", "contexts": value}]).samples[0].retrieved_contexts


@pytest.mark.parametrize(
    ("value", "contexts"),
    [
        (None, None),
        ("a", [Context(text="a")]),
        ("", [Context(text="")]),
        (["a", "b"], [Context(text="a"), Context(text="b")]),
        ([], []),
        (
            [{"text": "a"}, {"content": "b"}, {"page_content": "c"}, "d"],
            [Context(text=text) for text in "abcd"],
        ),
        ([{"text": "a", "id": 3, "score": 1}], [Context(text="a", id="3", score=1.0)]),
        ([{"text": "a", "doc_id": "d"}], [Context(text="a", id="d")]),
        (
            [{"text": "a", "meta": {"p": None, "q": {"r": None}}}],
            [Context(text="a", meta={"q": {}})],
        ),
        ([{"text": "a", "metadata": {"p": 1}}], [Context(text="a", meta={"p": 1})]),
        (
            [{"content": "a", "id": None, "score": None, "meta": None, "blob": None}],
            [Context(text="a")],
        ),
        ([Context(text="a", id="x")], [Context(text="a", id="x")]),
        # As Hugging Face writes a list of objects.
        (
            {"title": ["t", "u"], "text": ["a", "b"]},
            [Context(text=x, meta={"title": y}) for x, y in ("at", "bu")],
        ),
        # Haystack writes the metadata of a document next to its content.
        (
            [{"content": "a", "url": {"u": 1}, "meta": {"p": 1}}],
            [Context(text="a", meta={"url": {"u": 1}, "p": 1})],
        ),
    ],
)
def test_every_shape_is_read(value: Any, contexts: list[Context] | None) -> None:
    assert read(value) == (None if contexts is None else tuple(contexts))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (7, "contexts: found a number (7), expected text"),
        (["a", None], "contexts[1]: found null, expected text"),
        ([["a"], ["b"]], "contexts[0]: found a list of 1, expected text"),
        ([{"p": "x"}], "contexts[0]: found an object with the keys p, expected"),
        ([{"text": {"a": 1}}], "contexts[0]: found an object with the keys a, expected"),
        ([{"text": "a", "content": "b"}], "with text and content, expected only one"),
        (
            [{"text": "a", "meta": {}, "metadata": {}}],
            "with meta and metadata, expected only one",
        ),
        ([{"text": "a", "meta": "m"}], "contexts[0].meta: found text 'm', expected an object"),
        ([{"text": "a", "score": True}], "contexts[0].score: found true"),
        ([{"text": "a", "score": float("nan")}], "contexts[0].score: found NaN"),
        ([{"text": "a", "score": 10**400}], "contexts[0].score: found a number of 1329 bits"),
        ([{"text": "a", "id": 1.5}], "contexts[0].id: found a number (1.5)"),
        (["a\ud800"], "surrogate pair (U+D800, at position 1)"),
        (
            [{"text": "a", "meta": {"k": ["\udfff"]}}],
            "surrogate pair (U+DFFF",
        ),
        (
            [{"text": "a", "meta": {"k": object()}}],
            "Python type object",
        ),
        ([b"a"], "Python type bytes"),
    ],
)
def test_other_shapes_are_refused_by_name(value: Any, said: str) -> None:
    with pytest.raises(DataError) as caught:
        read(value)
    assert "contexts" in str(caught.value)
    assert said in str(caught.value)


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
def test_a_text_is_split_and_trimmed_and_a_list_is_unchanged(
    value: Any, separator: str, contexts: list[str]
) -> None:
    (sample,) = load([{"question": "q", "contexts": value}], context_separator=separator).samples
    assert sample.retrieved_contexts == tuple(Context(text=text) for text in contexts)


def test_an_empty_separator_is_refused() -> None:
    with pytest.raises(InputError, match="separator is empty"):
        load([{"contexts": "a"}], context_separator="")


def test_ids_of_contexts_are_split_too() -> None:
    (sample,) = load(
        [{"contexts": "a|b", "retrieved_context_ids": "x| y"}], context_separator="|"
    ).samples
    assert sample.retrieved_contexts == (Context(text="a", id="x"), Context(text="b", id="y"))
