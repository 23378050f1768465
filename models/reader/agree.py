"""Compare the logits of a GGUF file in llama.cpp with those of the trained weights in PyTorch.

python models/reader/agree.py reader.gguf WEIGHTS.pt ... --start start.gguf --data DIR [--adapter
answers.gguf]
"""

import argparse
import ctypes
from pathlib import Path

import llama_cpp
import numpy as np
import torch
from convert import mean_weights
from evaluate import Prompter, read_items
from reader_recipe.measure import Floats
from reader_recipe.network import Reader, load_weights, read_gguf
from reader_recipe.tokens import MAX_TOKENS, Ids

ROWS = 200
EVERY = 4
"""Of the development rows."""
MAX_DIFFERENCE = 0.1


class Encoder:
    """A reader in llama.cpp, with or without an adapter: one prompt at a time, one logit."""

    def __init__(self, path: Path, adapter: Path | None = None) -> None:
        llama_cpp.llama_backend_init()
        of_model = llama_cpp.llama_model_default_params()
        of_model.use_extra_bufts = False  # repacking for AMX crashes some builds
        self._model = llama_cpp.llama_model_load_from_file(str(path).encode(), of_model)
        of_context = llama_cpp.llama_context_default_params()
        of_context.n_ctx = of_context.n_batch = of_context.n_ubatch = MAX_TOKENS
        of_context.n_threads = of_context.n_threads_batch = 1
        of_context.embeddings = True
        of_context.pooling_type = llama_cpp.LLAMA_POOLING_TYPE_RANK
        of_context.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self._context = llama_cpp.llama_init_from_model(self._model, of_context)
        if not self._context:
            raise OSError(f"{path}: llama.cpp cannot open this file")
        if adapter is not None:
            loaded = llama_cpp.llama_adapter_lora_init(self._model, str(adapter).encode())
            adapters = (llama_cpp.llama_adapter_lora_p_ctypes * 1)(loaded)
            scales = (ctypes.c_float * 1)(1.0)
            llama_cpp.llama_set_adapters_lora(self._context, adapters, 1, scales)

    def logit(self, tokens: Ids) -> float:
        batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for position, token in enumerate(tokens.tolist()):
            batch.token[position] = token
            batch.pos[position] = position
            batch.n_seq_id[position] = 1
            batch.seq_id[position][0] = 0
            batch.logits[position] = 1
        status = llama_cpp.llama_encode(self._context, batch)
        llama_cpp.llama_batch_free(batch)
        if status != 0:
            raise RuntimeError(f"llama_encode returned {status} for {len(tokens)} tokens")
        return float(llama_cpp.llama_get_embeddings_seq(self._context, 0)[0])


def exact_logits(reader: Reader, prompts: list[Ids]) -> Floats:
    """In float32, one by one: the reference for both the file and bfloat16."""
    with torch.no_grad():
        rows = [torch.from_numpy(tokens.astype(np.int64))[None] for tokens in prompts]
        return np.array([float(reader(row, None)[0]) for row in rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("weights", type=Path, nargs="+")
    parser.add_argument("--start", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--adapter", type=Path, help="read answers with this adapter of the file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    reader = read_gguf(arguments.start)
    load_weights(reader, mean_weights(arguments.weights))
    development = "attribution.dev"
    if arguments.adapter:
        development = "answers"
    items = read_items(arguments.data, development)[::EVERY]
    prompter = Prompter(arguments.file)
    prompts = [prompter.prompts(item)[0] for item in items[:ROWS]]
    expected = exact_logits(reader, prompts)
    encoder = Encoder(arguments.file, arguments.adapter)
    actual = np.array([encoder.logit(tokens) for tokens in prompts])
    difference = np.abs(actual - expected)
    correlation = np.corrcoef(actual, expected)[0, 1]
    print(
        f"{len(prompts)} rows: largest difference {difference.max():.4f}, "
        f"mean {difference.mean():.4f}, correlation {correlation:.6f}, "
        f"standard deviation of the logits {expected.std():.2f}"
    )
    if difference.max() > MAX_DIFFERENCE:
        raise SystemExit(f"a logit differs by more than {MAX_DIFFERENCE}")


if __name__ == "__main__":
    main()
