"""A run as Python's users have it: the record of it, with all that can be asked of one.

    run = localjudge.evaluate(...)       run["faithfulness"].mean, run.to_pandas()
    run.compare(before), run.check(["faithfulness>=0.8"]), run.verify(), run.rescore(threshold=0.7)
    run.report(), run.export("scores.csv"), run.label("sheet.csv"), run.read_labels("sheet.csv"), run.labels

What it does stands elsewhere; here it is called, with progress where somebody looks on, and drawn for notebooks.
"""

import shutil
import sys
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, Unpack, cast, get_args

from localjudge.analysis.check import Check, Undecided, check
from localjudge.analysis.compare import MOVED_SAMPLES, RunComparison, compare
from localjudge.analysis.label_sheet import write_sheet
from localjudge.analysis.labelling import Labelling, LabelsRead, read_labels
from localjudge.analysis.labels import CorrectedMean, RunLabels, labels_of
from localjudge.arguments import check_arguments
from localjudge.engine.protocol import Engine
from localjudge.errors import InputError
from localjudge.metrics import Metric
from localjudge.progress import Progress, Silence
from localjudge.record import run as record
from localjudge.record.files import MetricSummary
from localjudge.record.run import RunLike
from localjudge.report.export import Format, Rows, exported_parts, pandas_frame, polars_frame
from localjudge.report.html_page import write_report
from localjudge.report.label_page import write_label_page
from localjudge.report.made_again import check_report
from localjudge.report.tables import comparison_view, gates_view, summary_view
from localjudge.report.terminal import Bar, as_html, progress_on
from localjudge.resources import write_output
from localjudge.run.job import rescore_run
from localjudge.run.judges import JudgeName
from localjudge.run.options import RescoreOptions, VerifyOptions, named
from localjudge.run.verify import Verification, verify_run

if TYPE_CHECKING:
    import pandas
    import polars

Output = str | Path | Literal[False] | None
"""A directory, None for one under `runs/`, False for one that goes with the result."""


class MetricResult(MetricSummary):
    """One metric of a run as the judge has it, and `corrected` by labels: None if nobody has labelled any."""

    corrected: CorrectedMean | None = None


class Comparison(RunComparison):
    """What changed from one run to another, a table in notebooks."""

    def _repr_html_(self) -> str:
        return as_html(comparison_view(self))


class CheckedGates(Check):
    """What became of each gate, and the comparison with the baseline, if there is one; a table in notebooks."""

    def _repr_html_(self) -> str:
        return as_html(gates_view(self.decisions))


class _Folder:
    """A private folder that exists as long as this object, which all copies of a run share."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="localjudge-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        message = "a run made with out=False cannot be pickled: this process deletes its files"
        raise InputError(message, hint="make it with out='runs/NAME', or return what you need of it: run.to_pandas()")


@dataclass(frozen=True, repr=False, eq=False)
class Run(record.Run):
    """A finished run: a mapping of its metrics to their means, intervals and counts.

    `run["faithfulness"].mean` is in [0, 1], or None where no sample was scored; `ci95` is its 95 % interval. `scores`
    has a row for each sample and metric, `verdicts` one for each judged sentence or chunk, `samples` the data;
    `iter_scores`, `iter_verdicts` and `iter_samples` hold one at a time. `summary` and `manifest` say what was
    measured and on what it rests, `notes` what was said while the run was made.
    """

    folder: _Folder | None = None
    """Where the files of a run are that was made with `out=False`."""
    types: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The types of the columns of the frame that was evaluated in this process, for `to_pandas` and `to_polars`."""

    @classmethod
    def of(cls, run: record.Run, folder: _Folder | None = None, types: Mapping[str, Any] | None = None) -> Self:
        """The run of a record."""
        values = {part.name: getattr(run, part.name) for part in fields(record.Run)}
        return cls(**values, folder=folder, types=types or {})

    def to_pandas(self, rows: Rows = "samples") -> "pandas.DataFrame":
        """A row for each sample, in the order of the data and with its index: texts, your own columns, scores.

        `rows` are "samples", "scores" or "verdicts". A metric has two columns: its score in [0, 1], NaN where there is
        none, and its status: scored, undefined or failed. Raises InputError if pandas is not installed.
        """
        return pandas_frame(self, rows, self.types)

    def to_polars(self, rows: Rows = "samples") -> "polars.DataFrame":
        """As `to_pandas`, with null where there is no score. Raises InputError if polars is not installed."""
        return polars_frame(self, rows, self.types)

    @check_arguments
    def compare(self, baseline: RunLike, *, by: str | None = None, moved: int = MOVED_SAMPLES) -> Comparison:
        """What changed from the baseline to this run, by paired intervals, corrected by labels of both if they suffice.

        `by` names a column of this run's data: each metric is then also compared by its values. At most `moved` samples
        of each metric are listed. Raises RunDirectoryError for a directory without a finished run, InputError for a
        column that cannot be compared by.
        """
        return Comparison(**vars(compare(baseline, self, moved=moved, by=by)))

    def check(
        self, gates: Sequence[str] = (), *, baseline: RunLike | None = None, undecided: Undecided = "fail"
    ) -> CheckedGates:
        """Decide gates such as "context_recall>=0.8" and "context_recall.delta>=-0.02", which needs a baseline.

        Each is decided on its 95 % interval. The result is true if no gate failed: `assert run.check([...])`.
        `undecided` ("fail" or "pass") is what a gate counts as that so few samples cannot decide. Raises InputError for
        a gate that cannot be decided.
        """
        conditions = list(gates) if isinstance(gates, Iterable) and not isinstance(gates, str) else [gates]
        if not all(isinstance(condition, str) for condition in conditions):
            raise InputError(f"gates must be a list of texts, got {gates!r:.80}", hint="such as 'context_recall>=0.8'")
        return CheckedGates(**vars(check(self, gates=conditions, baseline=baseline, undecided=undecided)))

    @check_arguments
    def verify(
        self,
        *,
        judge: JudgeName | None = None,
        engine: Engine | None = None,
        sample: int | None = None,
        seed: int = 0,
        metrics: Sequence[Metric] = (),
        progress: Progress | bool | None = None,
        **options: Unpack[VerifyOptions],
    ) -> Verification:
        """Ask the judge again, work out the files again, and say what is the same; nothing of the run is changed.

        The result is true unless something is different: `assert run.verify()`.

        judge: where the run's model is now; None for where it was.
        sample: ask that many of the stored questions, drawn by `seed`; None for all. Files and data are always checked.
        metrics: metric objects of yours that the run computed.

        The others are those of `localjudge.evaluate`. Raises InputError (ModelError, RunDirectoryError) where the judge
        or the run cannot be opened.
        """
        how = {**named(options), "seed": seed, "metrics": metrics, "check_report": check_report}
        return verify_run(self, judge=judge, engine=engine, count=sample, progress=progress_for(progress), **how)

    @check_arguments
    def rescore(
        self,
        metrics: str | Metric | Sequence[str | Metric] | None = None,
        *,
        out: Output = None,
        judge: JudgeName | None = None,
        engine: Engine | None = None,
        progress: Progress | bool | None = None,
        **options: Unpack[RescoreOptions],
    ) -> "Run":
        """Score the samples once more, with other metrics or settings: only what this run did not ask is asked.

        The result is a run of its own. What is None is as it is here; `judge` says where the run's model is now. The
        arguments are those of `localjudge.evaluate`. Raises what that raises, and InputError if the judge, or a package
        that it rests on, is another one now.
        """
        directory, folder = directory_for(out)
        with closing(progress_for(progress)) as shown:
            run = rescore_run(self, metrics, named(options), out=directory, judge=judge, engine=engine, progress=shown)
        return Run.of(run, folder, self.types)

    @check_arguments
    def report(
        self,
        out: str | Path | None = None,
        *,
        baseline: RunLike | None = None,
        gates: Sequence[str] = (),
        undecided: Undecided = "fail",
        title: str | None = None,
    ) -> Path:
        """Write the run as one HTML page, by default `report.html` in its directory; returns its path.

        Takes baseline and gates as `check` does; `title` is the heading in place of the data's name. An earlier report
        is replaced; InputError for another file of that name.
        """
        before = None if baseline is None else record.as_run(baseline)
        checked = self.check(gates, baseline=before, undecided=undecided)
        return write_report(self, checked, before, out, title=title)

    @check_arguments
    def export(
        self,
        file: str | Path,
        format: Format | None = None,  # as pandas and others call it
        *,
        rows: Rows = "scores",
        texts: bool = False,
        columns: bool = False,
    ) -> Path:
        """Write the results for another program; returns the path.

        format: "jsonl", "csv" or "parquet", of `rows` "scores", "verdicts" or "samples", with the `texts` and your own
            `columns` if wanted; "ragas", "ragas-csv", "ragas-parquet" or "inspect". None for
            the one that the file's name ends with. Raises InputError for what the run does not hold.
        """
        path = Path(file).expanduser()
        name = cast(Format, format or path.suffix.removeprefix("."))
        if name not in get_args(Format):
            hint = f"name one: format={get_args(Format)[-3]!r}"
            raise InputError(f"{path.name} does not say in which format", hint=hint)
        write_output(path, exported_parts(self, name, rows, texts=texts, columns=columns))
        return path

    def __getitem__(self, metric: str) -> MetricResult:
        summary, labels = super().__getitem__(metric), labels_of(self)
        return MetricResult(**vars(summary), corrected=labels.corrected.get(metric) if labels else None)

    @property
    def labels(self) -> RunLabels | None:
        """What people labelled of this run: how many, who, how far they agree, and the corrected means; None for none.

        Raises RunDirectoryError for a row that localjudge does not write.
        """
        return labels_of(self)

    @check_arguments
    def label(  # each by its name, so that editors offer them
        self,
        out: str | Path,
        *,
        n: int | None = None,
        minutes: float | None = None,
        metrics: str | Sequence[str] | None = None,
        seed: int = 0,
        labeller: str | None = None,
        again: bool = False,
    ) -> Path:
        """Draw `n` statements (50), or as many as `minutes` allow, and write them for people to label.

        The ending says how: .csv, .xlsx and .jsonl are sheets, .html is a page for a browser. `read_labels` takes what
        comes back. The arguments are those of `localjudge label`. Raises InputError for a metric without verdicts of a
        judge, and for a file that is there already.
        """
        path = Path(out).expanduser()
        names = [metrics] if isinstance(metrics, str) else metrics
        labelling = Labelling(self, labeller, n=n, minutes=minutes, metrics=names, seed=seed, again=again)
        if path.suffix == ".html":
            write_label_page(path, labelling.rows_to_send(), title=self.directory.name)
        else:
            write_sheet(path, labelling.rows_to_send())
        return path

    @check_arguments
    def read_labels(self, file: str | Path, labeller: str | None = None) -> LabelsRead:
        """Take the labels of a sheet, of what the page gave, or of another run's directory: how many are new.

        `labeller` gave those that name nobody. Raises DataError for a file that holds no labels of this run.
        """
        return read_labels(self, file, labeller)

    def _repr_html_(self) -> str:
        return as_html(summary_view(self))


def directory_for(out: Output) -> tuple[Path | None, _Folder | None]:
    """The directory of a new run, and its folder where it goes with the run. Raises InputError for what names none."""
    if out is None:
        return None, None
    if out is False:
        folder = _Folder()
        return folder.path / "run", folder
    if "\0" in str(out):
        raise InputError(f"{out!r:.80} is not the name of a directory", hint="False leaves none behind")
    return Path(out).expanduser(), None


def progress_for(progress: Progress | bool | None) -> Progress:
    """What shows the progress."""
    if isinstance(progress, Progress):
        return progress
    ipython = sys.modules.get("IPython")
    in_notebook = type(ipython and ipython.get_ipython()).__name__ == "ZMQInteractiveShell"
    if not (progress or (progress is None and (in_notebook or sys.stderr.isatty()))):
        return Silence()
    # A notebook paints stderr red, and without widgets a bar cannot be drawn there.
    if in_notebook:
        return Bar(sys.stdout) if find_spec("ipywidgets") else progress_on(sys.stdout)
    return progress_on(sys.stderr)


def runs_in(runs: object) -> list[RunLike]:
    """Return the runs in a list. Raises InputError for a single run, and for anything else."""
    if isinstance(runs, Sequence | Iterator) and not isinstance(runs, RunLike):
        some = list(runs)
        if all(isinstance(run, RunLike) for run in some):
            return some
    raise InputError(f"runs must be a list of runs or directories, got {runs!r:.80}", hint="name two or more")
