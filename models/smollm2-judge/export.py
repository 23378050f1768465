#!/usr/bin/env python3
"""Write the adapter of a checkpoint as a GGUF file that llama.cpp loads beside the base model.

python export.py --adapter FOLDER/adapter-ROWS.pt --out adapter.gguf
"""

import argparse
from pathlib import Path

import gguf
import numpy as np
import torch
from smollm2_judge.model import FUSED, RANK, SCALE


def main() -> None:
    """Split the matrices that share an input, and write each as llama.cpp names it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adapter", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    adapter = torch.load(options.adapter, weights_only=True)
    writer = gguf.GGUFWriter(options.out, "llama")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", SCALE * RANK)
    for layer in range(1 + max(int(name.split(".")[1]) for name in adapter)):
        for name, matrices in FUSED.items():
            downs = adapter[f"layers.{layer}.{name}.down"].split(RANK)
            for place, matrix in enumerate(matrices):
                up = adapter[f"layers.{layer}.{name}.up.{place}"]
                writer.add_tensor(f"blk.{layer}.{matrix}.weight.lora_a", downs[place].numpy().astype(np.float16))
                writer.add_tensor(f"blk.{layer}.{matrix}.weight.lora_b", up.numpy().astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
