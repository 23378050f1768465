"""What is judged: the statements of real samples' references against their retrieved contexts."""

import json
from pathlib import Path
from typing import NamedTuple

from localjudge import resources
from localjudge.metrics.units import attributed_sentences
from localjudge.text import sentences
from localjudge.types import Attribution, Context, Sample

FILES = ("rag_clapnq.dev.jsonl", "rag_hotpotqa.dev.jsonl")


class Case(NamedTuple):
    """One sample and one task for each sentence of its reference. `source` names the file that it comes from."""

    source: str
    sample: Sample
    tasks: tuple[Attribution, ...]


def from_folder(folder: Path, samples_each: int) -> list[Case]:
    """Samples with a reference from both files, evenly spread over each."""
    return [case for name in FILES for case in _spread(_cases(folder / name), samples_each)]


def bundled() -> list[Case]:
    """The two samples that come with localjudge."""
    return _cases(resources.demo_file())


def _cases(file: Path) -> list[Case]:
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    samples = [
        Sample(
            id=row["id"],
            user_input=row["user_input"],
            reference=row["reference"],
            retrieved_contexts=tuple(Context(text=text) for text in row["retrieved_contexts"]),
        )
        for row in rows
        if row.get("reference") and row.get("retrieved_contexts")
    ]
    return [Case(file.stem, sample, tuple(attributed_sentences(sample, "reference", sentences))) for sample in samples]


def _spread(cases: list[Case], count: int) -> list[Case]:
    step = max(1, len(cases) // count)
    return cases[::step][:count]
