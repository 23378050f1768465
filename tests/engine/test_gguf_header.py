import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import random_model
from gguf import GGUFWriter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localjudge import Judge, ModelError
from localjudge.engine import gguf as header
from localjudge.engine import memory
from tests.local_models.conftest import gguf

pytestmark = pytest.mark.engine


def test_every_kind_of_value_is_read(tmp_path: Path) -> None:
    writer = GGUFWriter(tmp_path / "keys.gguf", "llama")
    values: dict[str, Any] = {
        "uint8": 200,
        "int8": -3,
        "uint16": 60_000,
        "int16": -300,
        "uint32": 4_000_000_000,
    }
    values |= {"int32": -70_000, "uint64": 2**63, "int64": -(2**40), "float32": 0.5, "float64": 0.1}
    values |= {"bool": True, "string": "日本 😀"}
    for kind, value in values.items():
        getattr(writer, f"add_{kind}")(kind, value)
    writer.add_array("numbers", [1, 2, 3])
    writer.add_array("words", ["a", "b"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    read = header.read(tmp_path / "keys.gguf")
    assert read.lengths == {"numbers": 3, "words": 2}
    assert read.keys == {
        "general.architecture": "llama",
        **values,
        "numbers": (1, 2, 3),
        "words": (),
    }


@pytest.mark.parametrize("template", [None, random_model.CHAT_TEMPLATE])
@pytest.mark.parametrize("quantisation", list(random_model.QUANTISATIONS))
def test_the_header_gives_facts_without_opening_the_model(
    tmp_path: Path, quantisation: str, template: str | None
) -> None:
    """The weights are the rest of the file."""
    vocabulary = random_model.piece_vocabulary()
    path = random_model.write(
        tmp_path / "m.gguf", vocabulary, quantisation=quantisation, chat_template=template
    )
    rest = path.stat().st_size - path.read_bytes().index(b"output_norm.weight")
    assert rest - 20_000 < header.read(path).weight_bytes < rest
    model = header.read_model(path)
    assert str(model.quantisation).startswith(quantisation)
    assert ("tokenizer.chat_template" in model.keys) == (template is not None)
    assert model.size("context_length") == memory.context_for(model, None) == 2048


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_header_is_a_localjudge_error_or_harmless(
    tmp_path: Path, data: st.DataObject
) -> None:
    """Any bytes may change, or the file may end early."""
    path = tmp_path / "damaged.gguf"
    whole = bytearray(gguf(path).read_bytes())
    start = data.draw(st.integers(0, len(whole) - 1))
    whole[start : start + 8] = data.draw(st.binary(min_size=0, max_size=8))
    path.write_bytes(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    with suppress(ModelError):
        model = header.read_model(path)
        assert memory.needed_bytes(model, memory.context_for(model, None)) >= 0


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (None, "cannot be read: No such file"),
        (b"", "is empty"),
        (b"\0", "is not a GGUF model"),
        (b"<!DOCTYPE html><html>404", "is not a GGUF model"),
        (b"GGUF\x01\x00\x00\x00" + bytes(16), "version 1"),
        (b"GGUF\x00\x00\x00\x03" + bytes(16), "version 50331648"),
        (b"GGUF\x03\x00\x00\x00" + bytes(8) + b"\xff" * 8, "damaged or truncated"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes | None, what: str) -> None:
    path = tmp_path / "model.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelError, match=what) as caught:
        header.read(path)
    assert caught.value.hint


@pytest.mark.skipif(sys.platform == "win32", reason="Windows fills such a file with zeros")
def test_other_files_are_refused_before_their_checksum(tmp_path: Path) -> None:
    """A checksum of a sparse file of 1 TiB would take an hour, beyond the limit of a test."""
    path = tmp_path / "sparse.gguf"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ModelError, match=r"sparse\.gguf .*not a GGUF"):
        Judge.open(str(path))


LIST = 9


@pytest.mark.parametrize(
    "types",
    [(13,), (2**32 - 1,), (LIST, LIST), (LIST, 13), (LIST, 2**31)],
    ids=["next", "largest", "list of lists", "list of next", "list of large"],
)
def test_a_value_of_an_unknown_type_is_refused_with_its_key(
    tmp_path: Path, types: tuple[int, ...]
) -> None:
    """GGUF defines the types 0 to 12, and lists of all types except lists.

    A reader that guesses the length of such a value would read the rest of the file as keys.
    """
    value = struct.pack(f"<{len(types)}I", *types) + struct.pack("<QQ", 1, 0)
    path = tmp_path / "unusual.gguf"
    key = struct.pack("<Q", 3) + b"odd"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + key + value)
    with pytest.raises(ModelError, match=rf"unusual\.gguf .*'odd'.* {types[-1]}") as caught:
        header.read(path)
    assert caught.value.hint


@pytest.mark.parametrize("kind", [0, 8, 12])
@pytest.mark.parametrize("count", [2**60, 2])
def test_a_list_longer_than_the_file_is_refused_at_once(
    tmp_path: Path, kind: int, count: int
) -> None:
    """With a count of 2^60, or of 2 at the end of the file."""
    key = struct.pack("<Q", 1) + b"k"
    path = tmp_path / "long.gguf"
    path.write_bytes(
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + key + struct.pack("<IIQ", 9, kind, count)
    )
    with pytest.raises(ModelError, match="damaged or truncated"):
        header.read(path)
