"""Make the training rows: generate texts, turn them into llama.cpp's tokens, write shards.

    python models/reader/prepare.py --data DIR --vocabulary start.gguf --out WORK/rows

Each shard is a file `rows-NNN.npz` with flat token ids and one line of numbers a row. train.py can
begin as soon as the first shards exist. Longer texts are read as the package reads them: their
sentences nearest to the statement or question.
"""

import argparse
import random
from collections import Counter
from pathlib import Path

import numpy as np
from reader_recipe.rows import Generator, Row
from reader_recipe.tokens import MAX_STATEMENT, MAX_TOKENS, Ids, Tokenizer

from localjudge.judge.nearest import read_nearest
from localjudge.text import Segmenter
from localjudge.text.segmenter import JudgedSentences

SHARD_ROWS = 4096
SPECIAL_TOKENS = 6  # <s> SHARE <mask> <mask> </s> </s>
LETTERS = (400, 500, 600)  # read of a longer text


class Windows:
    """What is read of the texts of a row."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._cut = JudgedSentences(Segmenter("en"))

    def text(self, row: Row) -> str:
        letters = self._rng.choice(LETTERS)
        if len(row.parts) == 1 and len(row.parts[0]) <= letters:
            return row.parts[0]
        return read_nearest(row.parts, row.statement, self._cut, letters).text


class Shard:
    """Rows of one file: tokens of all statements and windows behind one another."""

    def __init__(self) -> None:
        self._tokens: list[Ids] = []
        self._lengths: list[tuple[int, int, int, int]] = []
        self._kinds: list[str] = []

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, row: Row, statement: Ids, window: Ids) -> None:
        self._tokens += [statement, window]
        self._lengths.append((len(statement), len(window), row.label, row.task))
        self._kinds.append(row.kind)

    def write(self, path: Path) -> None:
        temporary = path.with_suffix(".part.npz")
        np.savez_compressed(
            temporary,
            tokens=np.concatenate(self._tokens),
            lengths=np.array(self._lengths, dtype=np.int32),
            kinds=np.array(self._kinds),
        )
        temporary.rename(path)


def write_shards(
    rows: list[Row], tokenizer: Tokenizer, windows: Windows, out: Path
) -> Counter[str]:
    """Write all rows that fit into one window, and leave out longer rows of either label."""
    counts: Counter[str] = Counter()
    shard = Shard()
    number = 0
    for row in rows:
        statement = tokenizer.encode(row.statement)[:MAX_STATEMENT]
        window = tokenizer.encode(windows.text(row))
        if len(statement) + len(window) + SPECIAL_TOKENS > MAX_TOKENS or not len(statement):
            counts[f"{row.kind}: dropped, too long"] += 1
            continue
        shard.add(row, statement, window)
        counts[f"{row.kind}: rows"] += 1
        counts[f"{row.kind}: positive"] += row.label
        counts[f"{row.kind}: tokens"] += len(statement) + len(window)
        if len(shard) == SHARD_ROWS:
            shard.write(out / f"rows-{number:03}.npz")
            number += 1
            shard = Shard()
    if len(shard):
        shard.write(out / f"rows-{number:03}.npz")
    (out / "complete").touch()
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with nli/ and train_*.gz")
    parser.add_argument("--vocabulary", type=Path, required=True, help="GGUF file with the tokens")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shares", nargs="*", default=[], metavar="KIND=SHARE")
    parser.add_argument("--kinds", nargs="*", default=[], help="methods of Generator; default all")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    pairs = [text.split("=") for text in arguments.shares]
    shares = {kind: float(share) for kind, share in pairs}
    generator = Generator(arguments.data, arguments.seed, shares=shares)
    rows = generator.rows(arguments.kinds)
    print(f"{len(rows)} rows generated", flush=True)
    counts = write_shards(
        rows, Tokenizer(arguments.vocabulary), Windows(arguments.seed), arguments.out
    )
    for name, count in sorted(counts.items()):
        print(f"{name} {count}")


if __name__ == "__main__":
    main()
