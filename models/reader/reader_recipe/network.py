"""The reader's network in PyTorch: the BERT encoder of llama.cpp with a head of one output.

Weights are read from a GGUF file (any quantisation) and keep llama.cpp's tensor names, so that
reading, training and writing need no table of names.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import gguf
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

LAYERS = 12
WIDTH = 384
HEADS = 12
FEED_FORWARD = 1536
MAX_TOKENS = 512
EPSILON = 1e-12
SCALE = (WIDTH // HEADS) ** -0.5
EVERY_POSITION = slice(None)
FIRST_POSITION = slice(1)
EMBEDDINGS = "token_embd.weight"
ADAPTED = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_down")
ADAPTER_PARTS = (".lora_a", ".lora_b")


class Layer(nn.Module):
    """One post-layernorm layer of the encoder: attention, then the feed-forward part."""

    def __init__(self) -> None:
        super().__init__()
        self.attn_q = nn.Linear(WIDTH, WIDTH)
        self.attn_k = nn.Linear(WIDTH, WIDTH)
        self.attn_v = nn.Linear(WIDTH, WIDTH)
        self.attn_output = nn.Linear(WIDTH, WIDTH)
        self.attn_output_norm = nn.LayerNorm(WIDTH, eps=EPSILON)
        self.ffn_up = nn.Linear(WIDTH, FEED_FORWARD)
        self.ffn_down = nn.Linear(FEED_FORWARD, WIDTH)
        self.layer_output_norm = nn.LayerNorm(WIDTH, eps=EPSILON)

    def forward(self, states: Tensor, mask: Tensor | None, read: slice) -> Tensor:
        """Return the new states of the positions `read`, which attend to all positions."""
        asking = states[:, read]
        query = self._heads(self.attn_q(asking))
        key = self._heads(self.attn_k(states) * SCALE)
        value = self._heads(self.attn_v(states))
        # Written out: on a CPU, PyTorch's fused attention takes three times as long backwards
        scores = query @ key.transpose(2, 3)
        if mask is not None:
            scores = scores + mask
        mixed = torch.softmax(scores, dim=-1) @ value
        mixed = mixed.transpose(1, 2).flatten(2)
        middle = self.attn_output_norm(asking + self.attn_output(mixed))
        # llama.cpp computes GELU by its approximation with tanh
        inner = functional.gelu(self.ffn_up(middle), approximate="tanh")
        output: Tensor = self.layer_output_norm(middle + self.ffn_down(inner))
        return output

    @staticmethod
    def _heads(states: Tensor) -> Tensor:
        """[rows, length, WIDTH] to [rows, HEADS, length, width of a head]."""
        return states.unflatten(2, (HEADS, WIDTH // HEADS)).transpose(1, 2)


class Adapted(nn.Module):
    """A linear map that stays as it is, and a trained addition of low rank: W x + b + B A x.

    The addition begins as 0. Source: LoRA (Hu et al. 2021, arXiv 2106.09685), with alpha = rank.
    """

    def __init__(self, linear: nn.Linear, rank: int) -> None:
        super().__init__()
        self.linear = linear
        self.lora_a = nn.Parameter(torch.randn(rank, linear.in_features) / linear.in_features**0.5)
        self.lora_b = nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, states: Tensor) -> Tensor:
        inner = functional.linear(states, self.lora_a)
        output: Tensor = self.linear(states) + functional.linear(inner, self.lora_b)
        return output


class Reader(nn.Module):
    """Tokens in, one logit a row out. The embeddings of pieces are frozen, and are not saved."""

    embeddings: Tensor

    def __init__(self, embeddings: Tensor) -> None:
        super().__init__()
        # [pieces, WIDTH], float32, never trained
        self.register_buffer("embeddings", embeddings, persistent=False)
        self.position_embd = nn.Parameter(torch.zeros(MAX_TOKENS, WIDTH))
        self.token_types = nn.Parameter(torch.zeros(WIDTH))
        self.token_embd_norm = nn.LayerNorm(WIDTH, eps=EPSILON)
        self.blk = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.cls = nn.Linear(WIDTH, WIDTH)
        self.cls_output = nn.Linear(WIDTH, 1)

    def freeze(self, layers: int) -> None:
        """Leave the first layers, and what stands before them, as they are."""
        frozen: list[nn.Module] = [self.token_embd_norm, *self.blk[:layers]]
        for module in frozen:
            module.requires_grad_(False)
        self.position_embd.requires_grad_(False)
        self.token_types.requires_grad_(False)

    def adapt(self, first_layer: int, rank: int) -> None:
        """Leave everything as it is, and train additions to the maps of the layers from this one.

        They begin with random numbers, from PyTorch's global generator.
        """
        self.requires_grad_(False)
        for layer in self.blk[first_layer:]:
            for name in ADAPTED:
                setattr(layer, name, Adapted(getattr(layer, name), rank))

    def trained(self) -> list[nn.Parameter]:
        return [parameter for parameter in self.parameters() if parameter.requires_grad]

    def forward(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        """Return the logits [rows].

        Args:
            tokens: ids [rows, length], padded on the right.
            mask: what to add to the attention's scores [rows, 1, 1, length]: 0, or -inf at padding.
                None if nothing is padded.

        """
        length = tokens.shape[1]
        pieces = functional.embedding(tokens, self.embeddings)
        # llama.cpp adds segment type 0 to every token
        states = pieces + self.position_embd[:length] + self.token_types
        states = self.token_embd_norm(states)
        for layer in self.blk[:-1]:
            states = layer(states, mask, EVERY_POSITION)
        # The head reads the first position only
        states = self.blk[-1](states, mask, FIRST_POSITION)
        first = torch.tanh(self.cls(states[:, 0]))
        logits: Tensor = self.cls_output(first)
        return logits.squeeze(1).float()


def load_weights(reader: Reader, weights: Mapping[str, Tensor]) -> None:
    """Load weights of train.py, with the adapter if they have one."""
    first = next((name for name in weights if name.endswith(ADAPTER_PARTS[0])), None)
    if first is not None:
        layer = int(first.split(".")[1])
        reader.adapt(layer, rank=len(weights[first]))
    reader.load_state_dict(weights)


def gguf_names(reader: Reader) -> Iterator[tuple[str, Tensor]]:
    """Each trained parameter with its name in the GGUF file."""
    for name, parameter in reader.named_parameters():
        file_name = name.replace("cls_output", "cls.output")
        if name in {"position_embd", "token_types"}:
            file_name += ".weight"
        yield file_name, parameter


def read_gguf(path: Path) -> Reader:
    """Read a reader's weights, dequantised to float32.

    Raises:
        KeyError: the file lacks a tensor of the network.

    """
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}

    def weights(name: str) -> Tensor:
        tensor = tensors[name]
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        return torch.from_numpy(np.array(values, dtype=np.float32))

    reader = Reader(weights(EMBEDDINGS))
    with torch.no_grad():
        for name, parameter in gguf_names(reader):
            parameter.copy_(weights(name).reshape(parameter.shape))
    return reader
