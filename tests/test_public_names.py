"""`import localjudge` gives every public name, quickly, and no other."""

import subprocess
import sys
import time

import pytest

import localjudge


def test_the_public_names_are_there_and_few() -> None:
    assert dir(localjudge) == localjudge.__all__ == sorted(localjudge.__all__)
    assert len(localjudge.__all__) <= 16
    for name in (*localjudge.__all__, "__version__"):
        assert getattr(localjudge, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = localjudge.nothing  # type: ignore[attr-defined]


def test_the_import_takes_less_than_150_milliseconds() -> None:
    """Measured in fresh interpreters against importing nothing; the best of five each, as others use the machine."""

    def seconds(program: str) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True)
        return time.perf_counter() - started

    imported, nothing = (min(seconds(statement) for _ in range(5)) for statement in ("import localjudge", "pass"))
    assert imported - nothing < 0.15
