"""TOML that a user or a stranger wrote: a table, or an error that says what is wrong with it."""

import tomllib
from typing import Any

from localjudge.errors import UsageError


def parse_toml(content: bytes, file: str, *, hint: str = "mend the file") -> dict[str, Any]:
    """The table. Raises UsageError, which calls the file what `file` says, for anything else."""
    try:
        return tomllib.loads(content.decode())
    except RecursionError as error:
        raise UsageError(f"{file} is not TOML: its values are nested too deep", hint=hint) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not TOML: {error}", hint=hint) from error
