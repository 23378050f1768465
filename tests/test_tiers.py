"""Which tests are of which tier, and that a unit test opens no model."""

from pathlib import Path

import pytest

from localjudge import resources

from .conftest import ENGINE

ROOT = Path(__file__).parent.parent


def test_this_test_is_a_unit_test(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("unit")
    assert not request.node.get_closest_marker("engine")


@pytest.mark.parametrize("begin", ENGINE)
def test_every_test_that_is_named_is_there(begin: str) -> None:
    """A file that was moved would become a unit test."""
    file, _, name = begin.partition("::")
    assert (ROOT / file).exists()
    assert f"\ndef {name}" in (ROOT / file).read_text(encoding="utf-8") if name else True


def test_a_unit_test_cannot_open_a_model() -> None:
    """Not even the bundled one."""
    from localjudge.engine.llamacpp.library import llama_cpp

    with pytest.raises(AssertionError, match=r"a unit test tried to open the model .*reference-judge\.gguf"):
        llama_cpp.llama_model_load_from_file(bytes(resources.model_file("reference-judge.gguf")), None)
