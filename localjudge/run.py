"""Runs for Python: a record with its methods.

    run = localjudge.evaluate(...)       run["faithfulness"].mean, run.to_pandas()
    run.compare(before), run.check(["faithfulness>=0.8"]), run.verify()
    run.report(), run.certificate("page.html"), run.export("scores.csv")
    run.label("sheet.csv"), run.read_labels("sheet.csv"), run.labels

The methods show progress on terminals, and tables in notebooks.
"""

import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, TypedDict, Unpack, cast, get_args

from localjudge.analysis.breakdowns import PooledShare, pooled_shares
from localjudge.analysis.check import Check, Undecided, check
from localjudge.analysis.compare import MOVED_SAMPLES, compare
from localjudge.analysis.comparison import Obstacle, RunComparison
from localjudge.arguments import check_arguments
from localjudge.errors import InputError
from localjudge.judging.plan import Data
from localjudge.judging.settings import takes_settings, without_defaults
from localjudge.judging.verify import JudgeAgain, Verification, verify_run
from localjudge.labels.corrected_mean import CorrectedMean, quote_mean
from localjudge.labels.drawing import DrawingOptions
from localjudge.labels.label_source import LabelSource
from localjudge.labels.labelling import Labelling
from localjudge.labels.read_labels import LabelsRead, read_labels
from localjudge.labels.run_labels import RunLabels, find_corrected, read_run_labels
from localjudge.metrics import Metric
from localjudge.progress import Progress
from localjudge.report.certificate import Certificate, write_certificate
from localjudge.report.comparison_views import comparison_view, gates_view
from localjudge.report.export import Format, exported_parts, pandas_frame, polars_frame
from localjudge.report.flat_table import Rows
from localjudge.report.html_page import check_report, write_report
from localjudge.report.label_views import write_labelling
from localjudge.report.summary_views import summary_view
from localjudge.report.terminal import as_html, progress_for
from localjudge.resources import private_folder, write_output
from localjudge.run_directory import run_record
from localjudge.run_directory.run_record import RunLike
from localjudge.run_directory.summary import MetricSummary
from localjudge.stats.interval import Mean, NoMean
from localjudge.types import Language, notebook_html
from localjudge.words import three_digits

if TYPE_CHECKING:
    import pandas
    import polars

Output = str | Path | Literal[False] | None
"""A directory, None for one under `runs/`, False for one that is deleted with the result."""


class GateRules(TypedDict, total=False):
    """How `Run.check` decides gates."""

    undecided: Undecided | None
    allow_different: Obstacle | Sequence[Obstacle] | None


class MetricResult(MetricSummary):
    """One metric of a run.

    `corrected` is its mean by human labels, if there are any, and `pooled` the share over all
    units, if scores are fractions.
    """

    corrected: CorrectedMean | None = None
    pooled: PooledShare | None = None

    @property
    def headline(self) -> Mean | NoMean:
        """The mean to quote: by labels if they suffice, none while too few, else by the judge."""
        return quote_mean(self, self.corrected)


@notebook_html.register
def _show_number(value: float) -> str:
    return three_digits(value)


@notebook_html.register
def _show_comparison(comparison: RunComparison) -> str:
    return as_html(*comparison_view(comparison))


@notebook_html.register
def _show_gates(gates: Check) -> str:
    return as_html(gates_view(gates.decisions))


class _Folder:
    """A private folder, deleted with the last copy of its run."""

    def __init__(self) -> None:
        stack = ExitStack()
        self.path = stack.enter_context(private_folder("localjudge-"))
        weakref.finalize(self, stack.close)

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        message = "a run made with out=False cannot be pickled: this process deletes its files"
        raise InputError(
            message,
            hint="make it with out='runs/NAME', or return only what you need: run.to_pandas()",
        )


@dataclass(frozen=True, repr=False, eq=False)
class Run(run_record.RunRecord):
    """A finished run: a mapping from metrics to their means, intervals and counts.

    `run["faithfulness"].mean` is in [0, 1], or None if no sample was scored; `ci95` is its 95 %
    interval. `scores` has a row for each sample and metric, `verdicts` one for each judged sentence
    or chunk with its `evidence`, and `samples` contains the data; `iter_scores`, `iter_verdicts`
    and `iter_samples` read row by row. `summary` and `manifest` describe the measurement. `notes`
    are messages from the evaluation.
    """

    folder: _Folder | None = None
    types: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Column types of the evaluated frame."""

    @classmethod
    def of(
        cls,
        run: run_record.RunRecord,
        folder: _Folder | None = None,
        types: Mapping[str, Any] | None = None,
    ) -> Self:
        """Wrap a record."""
        values = {part.name: getattr(run, part.name) for part in fields(run_record.RunRecord)}
        return cls(**values, folder=folder, types=types or {})

    @check_arguments
    def to_pandas(self, rows: Rows = "samples") -> "pandas.DataFrame":
        """Return a row for each sample, in the order of the data: texts, your columns, scores.

        The index is that of the data. `rows` is "samples", "scores" or "verdicts". Each metric has
        two columns: its score in [0, 1] (NaN if missing) and its status (scored, undefined or
        failed). `attrs["caution"]` is the judge's. Raises InputError without pandas.
        """
        frame = pandas_frame(self, rows, self.types)
        frame.attrs["caution"] = self.judge.caution
        return frame

    @check_arguments
    def to_polars(self, rows: Rows = "samples") -> "polars.DataFrame":
        """Like `to_pandas`, with null for a missing score, and without `attrs`."""
        return polars_frame(self, rows, self.types)

    @check_arguments
    def compare(
        self,
        baseline: RunLike,
        *,
        by: str | None = None,
        moved: int = MOVED_SAMPLES,
    ) -> RunComparison:
        """Compare this run with the baseline by paired intervals.

        They are corrected by labels of both runs, if they suffice.

        `by` names a column; each metric is also compared by its values. Lists at most `moved`
        samples per metric. Raises RunDirectoryError without a finished run, InputError for an
        unsuitable column.
        """
        return compare(baseline, self, moved=moved, by=by)

    @check_arguments
    def check(
        self,
        gates: Sequence[str] = (),
        *,
        baseline: RunLike | None = None,
        undecided: Undecided = "fail",
        allow_different: Obstacle | Sequence[Obstacle] = (),
    ) -> Check:
        """Decide gates such as "context_recall>=0.8".

        "context_recall.delta>=-0.02" needs a baseline.

        Each is decided on its 95 % interval. The result is true if none failed: `assert
        run.check([...])`. `undecided` ("fail" or "pass") is the result with too few samples. A
        difference of runs with other judges, or with other questions or references of paired
        samples, is not decided unless `allow_different` has "judges" or "questions". Raises
        InputError.
        """
        conditions: list[Any] = [gates]
        if isinstance(gates, Iterable) and not isinstance(gates, str):
            conditions = list(gates)
        if not all(isinstance(condition, str) for condition in conditions):
            problem = f"gates must be a list of texts, got {gates!r:.80}"
            raise InputError(problem, hint="such as 'context_recall>=0.8'")
        rules: dict[str, Any] = {"undecided": undecided, "allow_different": allow_different}
        return check(self, gates=conditions, baseline=baseline, **rules)

    @takes_settings
    def verify(
        self,
        *,
        sample: int | None = None,
        seed: int = 0,
        metrics: Sequence[Metric] = (),
        data: Data | None = None,
        progress: Progress | bool | None = None,
        **how: Unpack[JudgeAgain],
    ) -> Verification:
        """Ask the judge again, recompute the files, and report the differences.

        The result is true if there are none: `assert run.verify()`.

        judge: the current path of the run's model, or of each model of several judges, in a list.
        sample: number of stored questions to ask, drawn by `seed`; None for all. Files and data are
            always checked.
        metrics: your metric objects that the run computed.
        data: the file or files that the run was made from, to compare with its samples.

        Other arguments and errors as in `localjudge.evaluate`.
        """
        return verify_run(
            self,
            sample=sample,
            seed=seed,
            metrics=metrics,
            data=data,
            check_report=check_report,
            progress=progress_for(progress),
            **without_defaults(how),
        )

    @check_arguments
    def report(
        self,
        out: str | Path | None = None,
        *,
        baseline: RunLike | None = None,
        gates: Sequence[str] = (),
        title: str | None = None,
        by: str | None = None,
        **rules: Unpack[GateRules],
    ) -> Path:
        """Write the run as one HTML page and return its path.

        The page is by default `report.html` in the run's directory.

        Takes baseline and gates like `check`; `title` replaces the data's name; `by` names a column
        for means of slices. Raises InputError for an existing file that is not a report, or an
        unsuitable column.
        """
        baseline_run = None
        if baseline is not None:
            baseline_run = run_record.as_run(baseline)
        checked = self.check(gates, baseline=baseline_run, **without_defaults(rules))
        return write_report(self, checked, baseline_run, out, title=title, by=by)

    @check_arguments
    def certificate(
        self,
        file: str | Path,
        *,
        title: str | None = None,
        language: Language = "en",
        gates: str | Sequence[str] = (),
        by: str | None = None,
        metrics: Sequence[Metric] = (),
    ) -> Certificate:
        """Write one printable page: the result, what was checked, how to repeat the check.

        It contains no texts.

        It has the results of the `gates`, and of slices `by` a column of the data. `metrics` are
        your metric objects that the run computed.

        Checks all files without asking the judge: call `verify` before. The returned `problems`
        list what was altered. Raises InputError for an existing file that is not a page of
        localjudge.
        """
        return write_certificate(
            self, file, title=title, language=language, gates=gates, by=by, metrics=metrics
        )

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
        """Write the results for another program and return the path.

        format: "jsonl", "csv" or "parquet", of `rows` "scores", "verdicts" or "samples", with
        `texts` and your `columns` if wanted. None chooses by the file extension.

        Raises InputError for data that the run lacks.
        """
        path = Path(file).expanduser()
        name = cast(Format, format or path.suffix.lower().removeprefix("."))
        if name not in get_args(Format):
            hint = f"name one: format={get_args(Format)[0]!r}"
            raise InputError(f"{path.name} does not say in which format", hint=hint)
        write_output(path, exported_parts(self, name, rows, texts=texts, columns=columns))
        return path

    def __getitem__(self, metric: str) -> MetricResult:
        summary = super().__getitem__(metric)
        corrected = find_corrected(read_run_labels(self), metric)
        return MetricResult(**vars(summary), corrected=corrected, pooled=self._pooled.get(metric))

    @cached_property
    def _pooled(self) -> dict[str, PooledShare]:
        return pooled_shares(self)

    @property
    def labels(self) -> RunLabels | None:
        """Counts, annotators, agreement and corrected means of human labels, or None.

        Raises RunDirectoryError.
        """
        return read_run_labels(self)

    @check_arguments
    def label(  # noqa: PLR0913 # each by its name, so that editors offer them
        self,
        out: str | Path,
        *,
        sample: int | None = None,
        metrics: str | Sequence[str] | None = None,
        seed: int | None = None,
        annotator: str | None = None,
        language: Language = "en",
        disputed: bool = False,
        by: str | None = None,
        show_evidence: bool = False,
    ) -> Path:
        """Draw `sample` statements (50) and write them for annotators.

        `disputed` takes the statements on which annotators differ. A .csv or .jsonl file is a
        sheet, .html a page for a browser, in this `language`; `read_labels` imports it.
        `show_evidence` shows the sentences closest to each statement at once, and marks the labels;
        otherwise a page shows them on request, and a sheet not at all. Other arguments as in
        `localjudge label`. Raises InputError for a metric without judged verdicts, for an existing
        file, and for evidence of a run without.
        """
        path = Path(out).expanduser()
        if isinstance(metrics, str):
            metrics = [metrics]
        options = DrawingOptions(
            sample=sample,
            metrics=metrics,
            seed=seed,
            by=by,
            disputed=disputed,
        )
        source = LabelSource.of_run(self)
        labelling = Labelling(source, annotator, options, show_evidence=show_evidence)
        write_labelling(path, labelling, language=language)
        return path

    @check_arguments
    def read_labels(self, file: str | Path, annotator: str | None = None) -> LabelsRead:
        """Import the labels of a sheet, the page, or another run, and return their counts.

        `annotator` names the annotator of labels without a name. Raises DataError without labels of
        this run.
        """
        [counts] = read_labels(LabelSource.of_run(self), [file], annotator)
        return counts

    def _repr_html_(self) -> str:
        return as_html(summary_view(self))


def directory_for(out: Output) -> tuple[Path | None, _Folder | None]:
    """Return the directory of a new run, and its temporary folder. Raises InputError."""
    if out is None:
        return None, None
    if out is False:
        folder = _Folder()
        return folder.path / "run", folder
    if out == "" or "\0" in str(out):
        raise InputError(
            f"{out!r:.80} is not the name of a directory",
            hint="None makes one under runs/, and False leaves none behind",
        )
    return Path(out).expanduser(), None
