"""What the tests of several adapters share."""

from collections.abc import Iterator

import pytest

import localjudge


@pytest.fixture
def judge() -> Iterator[localjudge.Judge]:
    """It believes all but two sentences, and fails on a third."""
    script: dict[str, float | str] = {
        "It is blue.": 0.1,
        "It flows through ten countries.": 0.2,
        "It fails.": "out of words",
    }
    with localjudge.Judge.open(engine=localjudge.ScriptedEngine(script, default=0.9)) as opened:
        yield opened
