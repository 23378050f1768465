"""Measure readers on development data, alone and beside the lexical judge.

    python models/reader/evaluate.py READER --data DIR --save FOLDER [--against FOLDER]

READER is a GGUF file or weights of train.py (`--start` then names the GGUF file with the
embeddings). Texts are read as the package reads them: the sentences nearest to the statement, and
the nearest a second time. The logits go to FOLDER, and with --against the gain over the
logits of another reader is printed, with a 95 % bootstrap interval; whole contexts or questions are
drawn.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from reader_recipe.measure import Floats, Labels, auc
from reader_recipe.network import Reader, load_weights, read_gguf
from reader_recipe.tokens import (
    ANSWER,
    ATTRIBUTION,
    MAX_STATEMENT,
    MAX_TOKENS,
    RELEVANCE,
    Ids,
    Tokenizer,
    piece_weights,
    prompt,
)
from train import Example, find_device, forward

from localjudge.judge.nearest import read_nearest
from localjudge.text import Segmenter
from localjudge.text.segmenter import JudgedSentences

sys.path.insert(0, str(Path(__file__).parent.parent / "lexical"))
from lexical_judge import committed, labelled
from lexical_judge.numpy_model import NumpyJudge, attribution, relevance

SHIPPED_IF = ("attribution.dev", "attribution.five.dev", "attribution.breadth.dev")
DEVELOPMENT = Path(__file__).parent / "development"
READ = (600, 300)
"""Letters of both readings of a statement's texts; the higher logit counts."""
REPLICATES = 2000
BATCH = 32


class Item(NamedTuple):
    """One labelled question to a reader."""

    task: int
    part: str
    """Data set or kind."""
    group: str
    """Items of a group are not independent."""
    statement: str
    texts: tuple[str, ...]
    label: int
    beside: tuple[str, ...] = ()
    """The passages that the lexical judge reads beside a sentence."""


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read_items(data: Path, name: str) -> list[Item]:
    """Read a development file by its name."""
    if name in {"sentences", "passages"}:
        task = "relevance" if name == "sentences" else "chunk"
        return [
            Item(RELEVANCE, e.dataset, e.group, e.given, (e.judged,), e.label, e.beside)
            for e in labelled.examples(data, task)
        ]
    folder = DEVELOPMENT if name in {"answers", "kinds"} else data
    rows = read_jsonl(folder / f"{name}.jsonl")
    if name == "answers":
        return [
            Item(ANSWER, r["kind"], r["id"], r["question"], (r["sentence"],), int(r["label"]))
            for r in rows
        ]
    items: list[Item] = []
    for row in rows:
        texts = tuple(row.get("contexts") or [row["context"]])
        part = row["kind"] if name == "kinds" else row["dataset"]
        item = Item(ATTRIBUTION, part, texts[0], row["statement"], texts, int(row["label"]))
        items.append(item)
    return items


class Prompter:
    """Makes the prompt of an item."""

    def __init__(self, vocabulary: Path) -> None:
        self._tokenizer = Tokenizer(vocabulary)
        self._weights = piece_weights(vocabulary)
        self._cut = JudgedSentences(Segmenter("en"))

    def prompts(self, item: Item) -> list[Ids]:
        """The prompt of an item, and the one of its second reading if that is another one."""
        texts = {item.texts[0]: None}
        if item.task == ATTRIBUTION:
            read = (read_nearest(item.texts, item.statement, self._cut, n) for n in READ)
            texts = {near.text: None for near in read}
        asked = self._tokenizer.encode(item.statement)[:MAX_STATEMENT]
        windows = (self._tokenizer.encode(text)[: MAX_TOKENS - len(asked) - 6] for text in texts)
        return [prompt(item.task, asked, window, self._weights) for window in windows]


def torch_logits(reader: Reader, prompts: Sequence[Ids]) -> Floats:
    """The logits of all prompts, computed in batches of like length."""
    order = sorted(range(len(prompts)), key=lambda n: len(prompts[n]))
    logits = np.zeros(len(prompts))
    examples = [Example(prompts[n], 0, "") for n in order]
    with torch.no_grad():
        for start in range(0, len(examples), BATCH):
            values = forward(reader, examples[start : start + BATCH]).cpu().numpy()
            logits[order[start : start + len(values)]] = values
    return logits


def highest_logits(reader: Reader, prompts: Sequence[Sequence[Ids]]) -> Floats:
    """The highest logit of the prompts of each item."""
    logits = torch_logits(reader, [one for of_item in prompts for one in of_item])
    ends = np.cumsum([len(of_item) for of_item in prompts])
    return np.array([part.max() for part in np.split(logits, ends[:-1])])


def lexical_log_odds(items: Sequence[Item]) -> Floats:
    inputs = committed.load()
    judge = NumpyJudge(inputs.vocabulary, inputs.scalars)
    values: list[float] = []
    for item in items:
        if item.task == ATTRIBUTION:
            tokens = attribution(inputs.vocabulary, item.texts, item.statement)
        else:
            tokens = relevance(inputs.vocabulary, item.beside, item.statement, item.texts[0])
        values.append(judge.log_odds(tokens))
    return np.array(values)


def part_aucs(items: Sequence[Item], scores: Floats) -> dict[str, float]:
    """The AUC of each data set. A kind with one label is compared with the other label's rows."""
    labels = np.array([item.label for item in items])
    parts = np.array([item.part for item in items])
    aucs: dict[str, float] = {}
    for part in sorted(set(parts)):
        chosen = parts == part
        if len(set(labels[chosen])) == 1:
            chosen |= labels != labels[chosen][0]
        aucs[part] = auc(labels[chosen], scores[chosen])
    return aucs


def mean_of_parts(items: Sequence[Item], scores: Floats) -> float:
    return float(np.mean(list(part_aucs(items, scores).values())))


def good_above_poor(items: Sequence[Item], scores: Floats) -> tuple[float, float]:
    """How often a good sentence of a question is above, and equal to, a poor one of it."""
    above: list[bool] = []
    equal: list[bool] = []
    good = [n for n, item in enumerate(items) if item.label == 1]
    poor = [n for n, item in enumerate(items) if item.label == 0]
    for first in good:
        for second in poor:
            if items[first].statement == items[second].statement:
                above.append(bool(scores[first] > scores[second]))
                equal.append(bool(scores[first] == scores[second]))
    return float(np.mean(above)), float(np.mean(equal))


class Gain(NamedTuple):
    """A difference with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:+.3f} [{self.low:.3f}, {self.high:.3f}]"


class Grouped:
    """The labels and scores of one data set, drawn by groups."""

    def __init__(self, items: Sequence[Item], part: str) -> None:
        self.rows = np.array([n for n, item in enumerate(items) if item.part == part])
        self.labels: Labels = np.array([items[n].label for n in self.rows])
        groups = [items[n].group for n in self.rows]
        _, numbers = np.unique(groups, return_inverse=True)
        self._members = [np.flatnonzero(numbers == n) for n in range(numbers.max() + 1)]

    def draw(self, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        drawn = rng.integers(len(self._members), size=len(self._members))
        return np.concatenate([self._members[n] for n in drawn])


def gain(files: Sequence[tuple[Sequence[Item], Floats, Floats]]) -> Gain:
    """The gain in the mean of files, each the mean of its data sets, with a 95 % interval."""
    rng = np.random.default_rng(0)
    sets: list[list[tuple[Grouped, Floats, Floats]]] = []
    for items, new, old in files:
        parts = [Grouped(items, part) for part in sorted({item.part for item in items})]
        sets.append([(part, new[part.rows], old[part.rows]) for part in parts])

    def difference(*, drawn: bool) -> float:
        means: list[float] = []
        for parts in sets:
            gains: list[float] = []
            for part, new, old in parts:
                index = np.arange(len(part.labels))
                if drawn:
                    index = part.draw(rng)
                labels = part.labels[index]
                gains.append(auc(labels, new[index]) - auc(labels, old[index]))
            means.append(float(np.nanmean(gains)))
        return float(np.mean(means))

    replicates = [difference(drawn=True) for _ in range(REPLICATES)]
    low, high = np.quantile(replicates, [0.025, 0.975])
    return Gain(difference(drawn=False), float(low), float(high))


def load(path: Path, start: Path) -> Reader:
    if path.suffix == ".gguf":
        return read_gguf(path)
    reader = read_gguf(start)
    load_weights(reader, torch.load(path, weights_only=True))
    return reader


def report(name: str, items: Sequence[Item], judges: dict[str, Floats]) -> str:
    """A table of one file: the AUC of each judge by data set, their mean, and of all rows."""
    labels = np.array([item.label for item in items])
    by_judge = [part_aucs(items, scores) for scores in judges.values()]
    lines = [f"\n|{name}|" + "|".join(judges) + "|", "|---|" + "---|" * len(judges)]

    def line(title: str, values: Sequence[float]) -> None:
        lines.append(f"|{title}|" + "|".join(f"{value:.3f}" for value in values) + "|")

    for part in by_judge[0]:
        count = sum(item.part == part for item in items)
        line(f"{part} ({count})", [aucs[part] for aucs in by_judge])
    line("mean of sets", [mean_of_parts(items, scores) for scores in judges.values()])
    line(f"all ({len(items)})", [auc(labels, scores) for scores in judges.values()])
    if items[0].task == ANSWER:
        pairs = [good_above_poor(items, scores) for scores in judges.values()]
        line("good above poor", [above for above, _ in pairs])
        line("equal", [equal for _, equal in pairs])
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reader", type=Path)
    parser.add_argument("--start", type=Path, help="GGUF file with the vocabulary and embeddings")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--save", type=Path, required=True, help="folder for the logits")
    parser.add_argument("--against", type=Path, help="folder with the logits of another reader")
    parser.add_argument(
        "--files", nargs="+", default=[*SHIPPED_IF, "kinds", "answers", "passages", "sentences"]
    )
    parser.add_argument("--part", type=int, default=1, help="take every PART-th row")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.save.mkdir(parents=True, exist_ok=True)
    start = arguments.start or arguments.reader
    reader = load(arguments.reader, start).to(find_device())
    prompter = Prompter(start)
    compared: list[tuple[Sequence[Item], Floats, Floats]] = []
    for name in arguments.files:
        items = read_items(arguments.data, name)[:: arguments.part]
        saved = arguments.save / f"{name}.npy"
        if not saved.exists():
            np.save(saved, highest_logits(reader, [prompter.prompts(item) for item in items]))
        lexical = arguments.save.parent / f"lexical.{name}.{arguments.part}.npy"
        if not lexical.exists():
            np.save(lexical, lexical_log_odds(items))
        judges = {"reader": np.load(saved), "lexical": np.load(lexical)}
        if arguments.against and (arguments.against / f"{name}.npy").exists():
            judges["other"] = np.load(arguments.against / f"{name}.npy")
            if name in SHIPPED_IF:
                compared.append((items, judges["reader"], judges["other"]))
        print(report(name, items, judges), flush=True)
    for one in compared:
        print(f"gain over the other: {gain([one])}")
    if compared:
        print(f"gain in the mean of {len(compared)} files: {gain(compared)}")


if __name__ == "__main__":
    main()
