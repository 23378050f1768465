"""Training: which rows come when, the steps, checkpoints, and the AUC on the development rows.

A run stops at any step and goes on from its last checkpoint with the same rows in the same order.
"""

import json
import os
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from .batches import Branch, Group, Tokenize, branch_tokens, context_tokens, group_rows, mix, packs, short_first
from .measures import Floats, compare
from .model import Judge
from .rows import (
    ANSWERS_FILE,
    HELD_OUT,
    LABELLED_FILE,
    PROSE_FILE,
    Line,
    answer_rows,
    labelled_rows,
    prose_rows,
    read_lines,
)

SEED = 38
SHARES = {
    "multirc": 0.22,
    "mctest": 0.10,
    "nli4ct": 0.11,
    "rte": 0.09,
    "healthver": 0.10,
    "control": 0.03,
    "squad": 0.17,
    "changed": 0.18,
}
SHORT, SHORT_ROWS, LONGEST = 400, 10_000, 1000
STEP_ROWS, PACK_TOKENS = 16, 2048
RATE, WARM_UP_STEPS = 1e-3, 125
EVALUATE_ROWS, SAVE_SECONDS = 2000, 900
DEVELOPMENT_CHARACTERS = 1800
ANSWER_PARAGRAPHS, PROSE_PARAGRAPHS = 2500, 3000
IDLE_LOAD = 0.7


def training_groups(folder: Path, tokenize: Tokenize) -> list[Group]:
    """Return all groups in the order of training. The seed fixes the rows, their changes and their order."""
    rng = random.Random(SEED)
    people = labelled_rows(folder / LABELLED_FILE, HELD_OUT, rng)
    answers = answer_rows(shuffled(folder / ANSWERS_FILE, rng)[:ANSWER_PARAGRAPHS], rng)
    prose = [line for line in shuffled(folder / PROSE_FILE, rng) if not line["dataset"].startswith(HELD_OUT)]
    rows = (row for source in (people, answers, prose_rows(prose[:PROSE_PARAGRAPHS], rng)) for row in source)
    groups = [group for group in group_rows(rows, tokenize, rng) if group.longest <= LONGEST]
    return short_first(mix(groups, SHARES, rng), SHORT, SHORT_ROWS)


def shuffled(path: Path, rng: random.Random) -> list[Line]:
    """Return the lines of a file in random order."""
    lines = list(read_lines(path))
    rng.shuffle(lines)
    return lines


def development(folder: Path, tokenize: Tokenize, part: int) -> list[tuple[str, Group]]:
    """Return development rows with contexts of at most 1,800 characters, each with its id, shortest first.

    Of each data set and label, one row of `part` rows is taken.
    """
    lines = read_lines(folder / "attribution.dev.jsonl")
    short = [line for line in lines if len(line["context"]) <= DEVELOPMENT_CHARACTERS]
    short.sort(key=lambda line: (line["dataset"], line["label"], line["id"]))
    made = []
    for line in short[::part]:
        branch = Branch(branch_tokens(line["question"], line["statement"], tokenize), line["label"])
        made.append((line["id"], Group(line["dataset"], context_tokens(line["context"], tokenize), [branch])))
    return sorted(made, key=lambda each: each[1].size)


class Run:
    """A training run: its model, its optimiser, its place in the data and its log."""

    def __init__(
        self,
        judge: Judge,
        plan: list[list[Group]],
        development_rows: list[tuple[str, Group]],
        reference: dict[str, float],
        out: Path,
    ) -> None:
        self.judge, self.plan, self.out, self.reference = judge, plan, out, reference
        self.development = development_rows
        self.optimiser = torch.optim.AdamW(judge.parameters(), lr=RATE, betas=(0.9, 0.99), weight_decay=0.01)
        self.step = self.rows = 0
        self.train_seconds = self.evaluation_seconds = 0.0
        self.log: list[dict[str, Any]] = []
        self.losses: list[float] = []
        self.stopping = False

    def resume(self) -> None:
        """Load the last checkpoint, if there is one."""
        path = self.out / "latest.pt"
        if not path.exists():
            return
        saved = torch.load(path, weights_only=True)
        self.judge.load_state_dict(saved["adapter"])
        self.optimiser.load_state_dict(saved["optimiser"])
        torch.set_rng_state(saved["random"])
        for name in ("step", "rows", "train_seconds", "evaluation_seconds", "log", "losses"):
            setattr(self, name, saved[name])

    def save(self) -> None:
        """Write a checkpoint whole, then put it in the place of the last one."""
        names = ("step", "rows", "train_seconds", "evaluation_seconds", "log", "losses")
        state = {name: getattr(self, name) for name in names}
        state |= {"adapter": self.judge.state_dict(), "optimiser": self.optimiser.state_dict()}
        torch.save(state | {"random": torch.get_rng_state()}, self.out / "latest.part")
        os.replace(self.out / "latest.part", self.out / "latest.pt")
        (self.out / "log.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in self.log))

    def train(self, most_rows: int, threads: int) -> None:
        """Take steps, with a checkpoint and an evaluation where they are due."""
        last_save = time.monotonic()
        while self.step < len(self.plan) and self.rows < most_rows and not self.stopping:
            is_idle = os.getloadavg()[0] - torch.get_num_threads() < IDLE_LOAD
            torch.set_num_threads(threads if is_idle else 1)
            start, rows = time.process_time(), self.rows
            self.take_step(self.plan[self.step])
            self.train_seconds += time.process_time() - start
            if self.rows // EVALUATE_ROWS > rows // EVALUATE_ROWS:
                self.save()
                self.evaluate()
                self.save()
                last_save = time.monotonic()
            if time.monotonic() - last_save > SAVE_SECONDS:
                self.save()
                last_save = time.monotonic()
        self.save()

    def take_step(self, groups: list[Group]) -> None:
        """Move the adapter by the mean loss of the rows of one step."""
        count = sum(len(group.branches) for group in groups)
        total = 0.0
        for pack in packs(sorted(groups, key=lambda group: group.size), PACK_TOKENS):
            loss = functional.binary_cross_entropy_with_logits(self.judge(pack), labels(pack), reduction="sum") / count
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(self.judge.parameters(), 1.0)
        for settings in self.optimiser.param_groups:
            settings["lr"] = RATE * min(1.0, (self.step + 1) / WARM_UP_STEPS)
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.step += 1
        self.rows += count
        self.losses.append(total)
        if self.step % 10 == 0:
            mean = sum(self.losses[-10:]) / 10
            print(
                f"{self.rows} rows, loss {mean:.4f}, {self.train_seconds / self.rows:.3f} core-seconds a row",
                flush=True,
            )

    def evaluate(self) -> None:
        """Add the AUC on the development rows, by data set and together, to the log, and keep the adapter."""
        start = time.process_time()
        scores = self.judge_rows()
        self.evaluation_seconds += time.process_time() - start
        entry = {
            "rows": self.rows,
            "train_seconds": round(self.train_seconds),
            "evaluation_seconds": round(self.evaluation_seconds),
            "loss_since_last": mean_or_none(self.losses[self.log[-1]["steps"] if self.log else 0 :]),
            "steps": self.step,
            **self.compare(scores),
        }
        self.log.append(entry)
        print(json.dumps(entry), flush=True)
        torch.save(self.judge.state_dict(), self.out / f"adapter-{self.rows:06d}.pt")
        named = {name: float(score) for (name, _), score in zip(self.development, scores, strict=True)}
        (self.out / f"scores-{self.rows:06d}.json").write_text(json.dumps(named))

    def compare(self, scores: Floats) -> dict[str, Any]:
        """Return the measures of the scores, beside the reference judge's."""
        groups = [group for _, group in self.development]
        truth = np.array([group.branches[0].label for group in groups])
        return compare(truth, [group.dataset for group in groups], scores, self.reference_scores())

    def judge_rows(self) -> Floats:
        """Return the log odds of the development rows."""
        made = []
        with torch.inference_mode():
            for pack in packs([group for _, group in self.development], PACK_TOKENS):
                made.append(self.judge(pack))
        return np.asarray(torch.cat(made).numpy(), np.float64)

    def reference_scores(self) -> Floats | None:
        """Return the reference judge's log odds of the development rows."""
        return np.array([self.reference[name] for name, _ in self.development]) if self.reference else None


def labels(pack: list[Group]) -> torch.Tensor:
    """Return the labels of a pack's branches."""
    return torch.tensor([float(branch.label) for group in pack for branch in group.branches])


def mean_or_none(values: list[float]) -> float | None:
    """Return the mean, or None of no values."""
    return round(sum(values) / len(values), 4) if values else None
