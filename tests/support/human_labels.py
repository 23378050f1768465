"""Labels by a second annotator, who labels the same statements as the first.

As on a page that was written before the labels of the first annotator were read.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from localjudge import Run
from localjudge.labels.drawing import DrawingOptions
from localjudge.labels.labelling import Labelling
from localjudge.run_directory.label_rows import append_labels, stored_labels

LABELS = "labels.jsonl"


@contextmanager
def second_opinion(run: Run, annotator: str | None, **how: Any) -> Iterator[Labelling]:
    """Yield a labelling of the run without its labels, and add the new labels to the run."""
    with tempfile.TemporaryDirectory(prefix="localjudge-second-") as folder:
        copy = Path(folder) / "run"
        shutil.copytree(run.directory, copy, ignore=shutil.ignore_patterns(LABELS))
        yield Labelling(copy, annotator, DrawingOptions(**how))
        append_labels(run.directory, stored_labels(copy))
