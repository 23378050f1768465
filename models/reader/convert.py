"""Write a trained reader as the GGUF file that ships.

    python models/reader/convert.py WEIGHTS ... --start start.gguf --out reader.gguf

Vocabulary and embeddings are taken from the file that the training started from, bytes unchanged.
Several weights (files of train.py, or GGUF files) are averaged; one that is named twice counts
twice.

    python models/reader/convert.py WEIGHTS --adapter --start reader.gguf --out answers.gguf

writes the adapter in these weights. It is read together with the file that it was trained with.
"""

import argparse
import hashlib
from collections.abc import Sequence
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter
from reader_recipe.network import ADAPTER_PARTS, EMBEDDINGS, gguf_names, read_gguf
from torch import Tensor

NAME = "localjudge reader"
ADAPTER_NAME = "localjudge answers"
LARGEST_FILE = 92_000_000  # bytes: the wheel stays below the package index's limit of 100 MB
SENSITIVE = {
    "blk.4.attn_v.weight",
    "blk.5.ffn_up.weight",
    "blk.6.attn_k.weight",
    "blk.6.attn_v.weight",
}
WRITER_FIELDS = {"general.architecture", "general.name"}  # written apart


def read_weights(path: Path) -> dict[str, Tensor]:
    if path.suffix == ".gguf":
        return dict(read_gguf(path).state_dict())
    weights: dict[str, Tensor] = torch.load(path, weights_only=True)
    return weights


def mean_weights(paths: Sequence[Path]) -> dict[str, Tensor]:
    states = [read_weights(path) for path in paths]
    return {name: torch.stack([s[name] for s in states]).mean(dim=0) for name in states[0]}


def tensor_type(name: str) -> GGMLQuantizationType:
    """How a tensor is stored.

    The inputs of `ffn_down` reach 200 in this base: as Q8_0 it moves logits by .5, as F16 by .08.
    Of the other tensors, those of `SENSITIVE` moved the logits most when stored as Q8_0.
    """
    if name.endswith("ffn_down.weight") or name in SENSITIVE:
        return GGMLQuantizationType.F16
    if name in {"cls.weight", "position_embd.weight"}:
        return GGMLQuantizationType.F16  # makes room for those
    if name.startswith("blk.") and name.endswith(".weight") and "_norm" not in name:
        return GGMLQuantizationType.Q8_0
    return GGMLQuantizationType.F32


def copy_fields(start: GGUFReader, writer: GGUFWriter) -> None:
    """Copy the shape of the network and the tokenizer."""
    for field in start.fields.values():
        if field.name.startswith("GGUF.") or field.name in WRITER_FIELDS:
            continue
        value_type = field.types[0]
        item_type = field.types[-1] if value_type == GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), value_type, item_type)


def write(weights: dict[str, Tensor], start: Path, out: Path) -> None:
    reader = read_gguf(start)
    reader.load_state_dict(weights)
    start_file = GGUFReader(start)
    writer = GGUFWriter(out, "bert")
    writer.add_name(NAME)
    copy_fields(start_file, writer)
    embeddings = next(tensor for tensor in start_file.tensors if tensor.name == EMBEDDINGS)
    writer.add_tensor(EMBEDDINGS, embeddings.data, raw_dtype=embeddings.tensor_type)
    for name, parameter in gguf_names(reader):
        values = parameter.detach().numpy().astype(np.float32)
        if name == "token_types.weight":
            values = values[None]
        kind = tensor_type(name)
        writer.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_adapter(weights: dict[str, Tensor], out: Path) -> None:
    """Write the additions of low rank as F16, named after the tensors that they belong to."""
    parts = {name: values for name, values in weights.items() if name.endswith(ADAPTER_PARTS)}
    rank = len(next(values for name, values in parts.items() if name.endswith("lora_a")))
    writer = GGUFWriter(out, "bert")
    writer.add_type("adapter")
    writer.add_name(ADAPTER_NAME)
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(rank))  # so that the product counts once
    for name, values in parts.items():
        of_map, part = name.rsplit(".", 1)
        writer.add_tensor(f"{of_map}.weight.{part}", values.numpy().astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", type=Path, nargs="+")
    parser.add_argument("--start", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--adapter", action="store_true", help="write the adapter only")
    arguments = parser.parse_args()
    weights = mean_weights(arguments.weights)
    if arguments.adapter:
        write_adapter(weights, arguments.out)
    else:
        write(weights, arguments.start, arguments.out)
    data = arguments.out.read_bytes()
    print(f"{len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}")
    if len(data) > LARGEST_FILE:
        raise SystemExit(f"{arguments.out}: more than {LARGEST_FILE} bytes")


if __name__ == "__main__":
    main()
