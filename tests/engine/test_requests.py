import pytest

from localjudge.engine.prompts import require_room
from localjudge.metrics import SampleError


@pytest.mark.parametrize(
    ("tokens", "capacity", "trained", "asks_for_more"),
    [(600, 512, 4096, True), (4096, 512, 4096, True), (600, 512, 512, False), (9, 4, 8, False)],
)
def test_a_larger_context_is_advised_only_if_the_model_has_it(
    tokens: int, capacity: int, trained: int, asks_for_more: bool
) -> None:
    """A model that was trained with 512 tokens ignores a larger n_ctx."""
    with pytest.raises(SampleError, match=f"{tokens} tokens.* holds {capacity}") as caught:
        require_room(tokens, capacity, trained, "the prompt has")
    hint = caught.value.hint or ""
    assert ("n_ctx" in hint) == asks_for_more
    assert str(trained) in hint


def test_what_fits_is_not_refused() -> None:
    require_room(512, 512, 512, "the prompt has")
