"""The parts of a layer, as matrices with biases: attention heads and gated products.

    attention   softmax(query . key / sqrt(HEAD_WIDTH)) weighs the values of all tokens up to this one
    product     silu(20 gate) / 20 * linear,  which for a gate of 0 or 1 is gate * linear

A head is written in terms of logits: `match` adds gain * (these dimensions here . those dimensions there), `prefer`
adds a linear function of the key's token, `near` a bump over distances. Every query part is scaled by sqrt(HEAD_WIDTH)
to undo llama.cpp's own division.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from .layout import FACT, WIDTH
from .positions import HEAD_WIDTH, PAIRS, Bump

Floats = NDArray[np.float64]
Linear = Mapping[int, float]
"""A linear function of a vector: coefficient by dimension."""
STEEPNESS = 20.0
PRODUCTS = 64
HEADS = 4
_KEY_SHARE = 16.0


class Head:
    """One attention head: what it looks for, where, and what it brings."""

    def __init__(self) -> None:
        self.query = np.zeros((HEAD_WIDTH, WIDTH))
        self.query_bias = np.zeros(HEAD_WIDTH)
        self.key = np.zeros((HEAD_WIDTH, WIDTH))
        self.value = np.zeros((HEAD_WIDTH, WIDTH))
        self.output = np.zeros((WIDTH, HEAD_WIDTH))
        self._still = 2 * PAIRS
        self._values = 0

    def near(self, bump: Bump) -> "Head":
        """Add the bump's logit at the distance between the two tokens."""
        root = math.sqrt(HEAD_WIDTH)
        for pair, (cosine, sine) in enumerate(zip(bump.cosine, bump.sine, strict=True)):
            share = max(math.hypot(cosine, sine) ** 0.5, 1e-3)
            self.query_bias[2 * pair] = root * cosine / share
            self.query_bias[2 * pair + 1] = -root * sine / share
            self.key[2 * pair, FACT["one"]] = share
        return self

    def match(self, here: Sequence[int], there: Sequence[int], gain: float) -> "Head":
        """Add gain times the dot product of dimensions of the query's token with dimensions of the key's."""
        for mine, theirs in zip(here, there, strict=True):
            self.query[self._still, mine] = gain * math.sqrt(HEAD_WIDTH)
            self.key[self._still, theirs] = 1.0
            self._still += 1
        return self

    def prefer(self, linear: Linear) -> "Head":
        """Add a linear function of the key's token, whatever the query."""
        self.query_bias[self._still] = _KEY_SHARE * math.sqrt(HEAD_WIDTH)
        for dimension, coefficient in linear.items():
            self.key[self._still, dimension] = coefficient / _KEY_SHARE
        self._still += 1
        return self

    def bring(self, linear: Linear, to: int) -> "Head":
        """Add the attended tokens' mean of a linear function to dimension `to`."""
        for dimension, coefficient in linear.items():
            self.value[self._values, dimension] = coefficient
        self.output[to, self._values] = 1.0
        self._values += 1
        return self


class Products:
    """The feed-forward part of a layer: at most PRODUCTS gated products."""

    def __init__(self) -> None:
        self.gate = np.zeros((PRODUCTS, WIDTH))
        self.gate_bias = np.zeros(PRODUCTS)
        self.up = np.zeros((PRODUCTS, WIDTH))
        self.up_bias = np.zeros(PRODUCTS)
        self.down = np.zeros((WIDTH, PRODUCTS))
        self._used = 0

    def add(self, gate: Linear, times: Linear, to: int, gain: float = 1.0) -> "Products":
        """Add gain * soft_step(gate) * times to dimension `to`. Key -1 of a linear function is its constant."""
        self._fill(self.gate, self.gate_bias, gate, STEEPNESS)
        self._fill(self.up, self.up_bias, times, 1.0)
        self.down[to, self._used] = gain / STEEPNESS
        self._used += 1
        return self

    def _fill(self, matrix: Floats, bias: Floats, linear: Linear, gain: float) -> None:
        for dimension, coefficient in linear.items():
            if dimension == -1:
                bias[self._used] = gain * coefficient
            else:
                matrix[self._used, dimension] = gain * coefficient


class Layer:
    """HEADS attention heads that read one vector, then products that read the result."""

    def __init__(self, heads: Sequence[Head], products: Products) -> None:
        self.heads = [*heads, *(Head() for _ in range(HEADS - len(heads)))]
        self.products = products

    def tensors(self, number: int) -> dict[str, Floats]:
        """Weights by llama.cpp's names; each matrix has one row per output."""
        named = {
            "attn_q.weight": np.concatenate([head.query for head in self.heads]),
            "attn_q.bias": np.concatenate([head.query_bias for head in self.heads]),
            "attn_k.weight": np.concatenate([head.key for head in self.heads]),
            "attn_v.weight": np.concatenate([head.value for head in self.heads]),
            "attn_output.weight": np.concatenate([head.output for head in self.heads], axis=1),
            "ffn_gate.weight": self.products.gate,
            "ffn_gate.bias": self.products.gate_bias,
            "ffn_up.weight": self.products.up,
            "ffn_up.bias": self.products.up_bias,
            "ffn_down.weight": self.products.down,
        }
        return {f"blk.{number}.{name}": tensor for name, tensor in named.items()}
