"""Functions that make runs, for Python. The command line uses the same plan.

    evaluate(data, judge=...), evaluate(reuse=[...]) ──> Run
    evaluate_pair(data, against="answer_a") ──> RunPair
    calibrate(run), calibrate(labels) ──> [Calibration]    for evaluate(calibration=...)

The methods of a run are in `localjudge.run`.
"""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Unpack

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
from localjudge.metrics import Metric
from localjudge.open_judge import Judge, make_run
from localjudge.progress import Progress
from localjudge.run import Output, Run, directory_for, list_runs, progress_for
from localjudge.run_directory.calibration import Calibration
from localjudge.run_directory.run_record import RunLike, as_run
from localjudge.run_pair import RunPair
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
    sources: list[RunLike] = [labels] if isinstance(labels, RunLike) else list_runs(labels)
    judges: list[JudgeName] = [judge] if isinstance(judge, JudgeName) else list(judge or ())
    with closing(progress_for(progress)) as shown:
        return measure_judges(sources, how, judges=judges, name=name, progress=shown)
