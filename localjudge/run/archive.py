"""What a finished run keeps in `run.sqlite`, read without changing it: the data, and the prompt of every verdict."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from localjudge.errors import RunDirectoryError
from localjudge.types import Sample


def stored_samples(path: Path) -> tuple[Sample, ...]:
    """The samples in the order of the data. Raises RunDirectoryError if the file cannot be read."""
    with _reading(path) as connection:
        rows = connection.execute("SELECT content FROM sample ORDER BY position")
        return tuple(Sample.model_validate(json.loads(content)) for (content,) in rows)


def stored_clusters(path: Path) -> dict[str, str] | None:
    """The group of each sample by its id; None for a run whose samples each stand alone."""
    with _reading(path) as connection:
        return dict(connection.execute("SELECT id, cluster FROM sample WHERE cluster IS NOT NULL")) or None


def stored_prompts(path: Path, sample_id: str, metric: str) -> list[str]:
    """Prompts asked for one metric on one sample, in the order of its units, then of their windows."""
    query = "SELECT prompt FROM verdict WHERE sample_id = ? AND metric = ? ORDER BY position, window"
    with _reading(path) as connection:
        return [prompt for (prompt,) in connection.execute(query, (sample_id, metric))]


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    # A file that nobody writes is opened as immutable: that works on a read-only disk, too.
    written_now = path.with_name(f"{path.name}-wal").exists()
    mode = "mode=ro" if written_now else "mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True)) as connection:
            yield connection
    except sqlite3.DatabaseError as error:
        raise RunDirectoryError(f"{path} cannot be read: {error}", hint="is it the directory of a run?") from error
