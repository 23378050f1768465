"""Writes a GGUF file, version 3: metadata, then tensors, each at a multiple of 32 bytes.

Written here so that the bytes depend on nothing but the values: no library's version, no dictionary order.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_VERSION, _ALIGNMENT, _BLOCK = 3, 32, 32
_UINT8, _UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 0, 4, 5, 6, 7, 8, 9

Value = bytes | bool | int | float | str | Sequence[int] | Sequence[float] | Sequence[str]


class Tensor(NamedTuple):
    """Bytes of a tensor as ggml keeps them."""

    shape: tuple[int, ...]
    """Rows first, as in NumPy; the file has them the other way round."""
    kind: int
    data: bytes


def float32(values: NDArray[np.floating]) -> Tensor:
    """A tensor of single precision."""
    return Tensor(values.shape, 0, values.astype("<f4").tobytes())


def float16(values: NDArray[np.floating]) -> Tensor:
    """A tensor of half precision."""
    return Tensor(values.shape, 1, values.astype("<f2").tobytes())


def q8_0(values: NDArray[np.floating]) -> Tensor:
    """A tensor in blocks of 32 values: a half-precision scale, then whole numbers from -127 to 127."""
    blocks = values.astype(np.float64).reshape(-1, _BLOCK)
    scale = np.abs(blocks).max(axis=1, keepdims=True) / 127
    whole = np.rint(np.divide(blocks, scale, out=np.zeros_like(blocks), where=scale > 0))
    packed = np.concatenate([scale.astype("<f2").view(np.int8).reshape(-1, 2), whole.astype(np.int8)], axis=1)
    return Tensor(values.shape, 8, packed.tobytes())


def file_bytes(metadata: Mapping[str, Value], tensors: Mapping[str, Tensor]) -> bytes:
    """The whole file."""
    head = b"GGUF" + struct.pack("<IQQ", _VERSION, len(tensors), len(metadata))
    parts = [head, *(_string(key) + _typed(value) for key, value in metadata.items())]
    offset = 0
    for name, tensor in tensors.items():
        sizes = tensor.shape[::-1]
        parts.append(_string(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, tensor.kind, offset))
        offset += len(_padded(tensor.data))
    return b"".join([_padded(b"".join(parts)), *(_padded(tensor.data) for tensor in tensors.values())])


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNMENT)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _typed(value: Value) -> bytes:
    if isinstance(value, str | bool | int | float):
        return struct.pack("<I", _kind(value)) + _bare(value)
    if isinstance(value, bytes):
        return struct.pack("<IIQ", _ARRAY, _UINT8, len(value)) + value
    kind = _INT32 if isinstance(value[0], int) else _kind(value[0])  # llama.cpp takes no other whole numbers in a list
    return struct.pack("<IIQ", _ARRAY, kind, len(value)) + b"".join(map(_bare, value))


def _kind(value: str | bool | int | float) -> int:
    if isinstance(value, str):
        return _STRING
    if isinstance(value, bool):
        return _BOOL
    if isinstance(value, float):
        return _FLOAT32
    return _UINT32


def _bare(value: str | bool | int | float) -> bytes:
    if isinstance(value, str):
        return _string(value)
    return struct.pack({_BOOL: "<?", _UINT32: "<I", _FLOAT32: "<f"}[_kind(value)], value)
