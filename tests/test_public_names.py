"""`import localjudge` gives every public name, quickly."""

import subprocess
import sys
import time

import pytest

import localjudge


@pytest.mark.parametrize("name", localjudge.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(localjudge, name) is not None
    assert name in dir(localjudge)


def test_public_names_are_sorted() -> None:
    assert sorted(localjudge.__all__) == localjudge.__all__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = localjudge.nothing


def test_the_import_takes_less_than_150_milliseconds() -> None:
    """Measured in fresh interpreters against importing nothing; the best of five each, as others use the machine."""

    def seconds(program: str) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True)
        return time.perf_counter() - started

    imported, nothing = (min(seconds(statement) for _ in range(5)) for statement in ("import localjudge", "pass"))
    assert imported - nothing < 0.15
