"""What the command line prints about runs that are on disk."""

import io
import json
import re
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import pytest

from localjudge import Run
from localjudge.cli.gates import GateOptions
from localjudge.cli.main import main

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def printed(*arguments: str | Path | Run, width: int = 120, colour: bool = False) -> str:
    """Run a command in this process, on a terminal of this width, and return what it prints.

    A run stands for its directory. Gates may fail; any other failure is one of the test.
    """
    words = [str(part.directory if isinstance(part, Run) else part) for part in arguments]
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        patch.delenv("NO_COLOR", raising=False)
        patch.delenv("FORCE_COLOR", raising=False)
        if colour:
            patch.setenv("FORCE_COLOR", "1")
            patch.setenv("TERM", "xterm-256color")
        with redirect_stdout(output), pytest.raises(SystemExit) as ended:
            main(words)
    assert ended.value.code in (0, 3), words
    text = output.getvalue()
    assert colour == bool(_COLOUR.search(text))
    return _COLOUR.sub("", text)


def printed_lines(*arguments: str | Path | Run, width: int = 100) -> list[str]:
    return [line.strip() for line in printed(*arguments, width=width).splitlines()]


def printed_summary(run: Run, *options: str, width: int = 200) -> str:
    """Return what `show` prints of the whole run, as words separated by one blank."""
    return " ".join(printed("show", run, "--worst", "0", *options, width=width).split())


def printed_slices(run: Run, column: str) -> list[dict[str, Any]]:
    """Return the slices of a run by the values of a column, as `show --by` prints them in JSON."""
    slices = json.loads(printed("show", run, "--by", column, "--json"))["slices"]
    assert isinstance(slices, list)
    return slices


def refused(*arguments: str | Path | Run) -> str:
    """Run a command that ends with exit code 1, and return its message."""
    words = [str(part.directory if isinstance(part, Run) else part) for part in arguments]
    message = io.StringIO()
    with redirect_stderr(message), pytest.raises(SystemExit, match=r"^1$"):
        main(words)
    return message.getvalue().strip()


def gate_file(
    kind: Literal["markdown", "junit"],
    run: Run,
    gates: Sequence[str] = (),
    *,
    baseline: Run | None = None,
    **options: Any,
) -> str:
    """Return the file for CI that `localjudge run` writes with these gates, of a finished run."""
    with TemporaryDirectory() as folder:
        file = Path(folder, kind)
        arguments = {"gates": gates, kind: file, **options}
        if baseline is not None:
            arguments["baseline"] = baseline.directory
        GateOptions(arguments).check(run)
        return file.read_text(encoding="utf-8")
