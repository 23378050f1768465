"""Train the reader on the shards of prepare.py; can be stopped, paused and continued exactly.

    python models/reader/train.py --start start.gguf --rows WORK/rows --out WORK/run

Files in the folder of the run steer it, and are read between batches:

- PAUSE: wait until the file is gone.
- DECAY: contains a number of batches; the learning rate falls to 0 over so many, then it ends.

A run continues from `latest.pt` in its folder, where there is one. Batches depend on the seed and
their number only, there is no dropout, and so a continued run computes what an unbroken one does.

On a CUDA device one process trains, in bfloat16. `--batches N` ends a run by itself: the learning
rate falls over the last quarter of N batches.
"""

import argparse
import json
import multiprocessing
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from reader_recipe.network import Reader, read_gguf
from reader_recipe.tokens import Ids, piece_weights, prompt
from torch import Tensor
from torch.nn import functional

BATCH_ROWS = 32
MICRO_BATCH_TOKENS = 4096
CUDA_BATCH_TOKENS = 65_536  # a whole batch at once
BLOCK_SHARDS = 2
SORTED_BATCHES = 32  # rows of so many batches are sorted by length together
FROZEN_LAYERS = 6  # saves a third of the time of a batch on a CPU
DECAY_SHARE = 0.25  # of the batches, if their number is known beforehand
USES_BFLOAT16 = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
"""Other CPUs compute bfloat16 by float32, and take four times as long as with float32 alone."""


def find_device() -> torch.device:
    """Return the CUDA device if there is one, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("cpu")


def in_precision(device: torch.device) -> torch.autocast:
    """Return the context for forward passes: bfloat16 where the device computes it."""
    enabled = device.type == "cuda" or USES_BFLOAT16
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=enabled)


WARM_UP_BATCHES = 60
SMOOTHING = 0.025
CLIP = 1.0
PADDING = 1
MORE_PARTS = 8  # a second folder of rows is spread over so many blocks


@dataclass(frozen=True)
class Example:
    """A prompt, its label and the kind of row that it comes from."""

    tokens: Ids
    label: int
    kind: str


@dataclass(frozen=True)
class Mixture:
    """Where rows come from, and the share of the rows of each kind that is used, by default all."""

    folder: Path
    more: Path | None
    shares: Mapping[str, float]


class Rows:
    """The batches of a run, each a function of the seed and of its number."""

    def __init__(self, mixture: Mixture, weights: Any, seed: int) -> None:
        self._folder = mixture.folder
        self._shares = mixture.shares
        self._weights = weights
        self._seed = seed
        self._more: list[Example] = []
        if mixture.more:
            for path in sorted(mixture.more.glob("rows-*.npz")):
                self._more.extend(self._examples(path))

    def batches(self, block: int) -> list[list[Example]]:
        """The batches of one block of shards; none after the last block."""
        examples: list[Example] = []
        for shard in self._shards(block):
            examples.extend(self._examples(shard))
        if not examples:
            return []
        examples += self._more[block % MORE_PARTS :: MORE_PARTS]
        rng = np.random.default_rng([self._seed, block])
        rng.shuffle(examples)
        examples = [e for e in examples if rng.random() < self._shares.get(e.kind, 1.0)]
        batches: list[list[Example]] = []
        stride = BATCH_ROWS * SORTED_BATCHES
        for start in range(0, len(examples), stride):
            part = sorted(examples[start : start + stride], key=lambda e: len(e.tokens))
            batches += [part[n : n + BATCH_ROWS] for n in range(0, len(part), BATCH_ROWS)]
        rng.shuffle(batches)
        return batches

    def _shards(self, block: int) -> Iterator[Path]:
        for number in range(block * BLOCK_SHARDS, (block + 1) * BLOCK_SHARDS):
            path = self._folder / f"rows-{number:03}.npz"
            while not path.exists() and not (self._folder / "complete").exists():
                time.sleep(5)
            if path.exists():
                yield path

    def _examples(self, path: Path) -> Iterator[Example]:
        with np.load(path) as shard:
            tokens = shard["tokens"]
            lengths = shard["lengths"]
            kinds = shard["kinds"]
        start = 0
        for (of_statement, of_window, label, task), kind in zip(lengths, kinds, strict=True):
            statement = tokens[start : start + of_statement]
            window = tokens[start + of_statement : start + of_statement + of_window]
            start += of_statement + of_window
            yield Example(prompt(task, statement, window, self._weights), int(label), str(kind))


def pad(examples: list[Example]) -> tuple[Tensor, Tensor | None]:
    """Token ids [rows, length] and the attention's mask, None if no row is padded."""
    length = max(len(example.tokens) for example in examples)
    tokens = torch.full((len(examples), length), PADDING, dtype=torch.int64)
    for row, example in enumerate(examples):
        tokens[row, : len(example.tokens)] = torch.from_numpy(example.tokens.astype(np.int64))
    is_padding = tokens == PADDING
    if not bool(is_padding.any()):
        return tokens, None
    mask = torch.zeros(is_padding.shape)
    mask.masked_fill_(is_padding, float("-inf"))
    return tokens, mask[:, None, None, :]


def micro_batches(examples: list[Example], most_tokens: int) -> Iterator[list[Example]]:
    length = max(len(example.tokens) for example in examples)
    rows = max(1, most_tokens // length)
    for start in range(0, len(examples), rows):
        yield examples[start : start + rows]


def forward(reader: Reader, examples: list[Example]) -> Tensor:
    """Return the logits of these rows, on the device of the reader."""
    device = reader.embeddings.device
    tokens, mask = pad(examples)
    if mask is not None:
        mask = mask.to(device)
    with in_precision(device):
        logits: Tensor = reader(tokens.to(device), mask)
    return logits


def backward(reader: Reader, examples: list[Example]) -> list[float]:
    """Add the gradients of these rows, as part of a batch, and return the loss of each row."""
    device = reader.embeddings.device
    most_tokens = MICRO_BATCH_TOKENS
    if device.type == "cuda":
        most_tokens = CUDA_BATCH_TOKENS
    losses: list[float] = []
    for part in micro_batches(examples, most_tokens):
        logits = forward(reader, part)
        labels = torch.tensor([float(example.label) for example in part]).to(device)
        targets = SMOOTHING + labels * (1 - 2 * SMOOTHING)
        row_losses = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        (row_losses.sum() / BATCH_ROWS).backward()  # type: ignore[no-untyped-call]
        losses += row_losses.tolist()
    return losses


def flat_gradients(reader: Reader) -> Tensor:
    gradients = [p.grad.flatten() for p in reader.trained() if p.grad is not None]
    return torch.cat(gradients)


def help_training(reader: Reader, gradients: Tensor, connection: Connection) -> None:
    """The second process: half of each batch, on weights that it shares with the first.

    It begins a session, because Linux may divide the cores among sessions, not processes.
    """
    os.setsid()
    torch.set_num_threads(1)
    while (examples := connection.recv()) is not None:
        for parameter in reader.trained():
            parameter.grad = None
        losses = backward(reader, examples)
        gradients.copy_(flat_gradients(reader))
        connection.send(losses)


class Helper:
    """A second process that computes half of the gradients.

    Two processes of one thread wait for each other once a batch, two threads of one process at each
    operation, which costs much where other programs use the same cores.
    """

    def __init__(self, reader: Reader) -> None:
        reader.share_memory()
        size = sum(parameter.numel() for parameter in reader.trained())
        self._gradients = torch.zeros(size).share_memory_()
        self._connection, other = multiprocessing.Pipe()
        context = torch.multiprocessing.get_context("spawn")
        arguments = (reader, self._gradients, other)
        self._process = context.Process(target=help_training, args=arguments, daemon=True)
        self._process.start()

    def begin(self, examples: list[Example]) -> None:
        self._connection.send(examples)

    def add_gradients(self, reader: Reader) -> list[float]:
        losses: list[float] = self._connection.recv()
        start = 0
        for parameter in reader.trained():
            part = self._gradients[start : start + parameter.numel()]
            start += parameter.numel()
            assert parameter.grad is not None
            parameter.grad += part.view_as(parameter)
        return losses

    def end(self) -> None:
        self._connection.send(None)
        self._process.join()


class Training:
    """A run: weights, optimiser and position, all of which a checkpoint holds."""

    def __init__(
        self,
        reader: Reader,
        out: Path,
        rate: float,
        *,
        processes: int,
    ) -> None:
        """Train what requires gradients in `reader` (`Reader.freeze` or `Reader.adapt`)."""
        self.reader = reader
        self._out = out
        self._rate = rate
        self._optimizer = torch.optim.AdamW(
            self.reader.trained(), lr=rate, weight_decay=0.01, fused=True
        )
        self.block = 0
        self.batch = 0  # within the block
        self.steps = 0
        self.rows = 0
        self.decay: tuple[int, int] | None = None  # first step and number of steps of the decay
        self.seconds = 0.0
        if (out / "latest.pt").exists():
            self._load(out / "latest.pt")
        self._helper = None
        if processes > 1:
            self._helper = Helper(self.reader)

    def _load(self, path: Path) -> None:
        device = self.reader.embeddings.device
        state = torch.load(path, map_location=device, weights_only=True)
        self.reader.load_state_dict(state["reader"])
        self._optimizer.load_state_dict(state["optimizer"])
        for name, value in state["position"].items():
            setattr(self, name, value)

    def begin_at(self, block: int) -> None:
        """Begin a new run with this block; a run that continues stays where it was."""
        if self.steps == 0:
            self.block = block

    def save(self) -> None:
        position = {
            name: getattr(self, name)
            for name in ("block", "batch", "steps", "rows", "decay", "seconds")
        }
        state = {
            "reader": self.reader.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "position": position,
        }
        temporary = self._out / "latest.part"
        torch.save(state, temporary)
        temporary.rename(self._out / "latest.pt")
        weights = {name: values.cpu() for name, values in self.reader.state_dict().items()}
        torch.save(weights, self._out / f"weights-{self.steps:06}.pt")

    def rate(self) -> float:
        """The learning rate of the next step: warm-up, constant, then linear decay to 0."""
        rate = self._rate * min(1.0, (self.steps + 1) / WARM_UP_BATCHES)
        if self.decay is not None:
            first, count = self.decay
            rate *= max(0.0, 1.0 - (self.steps - first) / count)
        return rate

    def ended(self) -> bool:
        return self.decay is not None and self.steps >= sum(self.decay)

    def step(self, examples: list[Example]) -> list[float]:
        """Train on one batch and return the loss of each of its rows, in order."""
        losses = self._add_gradients(examples)
        torch.nn.utils.clip_grad_norm_(self.reader.trained(), CLIP)
        for group in self._optimizer.param_groups:
            group["lr"] = self.rate()
        self._optimizer.step()
        self._optimizer.zero_grad()
        self.steps += 1
        self.batch += 1
        self.rows += len(examples)
        return losses

    def _add_gradients(self, examples: list[Example]) -> list[float]:
        own = examples[::2]
        other = examples[1::2]
        if self._helper is None or not other:
            return backward(self.reader, examples)
        self._helper.begin(other)
        losses: list[float] = [0.0] * len(examples)
        losses[::2] = backward(self.reader, own)
        losses[1::2] = self._helper.add_gradients(self.reader)
        return losses

    def next_block(self) -> None:
        self.block += 1
        self.batch = 0

    def end(self) -> None:
        if self._helper is not None:
            self._helper.end()


class Log:
    """One line of JSON for every 20 batches: losses by kind of row, and speed."""

    EVERY = 20

    def __init__(self, path: Path) -> None:
        self._path = path
        self._losses: dict[str, list[float]] = defaultdict(list)
        self._tokens = 0
        self._start = time.monotonic()

    def add(self, training: Training, examples: list[Example], losses: list[float]) -> None:
        for example, loss in zip(examples, losses, strict=True):
            self._losses[example.kind].append(loss)
            self._tokens += len(example.tokens)
        if training.steps % self.EVERY == 0:
            self._write(training)

    def _write(self, training: Training) -> None:
        seconds = time.monotonic() - self._start
        training.seconds += seconds
        every_loss = [loss for losses in self._losses.values() for loss in losses]
        line = {
            "time": time.strftime("%H:%M:%S"),
            "block": training.block,
            "steps": training.steps,
            "rows": training.rows,
            "loss": round(float(np.mean(every_loss)), 4),
            "rows_per_second": round(len(every_loss) / seconds, 2),
            "tokens_per_second": round(self._tokens / seconds),
            "rate": training.rate(),
            "by_kind": {k: round(float(np.mean(v)), 3) for k, v in sorted(self._losses.items())},
        }
        with self._path.open("a") as log:
            log.write(json.dumps(line) + "\n")
        self._losses.clear()
        self._tokens = 0
        self._start = time.monotonic()


def wait_while_paused(file: Path) -> None:
    while file.exists():
        time.sleep(2)


def begin_decay(training: Training, file: Path, batches: int | None) -> None:
    """Let the rate fall, if a file says so, or for the last part of a number of batches."""
    if training.decay is not None:
        return
    if file.exists():
        training.decay = (training.steps, int(file.read_text()))
    elif batches is not None and training.steps >= batches - round(DECAY_SHARE * batches):
        training.decay = (training.steps, batches - training.steps)


def train(
    training: Training,
    rows: Rows,
    out: Path,
    *,
    pause: Path,
    save_seconds: float,
    batches_in_all: int | None = None,
) -> None:
    """Train until the rows or the batches end."""
    log = Log(out / "log.jsonl")
    saved = time.monotonic()
    while batches := rows.batches(training.block):
        for examples in batches[training.batch :]:
            wait_while_paused(pause)
            begin_decay(training, out / "DECAY", batches_in_all)
            if training.ended():
                return
            losses = training.step(examples)
            log.add(training, examples, losses)
            if time.monotonic() - saved > save_seconds:
                training.save()
                saved = time.monotonic()
        training.next_block()


def read_shares(texts: Sequence[str]) -> dict[str, float]:
    """Read `KIND=SHARE`: the share of a kind's rows to use."""
    shares: dict[str, float] = {}
    for text in texts:
        kind, share = text.split("=")
        shares[kind] = float(share)
    return shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start", type=Path, required=True, help="GGUF file to start from")
    parser.add_argument("--rows", type=Path, required=True, help="folder of prepare.py")
    parser.add_argument("--more-rows", type=Path, help="a second folder, spread over the blocks")
    parser.add_argument("--shares", nargs="*", default=[], metavar="KIND=SHARE")
    parser.add_argument("--first-block", type=int, default=0, help="block to begin with")
    parser.add_argument("--weights", type=Path, help="weights of an earlier run to go on from")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--processes", type=int, choices=(1, 2), default=2)
    parser.add_argument("--frozen-layers", type=int, default=FROZEN_LAYERS)
    parser.add_argument("--adapter-rank", type=int, help="train an adapter, and no weights")
    parser.add_argument("--batches", type=int, help="end after so many batches")
    parser.add_argument("--rate", type=float, default=5e-5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=Path, help="wait while this file exists (OUT/PAUSE)")
    parser.add_argument("--save-seconds", type=float, default=300)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    reader = read_gguf(arguments.start)
    if arguments.weights:
        reader.load_state_dict(torch.load(arguments.weights, weights_only=True))
    if arguments.adapter_rank:
        torch.manual_seed(arguments.seed)
        reader.adapt(arguments.frozen_layers, arguments.adapter_rank)
    else:
        reader.freeze(arguments.frozen_layers)
    device = find_device()
    processes = arguments.processes
    if device.type == "cuda":
        processes = 1
    training = Training(
        reader.to(device),
        arguments.out,
        arguments.rate,
        processes=processes,
    )
    training.begin_at(arguments.first_block)
    mixture = Mixture(arguments.rows, arguments.more_rows, read_shares(arguments.shares))
    rows = Rows(mixture, piece_weights(arguments.start), arguments.seed)
    pause = arguments.pause or arguments.out / "PAUSE"
    train(
        training,
        rows,
        arguments.out,
        pause=pause,
        save_seconds=arguments.save_seconds,
        batches_in_all=arguments.batches,
    )
    training.save()
    training.end()


if __name__ == "__main__":
    main()
