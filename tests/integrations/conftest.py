from collections.abc import Iterator

import pytest

import localjudge


@pytest.fixture
def judge() -> Iterator[localjudge.Judge]:
    script: dict[str, float | str] = {"It is blue.": 0.1, "It flows through ten countries.": 0.2}
    engine = localjudge.ScriptedEngine({**script, "It fails.": "out of words"}, default=0.9)
    with localjudge.Judge.open(engine=engine) as opened:
        yield opened
