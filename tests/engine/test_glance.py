"""A glance at a header: what all of it says, without reading all of it."""

import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import random_model
from gguf import LlamaFileType
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localjudge.engine.llamacpp import gguf as header
from localjudge.errors import ModelError
from tests.local_models.conftest import gguf

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("template", [None, random_model.CHAT_TEMPLATE])
@pytest.mark.parametrize("quantisation", ["F16", "Q8_0", "Q4_0"])
def test_a_glance_says_what_the_whole_header_says(tmp_path: Path, quantisation: str, template: str | None) -> None:
    path = random_model.write(
        tmp_path / "model.gguf", random_model.piece_vocabulary(), quantisation=quantisation, chat_template=template
    )
    facts = header.facts_of(path, None)
    checked = header.check(path)
    assert (facts.quantisation, facts.chat_template) == (quantisation, template is not None)
    assert facts.trained_context == checked.number("context_length")
    assert facts.n_ctx == header.context_for(checked, None)
    whole = header.needed(checked, n_ctx=facts.n_ctx, n_ubatch=header.UBATCH).total
    assert 0 <= facts.memory_bytes - whole <= path.stat().st_size - checked.weight_bytes  # the header counts as weights


@pytest.mark.parametrize("words", [1, 1_000, 400_000])
def test_what_stands_behind_a_vocabulary_is_found_however_long_it_is(tmp_path: Path, words: int) -> None:
    """400,000 words take 6 MB: more than is searched at once."""
    path = gguf(tmp_path / "model.gguf", words=words)
    seen = header.glance_at_model(path)[1]
    assert (seen.chat_template, seen.file_type, seen.tensors) == (True, 15, 1)
    assert seen.header.lengths["tokenizer.ggml.tokens"] == words
    bare = header.glance_at_model(gguf(tmp_path / "bare.gguf", words=words, template=False))[1]
    assert (bare.chat_template, bare.file_type) == (False, 15)


@pytest.mark.parametrize("at", range((1 << 21) - 80, (1 << 21) + 40, 7))
def test_a_key_on_the_edge_between_two_looks_is_found(tmp_path: Path, at: int) -> None:
    """One long word in the vocabulary pushes the key to any place around the edge."""
    whole = gguf(tmp_path / "model.gguf", words=1).read_bytes()
    word = struct.pack("<Q", 2) + b"w0"
    path = tmp_path / "pushed.gguf"
    path.write_bytes(whole.replace(word, struct.pack("<Q", at) + b"w" * at, 1) + bytes(64))
    assert header.read(path).text("tokenizer.chat_template")
    seen = header.glance_at_model(path)[1]
    assert (seen.chat_template, seen.file_type) == (True, 15)


@pytest.mark.parametrize(
    ("architecture", "keys", "why"),
    [
        ("bert", {}, "turns a text into a vector"),
        ("clip", {}, "is the image part"),
        ("llama", {"general__type": "adapter"}, "is not a model, but an adapter"),
        ("llama", {"general__type": "mmproj"}, "is not a model, but a projector"),
    ],
)
def test_what_cannot_judge_is_refused_as_when_it_is_opened(
    tmp_path: Path, architecture: str, keys: dict[str, Any], why: str
) -> None:
    path = gguf(tmp_path / "model.gguf", architecture, **keys)
    with pytest.raises(ModelError, match=why):
        header.facts_of(path, None)
    with pytest.raises(ModelError, match=why):
        header.check(path)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_is_an_error_of_ours_or_harmless(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "damaged.gguf"
    whole = bytearray(gguf(path).read_bytes())
    start = data.draw(st.integers(0, len(whole) - 1))
    whole[start : start + 8] = data.draw(st.binary(min_size=0, max_size=8))
    path.write_bytes(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    with suppress(ModelError):
        assert header.facts_of(path, None).memory_bytes >= 0


def test_quantisations_are_called_as_the_gguf_package_calls_them() -> None:
    theirs = {int(kind): kind.name.removeprefix("MOSTLY_").removeprefix("ALL_") for kind in LlamaFileType}
    ours = header._FILE_TYPE_NAMES
    assert ours == {kind: theirs[kind] for kind in ours}
    assert len(ours) >= 30
