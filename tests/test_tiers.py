"""Which tests are of which tier, and that a unit test opens no model."""

import pytest

from localjudge import resources


def test_this_test_is_a_unit_test(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("unit")
    assert not request.node.get_closest_marker("engine")


def test_a_unit_test_cannot_open_a_model() -> None:
    """Not even the bundled one."""
    from localjudge.engine.llamacpp.model import llama_cpp

    with pytest.raises(AssertionError, match=r"a unit test tried to open the model .*reference-judge\.gguf"):
        llama_cpp.llama_model_load_from_file(bytes(resources.model_file("reference-judge.gguf")), None)
