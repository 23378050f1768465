"""Measure a reader on labelled development data, alone and beside the lexical judge.

    python models/reader/evaluate.py READER --data DIR [--lexical lexical.jsonl] [--part 2]

READER is a GGUF file or weights of train.py (`--start` then names the GGUF file with the
embeddings). Texts longer than a window are read in windows of whole sentences with an overlap of
one sentence, and the largest logit counts.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from reader_recipe.edits import split_sentences
from reader_recipe.measure import (
    Floats,
    Labels,
    auc,
    balanced_accuracy,
    calibration_error,
    fit_calibration,
    standardised,
    windows,
)
from reader_recipe.network import Reader, read_gguf
from reader_recipe.tokens import (
    ATTRIBUTION,
    MAX_TOKENS,
    RELEVANCE,
    Ids,
    Tokenizer,
    piece_weights,
    prompt,
)
from train import USES_BFLOAT16, Example, micro_batches, pad

sys.path.insert(0, str(Path(__file__).parent.parent / "lexical"))
from lexical_judge import labelled

SHORT_CONTEXT = 1000  # characters
REPLICATES = 2000
EVEN = 0.5


class Rows(NamedTuple):
    """Labelled rows of one task."""

    examples: Sequence[labelled.Example]
    labels: Labels
    sets: npt.NDArray[np.str_]
    groups: npt.NDArray[np.str_]
    is_short: npt.NDArray[np.bool_]


def read_rows(data: Path, task: str, part: int) -> Rows:
    """Every `part`-th row of a task."""
    examples = labelled.examples(data, task)[::part]
    return Rows(
        examples,
        np.array([e.label for e in examples]),
        np.array([e.dataset for e in examples]),
        np.array([e.group for e in examples]),
        np.array([len(e.given) <= SHORT_CONTEXT for e in examples]),
    )


class Prompter:
    """Makes the prompts of a labelled row, one for each window."""

    def __init__(self, vocabulary: Path, window_tokens: int) -> None:
        self._tokenizer = Tokenizer(vocabulary)
        self._weights = piece_weights(vocabulary)
        self._window_tokens = window_tokens

    def prompts(self, example: labelled.Example, task: str) -> list[Ids]:
        if task == "attribution":
            return self._prompts(ATTRIBUTION, example.judged, example.given)
        return self._prompts(RELEVANCE, example.given, example.judged)

    def _prompts(self, task: int, statement: str, text: str) -> list[Ids]:
        asked = self._tokenizer.encode(statement)[:256]
        # A line ends a sentence, too
        sentences = [s for line in text.splitlines() for s in split_sentences(line)]
        room = min(self._window_tokens, MAX_TOKENS - len(asked) - 5)
        parts = windows([self._tokenizer.encode(sentence) for sentence in sentences], room)
        if not parts:
            parts = [np.zeros(0, dtype=np.int32)]
        return [prompt(task, asked, part, self._weights) for part in parts]


def torch_logits(reader: Reader, prompts: list[Ids]) -> Floats:
    """The logits of all prompts, computed in batches of like length."""
    order = sorted(range(len(prompts)), key=lambda n: len(prompts[n]))
    logits = np.zeros(len(prompts))
    examples = [Example(prompts[n], 0, "") for n in order]
    start = 0
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=USES_BFLOAT16):
        for batch in (examples[n : n + 32] for n in range(0, len(examples), 32)):
            for micro_batch in micro_batches(batch):
                values = reader(*pad(micro_batch)).numpy()
                logits[order[start : start + len(values)]] = values
                start += len(values)
    return logits


def row_logits(reader: Reader, prompter: Prompter, rows: Rows, task: str) -> Floats:
    prompts = [prompter.prompts(example, task) for example in rows.examples]
    flat = [window for windows_of_row in prompts for window in windows_of_row]
    logits = torch_logits(reader, flat)
    ends = np.cumsum([len(windows_of_row) for windows_of_row in prompts])
    return np.array([part.max() for part in np.split(logits, ends[:-1])])


def intervals(rows: Rows, scores: Floats, baseline: Floats) -> tuple[Floats, Floats]:
    """Return 95 % bootstrap intervals of the AUC and of its gain; whole groups are drawn."""
    rng = np.random.default_rng(0)
    _, numbers = np.unique(rows.groups, return_inverse=True)
    members = [np.flatnonzero(numbers == number) for number in range(numbers.max() + 1)]
    replicates = np.zeros((REPLICATES, 2))
    for replicate in range(REPLICATES):
        drawn = rng.integers(len(members), size=len(members))
        index = np.concatenate([members[number] for number in drawn])
        score = auc(rows.labels[index], scores[index])
        replicates[replicate] = score, score - auc(rows.labels[index], baseline[index])
    limits = np.quantile(replicates, [0.025, 0.975], axis=0)
    return limits[:, 0], limits[:, 1]


def table(rows: Rows, judges: dict[str, Floats], task: str) -> str:
    """AUC by data set, their mean, by length of context, and of all rows."""
    lines = ["|rows|" + "|".join(judges) + "|", "|---|" + "---|" * len(judges)]
    names = sorted(set(rows.sets))
    by_set = {name: rows.sets == name for name in names}

    def line(title: str, values: Sequence[float]) -> None:
        lines.append(f"|{title}|" + "|".join(f"{value:.3f}" for value in values) + "|")

    for name, chosen in by_set.items():
        line(
            f"{name} ({chosen.sum()})",
            [auc(rows.labels[chosen], s[chosen]) for s in judges.values()],
        )
    means = [
        float(np.mean([auc(rows.labels[chosen], s[chosen]) for chosen in by_set.values()]))
        for s in judges.values()
    ]
    line("mean of sets", means)
    if task == "attribution":
        for title, chosen in (("up to 1,000 characters", rows.is_short), ("above", ~rows.is_short)):
            line(
                f"{title} ({chosen.sum()})",
                [auc(rows.labels[chosen], s[chosen]) for s in judges.values()],
            )
    line(f"all ({len(rows.labels)})", [auc(rows.labels, s) for s in judges.values()])
    return "\n".join(lines)


def calibration_line(labels: Labels, logits: Floats) -> str:
    calibration = fit_calibration(labels, logits)
    probabilities = calibration.probabilities(logits)
    accuracy = balanced_accuracy(labels, probabilities >= EVEN)
    error = calibration_error(labels, probabilities)
    return (
        f"scale {calibration.scale:.3f}, bias {calibration.bias:.3f}: balanced accuracy "
        f"{accuracy:.3f} at .5, calibration error {error:.3f} (fitted on these rows)"
    )


def read_lexical(path: Path, task: str, part: int) -> Floats:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return np.array([row["log_odds"] for row in rows if row["task"] == task])[::part]


def load(path: Path, start: Path) -> Reader:
    if path.suffix == ".gguf":
        return read_gguf(path)
    reader = read_gguf(start)
    reader.load_state_dict(torch.load(path, weights_only=True))
    return reader


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reader", type=Path)
    parser.add_argument("--start", type=Path, help="GGUF file with the vocabulary and embeddings")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--lexical", type=Path, help="log odds of the lexical judge, by task")
    parser.add_argument("--tasks", nargs="+", default=["attribution", "relevance", "chunk"])
    parser.add_argument("--part", type=int, default=1, help="take every PART-th row")
    parser.add_argument("--window-tokens", type=int, default=MAX_TOKENS)
    parser.add_argument("--save", type=Path, help="folder for the logits of each task")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    start = arguments.start or arguments.reader
    reader = load(arguments.reader, start)
    prompter = Prompter(start, arguments.window_tokens)
    for task in arguments.tasks:
        rows = read_rows(arguments.data, task, arguments.part)
        logits = row_logits(reader, prompter, rows, task)
        if arguments.save:
            arguments.save.mkdir(parents=True, exist_ok=True)
            np.save(arguments.save / f"{task}.npy", logits)
        judges = {"reader": logits}
        if arguments.lexical:
            lexical = read_lexical(arguments.lexical, task, arguments.part)
            judges |= {"lexical": lexical, "sum": standardised(logits) + standardised(lexical)}
        print(f"\n{task}\n\n{table(rows, judges, task)}")
        print(calibration_line(rows.labels, logits))
        if arguments.lexical:
            for name in ("reader", "sum"):
                own, gain = intervals(rows, judges[name], lexical)
                print(f"{name}: 95 % {np.round(own, 3)}, gain over lexical {np.round(gain, 3)}")


if __name__ == "__main__":
    main()
