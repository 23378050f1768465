"""A printed list is read or refused, and never counted as one context."""

import csv
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge import DataError
from localjudge.dataset import load

READ: list[tuple[str, Any]] = [
    ('["a", "b"]', ["a", "b"]),
    ("['a', 'b']", ["a", "b"]),
    ("('a', 'b')", ["a", "b"]),
    ("('a',)", ["a"]),
    ("[u'a', u'b']", ["a", "b"]),
    ("['a', \"b's\"]", ["a", "b's"]),
    ("['a',\n 'b']", ["a", "b"]),
    ("['a\\n', 'b\\xa0', '\\u20ac', '\\U0001f600']", ["a\n", "b\xa0", "€", "😀"]),
    ("['[1] see', 'a] b']", ["[1] see", "a] b"]),
    (
        "[{'text': 'a', 'score': 0.5, 'meta': {'x': None}}]",
        [{"text": "a", "score": 0.5, "meta": {"x": None}}],
    ),
    ('["a", {"text": "b"}]', ["a", {"text": "b"}]),
    ('{"text": "a"}', {"text": "a"}),
    ("[]", []),
    ("()", []),
]
REFUSED = [
    "[Document(page_content='The tower.', metadata={'page': 3}), Document(page_content='Bern.')]",
    "[Document(metadata={'source': 'u.pdf'}, page_content='The tower.')]",
    "[Document(id=4f2a, content: 'The tower.', score: 0.9), Document(id=9c1b, content: 'Bern.')]",
    "Document(page_content='The tower.', metadata={})",
    "Document(id=4f2a, content: 'The tower is in Ulm.', meta: {'source': 'ulm.pdf'}, score: 0.9)",
    "page_content='The tower.' metadata={'source': 'u.pdf'}",
    "[NodeWithScore(node=TextNode(id_='x', text='The tower'), score=0.9)]",
    "[<Document: {'content': 'The tower', 'score': 0.9}>]",
    "[<langchain_core.documents.Document object at 0x7f8a>, <a.Document object at 0x7f8b>]",
    "<langchain_core.documents.Document object at 0x7f8a>",
    "<generator object f at 0x7f8a>",
    "['The tower.' 'Bern.']",
    "['The tower.'\n 'Bern.']",
    "['The tower.' \"Bern's.\"]",
    "[array(['The tower.', 'Bern.'], dtype=object)]",
    "array(['The tower.', 'Bern.'], dtype=object)",
    "[array(['a'], dtype=object) array(['b'], dtype=object)]",
    "dict_values(['a', 'b'])",
    "deque(['a', 'b'])",
    "['a' 'b' ... 'y' 'z']",
    "['a', nan]",
    '["a", "b"',
    "['The tower's in Ulm.', 'Bern']",
    '["He said "hi" to me", "x"]',
    '{"The tower is in Ulm.","Bern lies."}',
    "{'The tower', 'Bern'}",
    "[The tower is in Ulm.,Bern lies on the river Aare.]",
    "[The tower is in Ulm., Bern lies on the river Aare.]",
    "[a,b]",
    "[塔在乌尔姆。,伯尔尼在阿勒河畔。]",
    '["a"]["b"]',
    "['\\d']",
    "[{'a'",
    '[{"text": "a", "text": "b"}]',
    "[{'text': 'a', 'score': nan}]",
    '[{"text": "a", "score": 0.5}',
    '{"text": "a" "b"}',
    "(Document(page_content='a'), Document(page_content='b'))",
    '[["The tower."\' "Bern"]]',
    "[ScoredPoint(id=1, version=0, score=0.9, payload={'text': 'a'})]",
    "[np.str_('The tower'), np.str_('Bern')]",
]
TEXTS = [
    "[REDACTED]",
    "[REDACTED] was here",
    "[a]",
    "[1] A footnote opens this text.",
    "[1], [2] and [3] agree.",
    "[Music] he said [Applause]",
    "(see below)",
    "(a) First, (b) second.",
    '("Agreement") is made between A and B.',
    '("Company") and ("Buyer")',
    '["Company"] means the seller.',
    '["Company"] and ["Buyer"]',
    "[[Wiki page]]",
    "[[Wiki page]] says, that [[Other]] is.",
    "[text](https://example.org) is a link.",
    '[print("x")](https://docs.python.org) prints.',
    "[Smith et al., 2020]",
    "[Smith, 2020] shows, that it is so.",
    "[e.g., a note about it]",
    "['Tis the season] he sang.",
    "['Tis the season] he's singing, she's not",
    "'Tis the season",
    "[Illustration: a ship, sailing]",
    "[Illustration: Mr. Smith, Jr., at home]",
    "[Applause, laughter]",
    '{"price": 5}',
    "{name}, hello",
    "{x} is a set, {y} too",
    "f(x, y) = (x, y)",
    "(x, y) is a point.",
    "(The tower is in Ulm. It is old.)",
    '"Quoted text."',
    '("Quoted text.")',
    '["a", "b"] is a JSON array.',
    "['a', 'b'] is a list in Python, and ('a', 'b') a tuple.",
    "<p>The tower is in Ulm.</p>",
    "<b>[1]</b> text",
    "[ ] to do, [x] done",
    "[x] done",
    "[citation needed]",
    "[Note: see Document(s) below]",
    "[...] and so on",
    "[…]",
    "[Translator's note: 'tower', 'church']",
    "(1) One. (2) Two.",
    "Document(s) are needed.",
    "print('hello')",
    "array([1, 2]) creates an array.",
    'Use Document(content="x") to make one.',
    '[10:32] Anna: Hi, "Bob".',
    "[0, 1] is the closed interval.",
    "[Paris, France]",
    "[Figure 3. The tower in Ulm, seen from the river.]",
    "[The tower is in Ulm. It is old, and high.]",
    "[f(x,y)]",
    "[INST] Hello, world. [/INST]",
    '[2024-05-01T12:00:00] Started, "ok".',
    "{{template}}, hello",
    "{\\rtf1\\ansi text, more}",
    "[1,2-a]pyridine, a compound",
    "[b]bold[/b]",
    "['Company'] and 'Buyer', 'Seller' are terms",
]


def read(contexts: Any) -> list[str | None] | str:
    """Return the texts of contexts, or why they are refused."""
    try:
        (sample,) = load([{"question": "q", "contexts": contexts}]).samples
    except DataError as error:
        return str(error)
    return [context.text for context in sample.retrieved_contexts or ()]


@pytest.mark.parametrize(("text", "value"), READ)
def test_json_and_python_are_read(tmp_path: Path, text: str, value: Any) -> None:
    printed = load([{"question": "q", "contexts": text}])
    assert printed.samples == load([{"question": "q", "contexts": value}]).samples
    assert read_cell(tmp_path, text) == read(value)


def read_cell(folder: Path, cell: str) -> list[str | None]:
    path = folder / "data.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "contexts"])
        writer.writerow(["q", cell])
    return [context.text for context in load(path).samples[0].retrieved_contexts or ()]


@pytest.mark.parametrize("text", [*REFUSED, '["a"], ["b"]'])
def test_other_lists_are_refused_in_a_cell_and_in_json(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match="contexts"):
        read_cell(tmp_path, text)
    with pytest.raises(DataError, match="contexts"):
        load([{"question": "q", "contexts": text}])


@pytest.mark.parametrize("text", TEXTS)
def test_prose_that_begins_with_a_bracket_is_one_text(tmp_path: Path, text: str) -> None:
    assert read_cell(tmp_path, text) == [text]


@pytest.mark.parametrize(
    "text", ["[1]", "[1, 2]", "[None]", "[True]", "[['a'], ['b']]", "{'a', 'b'}"]
)
def test_lists_of_other_values_are_refused(text: str) -> None:
    with pytest.raises(DataError, match="contexts"):
        load([{"question": "q", "contexts": text}])


DOCUMENTS = [
    text for text in REFUSED if text.startswith(("Document(", "page_content=", "<langchain"))
]


@pytest.mark.parametrize("text", DOCUMENTS)
def test_a_printed_document_in_a_list_is_refused(text: str) -> None:
    """`[str(document) for document in documents]` would judge its metadata, too."""
    with pytest.raises(DataError, match=r"contexts\[1\]"):
        load([{"question": "q", "contexts": ["One text.", text]}])


ULM = "The tower is in Ulm."
BERN = "Bern lies on the Aare."
DOCUMENT = {"page_content": ULM, "metadata": {"source": "a.pdf", "note": "Scanned. Checked."}}
PRINTED = {
    "LangChain, JSON": json.dumps(DOCUMENT),
    "LangChain, Python": str(DOCUMENT),
    "Haystack": json.dumps({"id": "d1", "content": ULM, "meta": {}, "score": 0.7}),
    "text only": json.dumps({"text": ULM}),
    "LlamaIndex": json.dumps({"node": {"id_": "d1", "text": ULM, "metadata": {}}, "score": 0.7}),
    "LlamaIndex document": json.dumps(
        {"id_": "d1", "metadata": {}, "text_resource": {"text": ULM}, "class_name": "Document"}
    ),
    "dumpd": json.dumps({"lc": 1, "type": "constructor", "kwargs": {"page_content": ULM}}),
    "printed twice": json.dumps(json.dumps(DOCUMENT)),
    "a list of one": json.dumps([DOCUMENT]),
}


@pytest.mark.parametrize("form", PRINTED)
def test_a_printed_document_in_a_list_is_read_as_its_text(form: str) -> None:
    """Judged with its names and metadata, it would have more sentences and match no document."""
    for contexts in ([PRINTED[form], BERN], [PRINTED[form], json.dumps({"text": BERN})]):
        assert read(contexts) == [ULM, BERN]


@pytest.mark.parametrize(
    "text",
    [
        f"Node ID: 5c56c793\nText: {ULM}\nScore:  0.700\n",
        f"Doc ID: 5c56c793\nText: {ULM}",
        f"id_='d1' embedding=None metadata={{}} text='{ULM}'",
        f"text='{ULM}' metadata={{}}",
        f"id=1 version=0 score=0.9 payload={{'text': '{ULM}'}} vector=None",
        "{'page_content': 'The tower's in Ulm.', 'metadata': {}}",
        f"OrderedDict({{'text': '{ULM}'}})",
        f"OrderedDict([('id', 7), ('text', '{ULM}')])",
        f"defaultdict(<class 'str'>, {{'content': '{ULM}'}})",
        f"namespace(text='{ULM}', id=7)",
        f"{{'page_content': '{ULM}', 'metadata': {{'at': datetime.datetime(2024, 5, 1)}}}}",
        json.dumps([ULM, BERN]),
        str([ULM, BERN]),
    ],
)
def test_what_cannot_be_read_in_a_list_is_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"contexts\[0\]"):
        load([{"question": "q", "contexts": [text, BERN]}])


@pytest.mark.parametrize("key", ["chunk_text", "pageContent", "payload"])
def test_a_printed_object_with_another_key_is_refused_with_a_mapping(key: str) -> None:
    value: Any = ULM
    path = f"contexts[].{key}"
    if key == "payload":
        value = {"text": ULM}
        path += ".text"
    contexts = [json.dumps({key: value, "page": 1}), str({key: value, "page": 2})]
    with pytest.raises(DataError) as caught:
        load([{"question": "q", "contexts": contexts}])
    assert path in str(caught.value)
    data = load([{"question": "q", "contexts": contexts}], mapping={"retrieved_contexts": path})
    assert [context.text for context in data.samples[0].retrieved_contexts or ()] == [ULM, ULM]


@pytest.mark.parametrize("printed", [json.dumps, str])
def test_a_list_that_is_printed_twice_is_read(tmp_path: Path, printed: Any) -> None:
    twice = json.dumps(printed([ULM, BERN]))
    assert read_cell(tmp_path, twice) == [ULM, BERN]
    for contexts in (twice, [printed([ULM, BERN])]):
        assert read(contexts) == [ULM, BERN]


@pytest.mark.parametrize(
    "text", ['{"price": 5}', '{"city": "Ulm", "people": 126000}', "[1]", "(1990)", '"Quoted."']
)
def test_other_texts_of_a_list_stay_texts(text: str) -> None:
    assert read([text, BERN]) == [text, BERN]


CELL = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.lists(CELL))
def test_what_python_prints_is_read(values: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text in (repr(values), repr(tuple(values)), json.dumps(values)):
            assert read(text) == read(values)


@given(st.lists(CELL, min_size=2))
def test_what_numpy_prints_is_never_read_as_one_text(values: list[str]) -> None:
    numpy = pytest.importorskip("numpy")
    assert "a list that cannot be read" in read(str(numpy.array(values, dtype=object)))


@given(st.text("[](){}'\",: .ab\\"))
def test_any_text_is_read_without_a_warning(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(text)


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "[" * 50_000 + "'a'" + "]" * 50_000, "['" + "a" * 10**6, "(((" * 10**5],
)
def test_long_and_deep_texts_are_read_quickly(text: str) -> None:
    assert isinstance(read(text), str) or read(text) == [text]


@pytest.mark.parametrize(
    "text",
    [
        '{"text": "It rains.", "text": "It snows."}',
        "{'text': 'It rains.', 'text': 'It snows.'}",
        "[{'meta': {'page': 1, 'page': 2}}]",
        "{1: 'It rains.', True: 'It snows.'}",
    ],
)
def test_an_object_with_a_repeated_key_is_not_read(text: str) -> None:
    """One of the values would be lost without a word."""
    assert isinstance(read(text), str) or read(text) == [text]


def test_equal_keys_of_different_objects_are_read() -> None:
    text = "[{'text': 'a', 'meta': {'text': 'b'}}, {'text': 'c'}]"
    value = [{"text": "a", "meta": {"text": "b"}}, {"text": "c"}]
    printed = load([{"question": "q", "contexts": text}])
    assert printed.samples == load([{"question": "q", "contexts": value}]).samples


@pytest.mark.parametrize(
    "text",
    [
        "{'a.pdf': 'It is in Ulm.'}",
        '{"a.pdf": "It is in Ulm.", "b.pdf": "It rains."}',
        '{"history": "It is in Ulm."}',
    ],
)
def test_a_printed_object_of_texts_is_refused_like_the_object(tmp_path: Path, text: str) -> None:
    for values in (text, json.loads(text.replace("'", '"'))):
        with pytest.raises(DataError, match=r"contexts: found an object with the keys"):
            load([{"question": "q", "contexts": values}])
    with pytest.raises(DataError, match=r"contexts: found an object with the keys"):
        read_cell(tmp_path, text)


def test_a_printed_object_of_files_in_a_list_is_refused() -> None:
    row = {"question": "q", "contexts": ["{'a.pdf': 'It is in Ulm.'}", {"b.pdf": "It rains."}]}
    with pytest.raises(DataError, match=r"contexts\[0\]: .* keys a.pdf.*'contexts\[\]\[\]'"):
        load([row])
    sample = load([row], mapping={"retrieved_contexts": "contexts[][]"}).samples[0]
    texts = [context.text for context in sample.retrieved_contexts or ()]
    assert texts == ["It is in Ulm.", "It rains."]


def test_texts_of_a_list_that_are_all_printed_in_json_are_read() -> None:
    """One text in quotation marks may be a quotation."""
    printed = ['"It is in \\"Ulm\\"."', '"It rains."']
    texts = {"both": printed, "one": printed[:1], "mixed": [printed[0], "It rains."]}
    contexts = {name: read(values) for name, values in texts.items()}
    assert contexts == {**texts, "both": ['It is in "Ulm".', "It rains."]}
