import struct

import numpy as np
import pytest
from start import MAGIC, read_base

PIECES = [b"<s>", b"\xe2\x96\x81a"]
SCORES = [0.0, -3.5]
TENSOR = np.array([1.0, 2.0], dtype=np.float32)


def base_file() -> bytes:
    """A file of the base's format with two pieces and one tensor."""
    head = MAGIC + struct.pack("<I7ifi", 1, 384, 12, 12, 1536, 250037, 512, 2, 1e-12, 32)
    text = b"".join(PIECES)
    starts = [0, len(PIECES[0]), len(text)]
    tokenizer = struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, len(text))
    tokenizer += struct.pack("<3I2f", *starts, *SCORES) + text
    rules = struct.pack("<iI", 1, 5) + b"\0" * 5
    name = b"emb.pos"
    entry_size = 2 + len(name) + 1 + 4 + 8 + 8
    before = head + tokenizer + rules + struct.pack("<i", 1)
    offset = len(before) + entry_size
    entry = struct.pack("<H", len(name)) + name + struct.pack("<BIQQ", 0, 2, offset, TENSOR.nbytes)
    return before + entry + TENSOR.tobytes()


def test_read_base_finds_pieces_scores_and_tensors() -> None:
    base = read_base(base_file())
    assert base.pieces == PIECES
    assert base.scores.tolist() == SCORES
    assert base.shape.width == 384
    assert base.shape.vocabulary == 250037
    assert base.tensors["emb.pos"].view(np.float32).tolist() == TENSOR.tolist()


@pytest.mark.parametrize("length", [3, 20, 60, 100])
def test_a_file_that_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="file"):
        read_base(base_file()[:length])


def test_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="begin"):
        read_base(b"GGUF" + base_file()[4:])
