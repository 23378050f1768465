"""Functions that make runs, for Python. The command line uses the same plan.

    evaluate(data, judge=...), evaluate(reuse=[...]) ──> Run
    evaluate_pair(data, against="answer_a") ──> RunPair
    calibrate(run), calibrate(labels) ──> [Calibration]    for evaluate(calibration=...)

The methods of a run are in `localjudge.run`, those of two runs here:

    pair.label("sheet.csv"), pair.read_labels("sheet.csv")
    pair.compare(), pair.check(["faithfulness.delta>=0"]), pair.verify()
    pair.certificate("page.html")
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Self, Unpack

from localjudge.analysis.check import Check, Undecided
from localjudge.analysis.compare import MOVED_SAMPLES, join_statements
from localjudge.analysis.comparison import Obstacle, RunComparison
from localjudge.arguments import check_arguments
from localjudge.calibration import measure_judges
from localjudge.engine.protocol import Engine
from localjudge.errors import InputError
from localjudge.judging.judges import JudgeName
from localjudge.judging.jury import JudgeNames
from localjudge.judging.pair import judge_pair, plan_pair
from localjudge.judging.plan import Data
from localjudge.judging.settings import (
    CalibrateSettings,
    EvaluateSettings,
    checked,
    takes_settings,
    without_defaults,
)
from localjudge.judging.verify import PairVerification
from localjudge.judging.verify_files import verify_joint_labels
from localjudge.labels.drawing import DrawingOptions
from localjudge.labels.labelling import Labelling
from localjudge.labels.read_labels import LabelsRead, read_labels
from localjudge.metrics import Metric
from localjudge.open_judge import Judge, make_run
from localjudge.progress import Progress
from localjudge.report.certificate import Certificate
from localjudge.report.comparison_views import comparison_view
from localjudge.report.difference_certificate import write_difference_certificate
from localjudge.report.label_views import write_labelling
from localjudge.report.terminal import as_html, progress_for
from localjudge.run import Output, Run, directory_for
from localjudge.run_directory.comparison_directory import ComparisonDirectory
from localjudge.run_directory.measured_judges import Calibration
from localjudge.run_directory.run_record import RunLike, as_run
from localjudge.types import Language
from localjudge.words import option_name


@takes_settings
def evaluate(
    data: Data | None = None,
    *,
    judge: JudgeNames | Judge | None = None,
    metrics: str | Metric | Path | Sequence[str | Metric | Path] | None = None,
    out: Output = None,
    engine: Engine | None = None,
    progress: Progress | bool | None = None,
    baseline: RunLike | None = None,
    **settings: Unpack[EvaluateSettings],
) -> Run:
    """Score data with a local judge. Scores are in [0, 1]; no data leaves your machines.

    data: one or more files (JSONL, JSON, CSV, Parquet, Arrow, logs of inspect), rows as mappings,
        models or dataclasses, a mapping of columns, or another package's frame, table or data set.
        None for the samples of the run in `reuse` (or of all shards of one), with its judge,
        metrics and settings unless others are given.
    judge: a registered name, the path of a GGUF file, or a name from `localjudge models`; several
        of them make one verdict together: the weighted mean of their log odds. Or an open
        `localjudge.Judge`, which stays open and provides the default settings; other threads that
        use it wait. None for the bundled judge, which is small: mind
        `run.judge.caution`.
    metrics: names, metric objects and `Criterion` objects, or one; None for the default metrics
        that the columns allow. A mean is a share from 0 to 1. Higher is better, except for refusal
        and noise_sensitivity. Names, by the columns that they need (docs/metrics.md says what each
        asks):
        retrieved_contexts and reference: context_recall, matrix_recall, matrix_recall@k,
            matrix_precision; with the user_input (the question) context_precision; with the
            response noise_sensitivity
        retrieved_contexts and user_input: context_relevancy, context_relevancy_chunk,
            context_sufficiency
        retrieved_contexts and response: faithfulness, citation_support, citation_validity; with the
            user_input abstention
        response: refusal; with the user_input answer_relevancy; with the reference
            answer_correctness
        retrieved_contexts and reference_contexts, without a judge: document_recall_single_hit,
            document_recall_multi_hit, document_mrr, document_map, document_ndcg, hit_rate@k,
            precision@k, recall@k
    out: the run directory; None for one under `runs/`, named after the data and everything that
        affects the numbers; False for a private temporary folder that is deleted with the result.
    engine: replaces the judge's model (a `ScriptedEngine` in tests) and is not closed.
    progress: True shows a bar, False none; None shows one in notebooks and on terminals. An object
        of a subclass of `localjudge.progress.Progress` receives the progress.
    baseline: an earlier run, for a gate of `until` such as "context_recall.delta>=-0.02".

    None keeps the default of a setting. Settings that stop a run by its scores give confidence
    sequences in place of intervals; `Run.check` with the same gates gives the results.

    Raises InputError (DataError, ModelError, RunDirectoryError) if no sample was judged,
    OutOfResource if the same call can resume later. A sample that cannot be scored is part of the
    result instead of an error.
    """
    if isinstance(judge, Judge) and engine is not None:
        hint = f"omit {option_name('engine')} or the judge"
        raise InputError("an open judge already has an engine", hint=hint)
    baseline_run = None
    if baseline is not None:
        baseline_run = as_run(baseline)
    return make_run(
        judge,
        data,
        metrics,
        without_defaults(settings),
        out=out,
        progress=progress,
        engine=engine,
        baseline=baseline_run,
    )


@dataclass(frozen=True, eq=False)
class RunPair:
    """Two finished runs in one directory: the baseline, and the new run."""

    directory: Path
    baseline: Run
    run: Run

    @classmethod
    @check_arguments
    def open(cls, directory: str | Path) -> Self:
        """Open the comparison in a directory. Raises RunDirectoryError."""
        comparison = ComparisonDirectory.open(directory)
        baseline = Run.open(comparison.baseline_path)
        return cls(comparison.path, baseline, Run.open(comparison.run_path))

    @property
    def comparison(self) -> RunComparison:
        """The difference of each metric, as `compare` gives it."""
        return self.compare()

    @check_arguments
    def compare(self, *, by: str | None = None, moved: int = MOVED_SAMPLES) -> RunComparison:
        """Compare the run with its baseline, as `Run.compare` does."""
        return self.run.compare(self.baseline, by=by, moved=moved)

    @check_arguments
    def label(
        self,
        out: str | Path,
        *,
        sample: int | None = None,
        metrics: str | Sequence[str] | None = None,
        annotator: str | None = None,
        language: Language = "en",
        show_evidence: bool = False,
    ) -> Path:
        """Draw `sample` statements (50) of both runs together, and write them for annotators.

        They are drawn by what each can change in the difference; equal ones are not asked. The
        arguments are those of `Run.label`. Raises InputError if nothing can change a difference.
        """
        path = Path(out).expanduser()
        if isinstance(metrics, str):
            metrics = [metrics]
        options = DrawingOptions(sample=sample, metrics=metrics)
        source = join_statements(ComparisonDirectory.open(self.directory))
        labelling = Labelling(source, annotator, options, show_evidence=show_evidence)
        write_labelling(path, labelling, language=language)
        return path

    @check_arguments
    def read_labels(self, file: str | Path, annotator: str | None = None) -> LabelsRead:
        """Import the labels of a sheet or page of both runs, as `Run.read_labels` does."""
        source = join_statements(ComparisonDirectory.open(self.directory))
        [counts] = read_labels(source, [file], annotator)
        return counts

    @check_arguments
    def check(
        self,
        gates: Sequence[str] = (),
        *,
        undecided: Undecided = "fail",
        allow_different: Obstacle | Sequence[Obstacle] = (),
    ) -> Check:
        """Decide gates such as "faithfulness.delta>=0", as `Run.check` does."""
        return self.run.check(
            gates, baseline=self.baseline, undecided=undecided, allow_different=allow_different
        )

    @check_arguments
    def report(
        self,
        out: str | Path | None = None,
        *,
        gates: Sequence[str] = (),
        title: str | None = None,
        by: str | None = None,
    ) -> Path:
        """Write both runs side by side as one HTML page, by default in the directory of the run.

        Arguments as in `Run.report`.
        """
        return self.run.report(out, baseline=self.baseline, gates=gates, title=title, by=by)

    @check_arguments
    def certificate(
        self,
        file: str | Path,
        *,
        title: str | None = None,
        language: Language = "en",
        gates: Sequence[str] = (),
        by: str | None = None,
    ) -> Certificate:
        """Write one printable page on the difference, as `Run.certificate` does on a mean.

        It contains no texts. Call `verify` before.
        """
        comparison = ComparisonDirectory.open(self.directory)
        return write_difference_certificate(
            comparison, file, title=title, language=language, gates=gates, by=by
        )

    @check_arguments
    def verify(
        self,
        *,
        judge: JudgeNames | None = None,
        engine: Engine | None = None,
        sample: int | None = None,
        data: Data | None = None,
        progress: Progress | bool | None = None,
    ) -> PairVerification:
        """Verify both runs, as `Run.verify` does with these arguments, and the joint labels."""
        baseline, run = [
            run.verify(judge=judge, engine=engine, sample=sample, data=data, progress=progress)
            for run in (self.baseline, self.run)
        ]
        labels = verify_joint_labels(self.directory, keep=bool(baseline and run))
        return PairVerification(baseline, run, labels)

    def _repr_html_(self) -> str:
        return as_html(*comparison_view(self.comparison))


@takes_settings
def evaluate_pair(
    data: Data,
    against: str,
    *,
    judge: JudgeNames | None = None,
    metrics: str | Metric | Path | Sequence[str | Metric | Path] | None = None,
    out: Output = None,
    engine: Engine | None = None,
    progress: Progress | bool | None = None,
    **settings: Unpack[EvaluateSettings],
) -> RunPair:
    """Score the answers of two columns on the same questions and texts.

    against: the column with the answers of the baseline. The other answers are the response:
        `mapping={"response": "answer_b"}`, unless its column has a known name. Rows without one of
        the answers are left out of both runs.
    metrics: None for the default metrics that read the response.
    out: the directory of the comparison, with a run for each column; None and False as in
        `evaluate`.

    Other arguments and errors as in `evaluate`, without `until` and `budget`. The same call
    resumes.
    """
    path, folder = directory_for(out)
    with closing(progress_for(progress)) as shown:
        planned = plan_pair(data, metrics, against, checked(without_defaults(settings)), shown)
        directory, baseline, run = judge_pair(
            planned, judge=judge, engine=engine, out=path, progress=shown
        )
    types = planned.run.column_types
    return RunPair(directory.path, Run.of(baseline, folder, types), Run.of(run, folder, types))


@takes_settings
def calibrate(
    labels: RunLike | Sequence[RunLike],
    *,
    judge: JudgeName | Sequence[JudgeName] | None = None,
    name: str | None = None,
    metrics: Sequence[str] | None = None,
    out: str | Path | None = None,
    engine: Engine | None = None,
    progress: Progress | bool | None = None,
    **settings: Unpack[CalibrateSettings],
) -> list[Calibration]:
    """Measure a judge on human labels and choose a threshold.

    Returns a calibration per question and judge, the best judge of a question first.

    labels: a labelled run, or a list of runs that share labels; or a file with the columns context,
        statement and label, or question, sentences and relevant.
    judge: the judge to ask about a file (the bundled judge if None), or a list of judges.
    name: name for `evaluate(calibration=name)`; None for judge and question.
    metrics: metrics with labels that count; None for all.
    out: the run directory for asking the judge.

    Other arguments and errors as in `evaluate`, and DataError for unusable labels.
    """
    how = {**without_defaults(settings), "metrics": metrics, "out": out, "engine": engine}
    sources: list[RunLike] = [labels] if isinstance(labels, RunLike) else _list_runs(labels)
    judges: list[JudgeName] = [judge] if isinstance(judge, JudgeName) else list(judge or ())
    with closing(progress_for(progress)) as shown:
        return measure_judges(sources, how, judges=judges, name=name, progress=shown)


def _list_runs(runs: object) -> list[RunLike]:
    """Return the runs in a list. Raises InputError."""
    if isinstance(runs, Sequence | Iterator) and not isinstance(runs, RunLike):
        listed = list(runs)
        if all(isinstance(run, RunLike) for run in listed):
            return listed
    problem = f"runs must be a list of runs or directories, got {runs!r:.80}"
    raise InputError(problem, hint="name two or more")
