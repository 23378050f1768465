"""How the tests of the commands call them."""

import json
from pathlib import Path

import pytest

from localjudge.cli.main import main


def suite_here(**says: object) -> None:
    """Write localjudge.toml into the working directory."""
    Path("localjudge.toml").write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in says.items()))


def called(capfd: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[object, str, str]:
    """Exit code, output and errors of the command line in this process."""
    with pytest.raises(SystemExit) as ended:
        main(list(map(str, arguments)))
    return ended.value.code, *capfd.readouterr()
