"""JSON as rows: one object on each line (JSONL)."""

import json
from collections.abc import Iterable, Iterator

from localjudge.dataset.problems import Place, Problem, describe
from localjudge.dataset.rows import RawRow


def read_lines(lines: Iterable[str], source: str) -> Iterator[RawRow | Problem]:
    """One row for each line that is not blank."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        place = Place(source, line=number)
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield Problem(place=str(place), field=None, found=f"no valid JSON ({error})", expected="one JSON object")
            continue
        if isinstance(value, dict):
            yield RawRow(place, value)
        else:
            yield Problem(place=str(place), field=None, found=describe(value), expected="an object with columns")
