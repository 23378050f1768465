"""The header of a GGUF file: read whole, or refused with what is wrong."""

import struct
from pathlib import Path

import pytest
import random_model
from gguf import GGML_QUANT_SIZES, GGUFWriter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localjudge.engine.llamacpp import gguf as gguf_header
from localjudge.errors import ModelError

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_model.write(tmp_path_factory.mktemp("header") / "model.gguf", random_model.byte_vocabulary())


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
    header = gguf_header.read(tmp_path / "keys.gguf")
    assert header.lengths == {"numbers": 3, "words": 2}
    keys = dict(header.keys)
    assert keys.pop("general.architecture") == "llama"
    assert keys == {
        "u8": 200,
        "i8": -3,
        "u16": 60_000,
        "i16": -300,
        "u32": 4_000_000_000,
        "i32": -70_000,
        "u64": 2**63,
        "i64": -(2**40),
        "f32": 0.5,
        "f64": 0.1,
        "yes": True,
        "text": "日本 😀",
        "numbers": (1, 2, 3),
        "words": (),
    }


@pytest.mark.parametrize("quantisation", list(random_model.QUANTISATIONS))
def test_the_weights_are_the_rest_of_the_file(tmp_path: Path, quantisation: str) -> None:
    """Header, padding and weights add up to the file, for every kind of quantisation."""
    path = random_model.write(
        tmp_path / "model.gguf",
        random_model.byte_vocabulary(),
        shape=random_model.Shape(width=256),
        quantisation=quantisation,
    )
    header = gguf_header.read(path)
    assert "blk.1.ffn_down.weight" in header.tensors
    start = path.read_bytes().index(b"output_norm.weight")
    assert path.stat().st_size - start - 20_000 < header.weight_bytes < path.stat().st_size - start


def test_a_file_that_lacks_its_last_byte_is_cut_off(tmp_path: Path, model: Path) -> None:
    short = tmp_path / "short.gguf"
    whole = model.read_bytes()
    ends = whole.rstrip(b"\0")  # the writer pads the last tensor, which llama.cpp does not ask for
    short.write_bytes(ends[:-64])
    with pytest.raises(ModelError, match=rf"is cut off: it has {len(ends) - 64:,} bytes and should have") as caught:
        gguf_header.read(short)
    assert "download or copy the model again" in str(caught.value)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_is_an_error_of_ours_or_harmless(model: Path, tmp_path: Path, data: st.DataObject) -> None:
    """Any bytes in place of any others, and any cut: never another exception, never a hang."""
    whole = bytearray(model.read_bytes()[:12_000])
    start = data.draw(st.integers(0, len(whole) - 1))
    whole[start : start + 8] = data.draw(st.binary(min_size=0, max_size=8))
    path = tmp_path / "damaged.gguf"
    path.write_bytes(bytes(whole))
    with pytest.raises(ModelError) as caught:
        gguf_header.read(path)
    assert str(path) in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"),
        (b"\0", "is not a GGUF model"),
        (b"<!DOCTYPE html><html>404", "a web page: the download went wrong"),
        (b"\n <html>", "a web page"),
        (struct.pack("<Q", 8) + b'{"a": {}}', "a safetensors file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00", "a Git LFS pointer"),
        (b"PK\x03\x04\x14\x00archive/data.pkl", "a zip archive"),
        (b"\x80\x02}q\x00.", "a Python pickle"),
        (b"\x1f\x8b\x08\x00", "compressed with gzip"),
        (b"tjgg\x03\x00\x00\x00", "a GGML file from before GGUF"),
        (b"GGUF\x01\x00\x00\x00" + bytes(16), "version 1"),
        (b"GGUF\x00\x00\x00\x03" + bytes(16), "version 50331648"),
        (b"GGUF\x03\x00\x00\x00" + bytes(8) + b"\xff" * 8, "damaged or cut off"),
    ],
)
def test_what_is_not_a_gguf_file_is_named(tmp_path: Path, content: bytes, what: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=what) as caught:
        gguf_header.read(path)
    assert caught.value.hint


def test_a_list_longer_than_the_file_is_damage_not_a_wait(tmp_path: Path) -> None:
    """A count of 2^60 must not be believed."""
    key = struct.pack("<Q", 1) + b"k"
    for kind in (0, 8, 12):
        path = tmp_path / f"{kind}.gguf"
        path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + key + struct.pack("<IIQ", 9, kind, 2**60))
        with pytest.raises(ModelError, match="damaged or cut off"):
            gguf_header.read(path)


def test_a_file_that_may_not_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read: No such file"):
        gguf_header.read(tmp_path / "gone.gguf")


def test_the_size_of_every_kind_of_tensor_is_that_of_the_gguf_package() -> None:
    """Weights in a block, and its bytes. What is newer than either list is read without a size."""
    theirs = {int(kind): sizes for kind, sizes in GGML_QUANT_SIZES.items()}
    both = theirs.keys() & gguf_header._BLOCKS.keys()
    assert len(both) >= 30
    assert {kind: gguf_header._BLOCKS[kind] for kind in both} == {kind: theirs[kind] for kind in both}
