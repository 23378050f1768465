"""The header of a GGUF file: read whole, or refused with what is wrong."""

import struct
from contextlib import suppress
from pathlib import Path

import pytest
import random_model
from gguf import GGUFWriter, LlamaFileType
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localjudge.engine.llamacpp import gguf as header
from localjudge.errors import ModelError
from tests.local_models.conftest import gguf

pytestmark = pytest.mark.engine


def test_every_kind_of_value_is_read(tmp_path: Path) -> None:
    writer = GGUFWriter(tmp_path / "keys.gguf", "llama")
    writer.add_uint8("u8", 200)
    writer.add_int8("i8", -3)
    writer.add_uint16("u16", 60_000)
    writer.add_int16("i16", -300)
    writer.add_uint32("u32", 4_000_000_000)
    writer.add_int32("i32", -70_000)
    writer.add_uint64("u64", 2**63)
    writer.add_int64("i64", -(2**40))
    writer.add_float32("f32", 0.5)
    writer.add_float64("f64", 0.1)
    writer.add_bool("yes", True)
    writer.add_string("text", "日本 😀")
    writer.add_array("numbers", [1, 2, 3])
    writer.add_array("words", ["a", "b"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    read = header.read(tmp_path / "keys.gguf")
    assert read.lengths == {"numbers": 3, "words": 2}
    numbers = {"u8": 200, "i8": -3, "u16": 60_000, "i16": -300, "u32": 4_000_000_000, "i32": -70_000, "u64": 2**63}
    others = {"i64": -(2**40), "f32": 0.5, "f64": 0.1, "yes": True, "text": "日本 😀"}
    assert read.keys == {"general.architecture": "llama", **numbers, **others, "numbers": (1, 2, 3), "words": ()}


@pytest.mark.parametrize("quantisation", list(random_model.QUANTISATIONS))
def test_the_weights_are_the_rest_of_the_file(tmp_path: Path, quantisation: str) -> None:
    path = random_model.write(tmp_path / "model.gguf", random_model.byte_vocabulary(), quantisation=quantisation)
    start = path.read_bytes().index(b"output_norm.weight")
    weights = header.read(path).weight_bytes
    assert path.stat().st_size - start - 20_000 < weights < path.stat().st_size - start


@pytest.mark.parametrize("template", [None, random_model.CHAT_TEMPLATE])
@pytest.mark.parametrize("quantisation", ["F16", "Q8_0", "Q4_0"])
def test_facts_are_told_without_opening_the_model(tmp_path: Path, quantisation: str, template: str | None) -> None:
    path = random_model.write(
        tmp_path / "model.gguf", random_model.piece_vocabulary(), quantisation=quantisation, chat_template=template
    )
    facts = header.facts_of(path, None)
    assert (facts.quantisation, facts.chat_template) == (quantisation, template is not None)
    assert (facts.trained_context, facts.n_ctx) == (2048, 2048)
    assert facts.memory_bytes == header.needed(header.check(path), n_ctx=2048).total


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_is_an_error_of_ours_or_harmless(tmp_path: Path, data: st.DataObject) -> None:
    """Any bytes in place of any others, and any cut: never another exception, never a hang."""
    path = tmp_path / "damaged.gguf"
    whole = bytearray(gguf(path).read_bytes())
    start = data.draw(st.integers(0, len(whole) - 1))
    whole[start : start + 8] = data.draw(st.binary(min_size=0, max_size=8))
    path.write_bytes(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    with suppress(ModelError):
        assert header.facts_of(path, None).memory_bytes >= 0


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"),
        (b"\0", "is not a GGUF model"),
        (b"<!DOCTYPE html><html>404", "is not a GGUF model"),
        (b"GGUF\x01\x00\x00\x00" + bytes(16), "version 1"),
        (b"GGUF\x00\x00\x00\x03" + bytes(16), "version 50331648"),
        (b"GGUF\x03\x00\x00\x00" + bytes(8) + b"\xff" * 8, "damaged or cut off"),
    ],
)
def test_what_is_not_a_gguf_file_is_refused(tmp_path: Path, content: bytes, what: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=what) as caught:
        header.read(path)
    assert caught.value.hint


@pytest.mark.parametrize("kind", [0, 8, 12])
@pytest.mark.parametrize("count", [2**60, 2])
def test_a_list_longer_than_the_file_is_damage_not_a_wait(tmp_path: Path, kind: int, count: int) -> None:
    """A count of 2^60 must not be believed; nor one of 2 at the end of the file."""
    key = struct.pack("<Q", 1) + b"k"
    path = tmp_path / "long.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + key + struct.pack("<IIQ", 9, kind, count))
    with pytest.raises(ModelError, match="damaged or cut off"):
        header.read(path)


def test_a_file_that_may_not_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read: No such file"):
        header.read(tmp_path / "gone.gguf")


def test_quantisations_are_called_as_the_gguf_package_calls_them() -> None:
    theirs = {int(kind): kind.name.removeprefix("MOSTLY_").removeprefix("ALL_") for kind in LlamaFileType}
    ours = header._FILE_TYPE_NAMES
    assert ours == {kind: theirs[kind] for kind in ours}
