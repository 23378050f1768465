"""Answers of `localjudge start` are stored as a configuration file."""

import os
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from localjudge.cli.start_folder import StartFolder
from localjudge.config import read_config

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(NAMES, NAMES)
def test_any_column_name_is_read_back(question: str, answer: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        data = Path(name, "data.csv")
        data.touch()
        folder = StartFolder(Path(name, "folder"), (str(data),))
        mapping = {"user_input": question, "response": answer}
        folder.write_config({"mapping": mapping, "metrics": ["faithfulness"]})
        arguments = read_config(folder.config_file).arguments
        assert arguments["mapping"] == mapping
        assert Path(arguments["data"][0]).samefile(data)
        assert folder.run == folder.path / "run"


def test_a_file_is_offered_once(tmp_path: Path) -> None:
    """Read files are remembered by content, so an edited file is offered again."""
    data = tmp_path / "data.csv"
    data.write_text("question\n", encoding="utf-8")
    folder = StartFolder(tmp_path / "folder", (str(data),))
    folder.write_config({"metrics": ["faithfulness"]})
    labels = tmp_path / "labels-ann.jsonl"
    labels.write_text('{"label_id": "a", "human": 1}\n', encoding="utf-8")
    assert [file.resolve() for file in folder.label_files()] == [labels]
    folder.remember_read(labels)
    assert list(folder.label_files()) == []
    labels.write_text('{"label_id": "a", "human": 0}\n', encoding="utf-8")
    assert [file.resolve() for file in folder.label_files()] == [labels]


def test_an_empty_sheet_is_not_offered_and_the_newest_copy_comes_last(tmp_path: Path) -> None:
    """Empty cells of the sheet as written would withdraw the labels of its filled-in copy."""
    data = tmp_path / "data.csv"
    data.write_text("question\n", encoding="utf-8")
    folder = StartFolder(tmp_path / "folder", (str(data),))
    folder.write_config({"metrics": ["faithfulness"]})
    for minute, (name, human) in enumerate({"b-half": "1", "written": "", "a-whole": "0"}.items()):
        sheet = tmp_path / f"{name}.csv"
        sheet.write_text(
            f"statement,human,label_id\nIt rains.,{human},{'0' * 32}\n", encoding="utf-8"
        )
        os.utime(sheet, (minute, minute))
    assert [file.name for file in folder.label_files()] == ["b-half.csv", "a-whole.csv"]
