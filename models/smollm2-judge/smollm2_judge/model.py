"""SmolLM2 with a LoRA adapter in plain torch, from the weights of a GGUF file, for statements that share contexts.

    h = embedding[tokens]
    each layer:  h += O(attention(Q, K, V of norm(h)))      Q, K turned by pairs (2i, 2i + 1), as in the file
                 h += down(silu(gate(norm(h))) * up(norm(h)))
    logit = norm(h at the last token) @ (embedding["Yes"] - embedding["No"])

Every matrix W becomes W + scale * B A with A and B trained. The last layer computes only the last token of each branch.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import gguf
import numpy as np
import torch
from gguf.quants import dequantize
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor, nn
from torch.nn import functional

from .batches import ANSWERS, Group, Tokenize

RANK, SCALE = 16, 2.0
FUSED = {
    "qkv": ("attn_q", "attn_k", "attn_v"),
    "out": ("attn_output",),
    "in": ("ffn_gate", "ffn_up"),
    "down": ("ffn_down",),
}
"""Matrices that read the same input, by the name of their adapter."""


class Shape(NamedTuple):
    """The numbers of the architecture that the file states."""

    layers: int
    heads: int
    kv_heads: int
    width: int
    rope_base: float
    epsilon: float


def read_shape(reader: gguf.GGUFReader) -> Shape:
    """Return the architecture's numbers."""

    def number(name: str) -> float:
        return float(reader.fields[f"llama.{name}"].contents())

    return Shape(
        layers=int(number("block_count")),
        heads=int(number("attention.head_count")),
        kv_heads=int(number("attention.head_count_kv")),
        width=int(number("embedding_length")),
        rope_base=number("rope.freq_base"),
        epsilon=number("attention.layer_norm_rms_epsilon"),
    )


def read_tokenizer(reader: gguf.GGUFReader) -> Tokenize:
    """Return the file's own tokenizer as a function: byte pairs, each digit apart, no special tokens in text."""
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(pair.split(" ")) for pair in reader.fields["tokenizer.ggml.merges"].contents()]
    tokenizer = Tokenizer(models.BPE({token: place for place, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\p{N}"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


class Lora(nn.Module):
    """Frozen matrices that read the same input, side by side, each with a low-rank change."""

    def __init__(self, weights: Sequence[Tensor], dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("weight", torch.cat(list(weights)).to(dtype), persistent=False)
        width = weights[0].shape[1]
        self.down = nn.Parameter(torch.randn(len(weights) * RANK, width) / width**0.5)
        self.up = nn.ParameterList(nn.Parameter(torch.zeros(len(weight), RANK)) for weight in weights)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of all matrices, side by side."""
        up = torch.block_diag(*self.up) if len(self.up) > 1 else self.up[0]
        low = x @ self.down.to(x.dtype).T
        return torch.addmm(functional.linear(x, self.weight), low, (SCALE * up).to(x.dtype).T)


class Layer(nn.Module):
    """One layer: attention and feed-forward."""

    def __init__(self, tensors: dict[str, Tensor], place: int, shape: Shape, dtype: torch.dtype) -> None:
        super().__init__()
        self.shape = shape
        self.head = shape.width // shape.heads
        for name, matrices in FUSED.items():
            self.add_module(name, Lora([tensors[f"blk.{place}.{matrix}.weight"] for matrix in matrices], dtype))
        self.register_buffer("attn_norm", tensors[f"blk.{place}.attn_norm.weight"].to(dtype), persistent=False)
        self.register_buffer("ffn_norm", tensors[f"blk.{place}.ffn_norm.weight"].to(dtype), persistent=False)

    def forward(self, h: Tensor, layout: "Layout", *, only: Tensor | None = None) -> Tensor:
        """Return the next states; with `only`, those of these places."""
        wide, kv = self.shape.width, self.shape.kv_heads * self.head
        q, k, v = self.qkv(norm(h, self.attn_norm, self.shape.epsilon)).split((wide, kv, kv), dim=1)
        q, k = layout.turn(q.unflatten(1, (-1, self.head))), layout.turn(k.unflatten(1, (-1, self.head)))
        mixed = layout.attend(q, k, v.unflatten(1, (-1, self.head))).flatten(1)
        if only is not None:
            h, mixed = h[only], mixed[only]
        h = h + self.out(mixed)
        gate, up = self.get_submodule("in")(norm(h, self.ffn_norm, self.shape.epsilon)).chunk(2, dim=1)
        return h + self.down(functional.silu(gate) * up)


def norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Return the states divided by their root mean square, times the weight."""
    return functional.rms_norm(x, weight.shape, weight, epsilon)


class Layout:
    """Where the tokens of a pack stand: which positions they have, and which tokens each of them sees."""

    def __init__(self, pack: Sequence[Group], shape: Shape, dtype: torch.dtype) -> None:
        positions: list[int] = []
        ends: list[int] = []
        self.spans: list[tuple[int, int, Tensor]] = []
        for group in pack:
            start = len(positions)
            masks, mask = [len(group.context)], torch.ones(group.size, group.size, dtype=torch.bool).tril()
            positions += range(len(group.context))
            for branch in group.branches:
                positions += range(masks[0], masks[0] + len(branch.tokens))
                here = len(positions) - start
                mask[here - len(branch.tokens) : here, masks[0] : here - len(branch.tokens)] = False
                ends.append(len(positions) - 1)
            bias = torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, -1e9)
            self.spans.append((start, len(positions), bias.repeat(shape.heads // shape.kv_heads, 1)))
        self.tokens = torch.tensor([token for group in pack for token in all_tokens(group)])
        self.ends = torch.tensor(ends)
        half = shape.width // shape.heads // 2
        angles = torch.tensor(positions)[:, None] * shape.rope_base ** (-torch.arange(half) / half)
        self.cos = angles.cos().repeat_interleave(2, 1)[:, None].to(dtype)
        sin = angles.sin()
        self.sin = torch.stack((-sin, sin), 2).flatten(1)[:, None].to(dtype)

    def turn(self, x: Tensor) -> Tensor:
        """Return queries or keys turned by their positions."""
        swapped = x.unflatten(2, (-1, 2)).flip(-1).flatten(2)
        return x * self.cos + swapped * self.sin

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return what each token reads, group by group: faster in bfloat16 on a CPU than torch's own attention."""
        share, width = q.shape[1] // k.shape[1], q.shape[2]
        q = q.unflatten(1, (-1, share)).permute(1, 2, 0, 3)
        k, v = k.permute(1, 2, 0), v.transpose(0, 1)
        read = []
        for a, b, bias in self.spans:
            seen = bias.expand(len(q), *bias.shape)
            match = torch.baddbmm(seen, q[:, :, a:b].flatten(1, 2), k[:, :, a:b], alpha=width**-0.5)
            read.append((match.softmax(-1) @ v[:, a:b]).unflatten(1, (share, b - a)))
        return torch.cat(read, 2).permute(2, 0, 1, 3).flatten(1, 2)


def all_tokens(group: Group) -> list[int]:
    """Return the tokens of a group: its context, then its branches."""
    return [*group.context, *(token for branch in group.branches for token in branch.tokens)]


class Judge(nn.Module):
    """The model: logit of the answer "Yes" minus the logit of "No", one for each branch."""

    def __init__(self, path: Path, dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        reader = gguf.GGUFReader(path)
        self.shape, self.tokenize, self.dtype = read_shape(reader), read_tokenizer(reader), dtype
        tensors = {t.name: torch.from_numpy(np.array(dequantize(t.data, t.tensor_type))) for t in reader.tensors}
        self.register_buffer("embedding", tensors["token_embd.weight"].to(dtype), persistent=False)
        self.register_buffer("output_norm", tensors["output_norm.weight"].to(dtype), persistent=False)
        self.layers = nn.ModuleList(Layer(tensors, i, self.shape, dtype) for i in range(self.shape.layers))
        self.answers = [self.tokenize(answer)[0] for answer in ANSWERS]

    def states(self, pack: Sequence[Group]) -> Tensor:
        """Return the last state of each branch."""
        layout = Layout(pack, self.shape, self.dtype)
        h = functional.embedding(layout.tokens, self.embedding)
        for layer in self.layers[:-1]:
            h = layer(h, layout)
        h = self.layers[-1](h, layout, only=layout.ends)
        return norm(h, self.output_norm, self.shape.epsilon)

    def forward(self, pack: Sequence[Group]) -> Tensor:
        """Return the logit of "Yes" minus the logit of "No" for each branch."""
        no, yes = self.embedding[self.answers].float()
        return self.states(pack).float() @ (yes - no)

    def all_logits(self, pack: Sequence[Group]) -> Tensor:
        """Return the logits of the whole vocabulary, for comparison with llama.cpp."""
        return self.states(pack).float() @ self.embedding.float().T
