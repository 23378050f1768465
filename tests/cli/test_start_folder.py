"""Answers of `localjudge start` are stored as a configuration file."""

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
