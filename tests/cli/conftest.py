"""How the tests of the commands call them."""

from pathlib import Path

import pytest

from localjudge.cli.main import main


def called(capfd: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[object, str, str]:
    """Exit code, output and errors of the command line in this process."""
    with pytest.raises(SystemExit) as ended:
        main(list(map(str, arguments)))
    return ended.value.code, *capfd.readouterr()
