"""Compare a data file with the samples that a run stores.

    file ──read as for the run──> samples ──sha256 of each──> the stored ones?
      └──sha256──> the one in the manifest?

Also for a run of two columns, whose rows and ids depend on both.
"""

import hashlib
from collections.abc import Iterable

from localjudge.dataset import Dataset, load, load_pair
from localjudge.dataset.samples import SampleRow, content_hash
from localjudge.judging.plan import Data, data_to_read
from localjudge.judging.stored_data import read_run_settings
from localjudge.metrics import Metric
from localjudge.progress import Progress
from localjudge.run_directory.archive import stored_rows
from localjudge.run_directory.comparison_directory import ComparisonDirectory
from localjudge.run_directory.directory import STORE
from localjudge.run_directory.run_record import RunRecord
from localjudge.types import Record, Sample

_SHOWN = 5


class DataFileCheck(Record):
    """Whether data files give the samples of a run. It is true if they do.

    `missing` stored samples are not in the files, of which `examples` names the first by id. The
    files have `rows` usable rows, and the run read `rows_read`. `has_same_bytes` is None without
    checksums of files in the manifest.
    """

    files: tuple[str, ...]
    sha256: tuple[str, ...]
    has_same_bytes: bool | None
    samples: int
    missing: int
    examples: tuple[str, ...]
    rows: int
    rows_read: int

    def __bool__(self) -> bool:
        return not self.missing and self.rows == self.rows_read


def check_data(
    run: RunRecord, data: Data, metrics: Iterable[Metric], progress: Progress
) -> DataFileCheck:
    """Read the data as for the run, and look for each stored sample with its columns.

    Raises DataError for unusable data, InputError for missing columns.
    """
    dataset = _read(run, data, metrics, progress)
    hashes = set(map(_hash_row, dataset.table.rows()))
    missing: list[str] = []
    for row in stored_rows(run.directory / STORE):
        if _hash_row(row) not in hashes:
            missing.append(row.id)
    environment = run.manifest.environment
    has_same_bytes = None
    if environment.source_sha256 and dataset.source_sha256:
        has_same_bytes = environment.source_sha256 == dataset.source_sha256
    return DataFileCheck(
        files=dataset.sources,
        sha256=dataset.source_sha256,
        has_same_bytes=has_same_bytes,
        samples=run.summary.samples,
        missing=len(missing),
        examples=tuple(missing[:_SHOWN]),
        rows=len(dataset.samples),
        rows_read=environment.samples_read,
    )


def _read(run: RunRecord, data: Data, metrics: Iterable[Metric], progress: Progress) -> Dataset:
    to_read = data_to_read(data, list(metrics), read_run_settings(run.manifest))
    directory = run.directory.resolve()
    comparison = ComparisonDirectory.find(directory.parent)
    if comparison is None or directory.name not in (comparison.baseline, comparison.run):
        return load(to_read.rows, **to_read.options, progress=progress)
    baseline = RunRecord.open(comparison.baseline_path, check=False)
    column = baseline.manifest.environment.mapping["response"]
    pair = load_pair(to_read.rows, column, **to_read.options, progress=progress)
    if directory.name == comparison.baseline:
        return pair.baseline
    return pair.run


def _hash_row(row: SampleRow) -> bytes:
    """Return the sha256 of the id, the fields and the other columns."""
    fields = content_hash(Sample.model_validate_json(row.content))
    return hashlib.sha256(f"{fields} {row.id} {row.extras}".encode()).digest()
