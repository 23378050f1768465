"""Columns of the user's data are previewed, and their names suggest fields."""

from pathlib import Path

import pytest

from localjudge.dataset.columns import guess_columns, unused_evidence
from localjudge.dataset.formats import preview_columns

LONG = "The tower was built in many years by many people. " * 3


@pytest.mark.parametrize(
    ("names", "guesses"),
    [
        (
            ["Frage", "Fundstelle 1", "Fundstelle 2", "Antwort"],
            {
                "user_input": ["Frage"],
                "retrieved_contexts": ["Fundstelle 1", "Fundstelle 2"],
                "response": ["Antwort"],
            },
        ),
        (["Ist", "Soll"], {"response": ["Ist"], "reference": ["Soll"]}),
        (
            ["Model answer", "Expected answer"],
            {"response": ["Model answer"], "reference": ["Expected answer"]},
        ),
        (
            ["Pregunta", "Fuente", "Respuesta"],
            {
                "user_input": ["Pregunta"],
                "retrieved_contexts": ["Fuente"],
                "response": ["Respuesta"],
            },
        ),
        (["ground_truth", "query"], {"reference": ["ground_truth"], "user_input": ["query"]}),
        (["Abteilung", "Statistik", "Liste"], {}),
        (
            ["Nr", "Question", "Passage 1", "Right answer", "Answer system A", "Answer system B"],
            {
                "id": ["Nr"],
                "user_input": ["Question"],
                "retrieved_contexts": ["Passage 1"],
                "reference": ["Right answer"],
                "response": ["Answer system A", "Answer system B"],
            },
        ),
        (["answer", "answer 2", "Question id"], {"response": ["answer"], "id": ["Question id"]}),
    ],
)
def test_names_suggest_fields(names: list[str], guesses: dict[str, list[str]]) -> None:
    found = guess_columns(names)
    assert {field: columns for field, columns in found.items() if columns} == guesses


def test_a_preview_has_the_texts_of_each_column(tmp_path: Path) -> None:
    file = tmp_path / "data.csv"
    file.write_bytes("Nummer;Ort\n;Ulm\n12;\n1234;K\xf6ln\n".encode("cp1252"))
    assert preview_columns([str(file)]) == {"Nummer": ["12", "1234"], "Ort": ["Ulm", "K\xf6ln"]}


def test_numbers_and_lists_are_previewed_as_text(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text('{"a": 42, "b": ["x", "y"], "c": null}\n', encoding="utf-8")
    assert preview_columns([str(file)]) == {"a": ["42"], "b": ["['x', 'y']"], "c": []}


def test_unused_columns_that_look_like_evidence() -> None:
    """By name, by a used column's name without its number, or by length; not if empty.

    The median length is that of LONG in "Notiz", and 1 in "Anmerkung", where one of three is long.
    """
    columns = {
        "Passus 1": ["x"],
        "Passus 2": ["x"],
        "Quelle": ["x"],
        "Notiz": ["x", LONG, LONG],
        "Anmerkung": ["x", "y", LONG],
        "Abteilung": ["x"],
        "Quelle 2": [],
    }
    assert unused_evidence(columns, ["Passus 1"], ["Passus 1"]) == ["Passus 2", "Quelle", "Notiz"]
