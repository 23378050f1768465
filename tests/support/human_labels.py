"""Labels by people: of drawn statements, of disputes, on a sheet, and by a second annotator."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from localjudge import Run
from localjudge.analysis.compare import join_statements
from localjudge.labels.drawing import DrawingOptions
from localjudge.labels.label_source import LabelSource
from localjudge.labels.labelling import Labelling
from localjudge.run_directory.comparison_directory import ComparisonDirectory
from localjudge.run_directory.label_rows import append_labels, stored_labels

LABELS = "labels.jsonl"
ALL = 1_000
Source = Run | LabelSource | Path
Say = Callable[[str], Any]
"""Returns the label of a text, None to skip it."""


def say_1(_text: str) -> int:
    return 1


def find_statements(source: Source) -> LabelSource:
    """Return the statements of a run, or of two together."""
    if isinstance(source, LabelSource):
        return source
    return LabelSource.of_run(source)


def draw(source: Source, annotator: str | None = "ann", count: int = ALL, **how: Any) -> Labelling:
    """Return drawn statements that an annotator has not labelled yet."""
    return Labelling(find_statements(source), annotator, DrawingOptions(sample=count, **how))


def draw_disputed(source: Source, annotator: str | None = "carol") -> Labelling:
    """Return the statements on which annotators differ."""
    return Labelling(find_statements(source), annotator, DrawingOptions(disputed=True))


def answer_all(labelling: Labelling, say: Say = say_1) -> Labelling:
    """Answer each statement once."""
    for _ in range(len(labelling.rows)):
        answer = say(labelling.rows[0]["text"])
        if answer is None:
            labelling.skip()
        else:
            labelling.answer(answer)
    return labelling


def fill_sheet(labelling: Labelling, say: Say) -> list[dict[str, Any]]:
    """Return the rows of a sheet with labels, without the answer around each statement."""
    rows = labelling.rows_to_send()
    return [{**row, "human": say(row["text"]), "source_text": None} for row in rows]


def of_both(directory: Path) -> LabelSource:
    """Return the statements of both runs of a comparison."""
    return join_statements(ComparisonDirectory.open(directory))


@contextmanager
def second_opinion(
    run: Run, annotator: str | None, count: int = 50, **how: Any
) -> Iterator[Labelling]:
    """Yield the same statements as for the first annotator, and add the new labels to the run.

    As on a page that was written before the labels of the first annotator were read.
    """
    with tempfile.TemporaryDirectory(prefix="localjudge-second-") as folder:
        copy = Path(folder) / "run"
        shutil.copytree(run.directory, copy, ignore=shutil.ignore_patterns(LABELS))
        yield draw(copy, annotator, count, **how)
        append_labels(run.directory, stored_labels(copy))
