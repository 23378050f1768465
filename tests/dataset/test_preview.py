"""Columns of the user's data are previewed, and their names suggest fields."""

from pathlib import Path

import pytest

from localjudge.dataset.preview import (
    ColumnPreview,
    guess_columns,
    is_label_file,
    preview_columns,
    unused_evidence,
)

LONG = "A text that explains in many words when and by whom the tower was built, and what it cost."


def column(name: str, example: str = "x", length: float = 1) -> ColumnPreview:
    return ColumnPreview(name, example, length)


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
    ],
)
def test_names_suggest_fields(names: list[str], guesses: dict[str, list[str]]) -> None:
    found = guess_columns(map(column, names))
    assert {field: columns for field, columns in found.items() if columns} == guesses


def test_a_preview_has_the_first_value_and_the_median_length(tmp_path: Path) -> None:
    """Lengths of the values: 2 and 4, so the median is 3."""
    file = tmp_path / "data.csv"
    file.write_bytes("Nummer;Ort\n;Ulm\n12;\n1234;K\xf6ln\n".encode("cp1252"))
    assert preview_columns([str(file)]) == [
        ColumnPreview("Nummer", "12", 3),
        ColumnPreview("Ort", "Ulm", 3.5),
    ]


def test_numbers_and_lists_are_previewed_as_text(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text('{"a": 42, "b": ["x", "y"], "c": null}\n', encoding="utf-8")
    assert [preview.example for preview in preview_columns([str(file)])] == ["42", "['x', 'y']", ""]


def test_unused_columns_that_look_like_evidence() -> None:
    """By name, by a used column's name without its number, or by length; not if empty."""
    columns = [
        column("Passus 1"),
        column("Passus 2"),
        column("Quelle"),
        column("Notiz", LONG, len(LONG) + 20),
        column("Abteilung"),
        column("Quelle 2", ""),
    ]
    assert unused_evidence(columns, ["Passus 1"], ["Passus 1"]) == ["Passus 2", "Quelle", "Notiz"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_a_label_file_is_recognised_in_any_encoding(tmp_path: Path, encoding: str) -> None:
    sheet = tmp_path / "sheet.csv"
    sheet.write_text("statement;human;label_id\n", encoding=encoding)
    assert is_label_file(sheet)
    data = tmp_path / "data.csv"
    data.write_text("human;text\n1;label\n", encoding=encoding)
    assert not is_label_file(data)
