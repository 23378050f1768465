"""What is said beside the results, and to whom."""

import json
from pathlib import Path

import pytest

from localjudge.cli.main import main


@pytest.mark.parametrize("verbose", [False, True])
def test_what_engineers_of_the_engine_want_to_know_is_said_if_asked(
    verbose: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps({"reference": "Mars is red.", "retrieved_contexts": ["The king lives."]}))
    with pytest.raises(SystemExit):
        main(["run", str(data), "--out", str(tmp_path / "run"), *(["--verbose"] if verbose else [])])
    errors = capfd.readouterr().err
    assert "asked 1 verdict in " in errors
    assert ("distinct tokens" in errors) == verbose
