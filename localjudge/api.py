"""Functions that make runs, for Python. The command line uses the same plan.

    evaluate(data, judge=...), evaluate(reuse=[...]) ──> Run
    evaluate_pair(data, against="answer_a") ──> RunPair
    calibrate(run), calibrate(labels) ──> [Calibration]    for evaluate(calibration=...)

The methods of a run are in `localjudge.run`.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from localjudge.arguments import check_arguments_except
from localjudge.calibration import measure_judges
from localjudge.engine.protocol import Engine
from localjudge.errors import InputError
from localjudge.judge.profile import ProfileFolder
from localjudge.judge.wording import Reasons
from localjudge.judging.judges import JudgeName
from localjudge.judging.open_jury import JudgeNames
from localjudge.judging.pair import judge_pair, plan_pair
from localjudge.judging.plan import Data
from localjudge.judging.settings import SETTINGS, checked, settings_among
from localjudge.metrics import Metric
from localjudge.open_judge import Judge, make_run
from localjudge.progress import Progress
from localjudge.run import Output, Run, directory_for, list_runs, progress_for
from localjudge.run_directory.calibration import Calibration
from localjudge.run_directory.run_record import RunLike, as_run
from localjudge.run_directory.saved_calibrations import CalibrationLike
from localjudge.run_pair import RunPair
from localjudge.words import option_name


@check_arguments_except(SETTINGS)
def evaluate(  # noqa: PLR0913 # each by its name, so that editors offer them
    data: Data | None = None,
    *,
    judge: JudgeNames | Judge | None = None,
    metrics: str | Metric | Path | Sequence[str | Metric | Path] | None = None,
    out: Output = None,
    engine: Engine | None = None,
    progress: Progress | bool | None = None,
    baseline: RunLike | None = None,
    threads: int | None = None,
    ray: str | None = None,
    min_valid_mass: float | None = None,
    threshold: float | None = None,
    calibration: CalibrationLike | Sequence[CalibrationLike] | None = None,
    max_failed: int | None = None,
    profile: str | Path | ProfileFolder | None = None,
    reasons: Reasons | None = None,
    n_ctx: int | None = None,
    gpu_layers: int | None = None,
    language: str | None = None,
    segmenter: str | None = None,
    abbreviations: str | Path | Sequence[str] | None = None,
    keep_thinking: bool | None = None,
    cluster_by: str | None = None,
    no_evidence: bool | None = None,
    reuse: RunLike | Sequence[RunLike] | None = None,
    mapping: Mapping[str, str] | None = None,
    context_separator: str | None = None,
    rows: str | None = None,
    skip_bad_rows: bool | None = None,
    limit: int | None = None,
    sample: int | None = None,
    seed: int | None = None,
    shard: str | None = None,
    until: str | Sequence[str] | None = None,
    budget: str | None = None,
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

    Verdicts and counting:

    threshold: smallest probability of a verdict 1, in [0, 1] (0.5).
    calibration: name or file of a calibration, or a result of `calibrate`, or several; their
        thresholds apply to the metrics that ask their questions.
    min_valid_mass: minimum probability in [0, 1] of valid answers; below it there is no verdict
        (0.01).
    max_failed: failed samples tolerated per metric before its mean is withheld (None: 1 % of the
        samples).
    cluster_by: column that groups samples, such as a document; intervals are then over these
        groups.
    no_evidence: do not look for the sentences behind the verdicts (False: each verdict about a
        statement has up to two, as `evidence`).

    Data:

    mapping: field to column, such as {"reference": "gold"}. "a.b" reaches into objects, "a[].b"
        into each of a list; "a,b" joins several columns of contexts.
    context_separator: separator between contexts in one text ("|" for files of DeepEval).
    rows: path of the rows inside the objects of a JSON file, such as "experiment.items".
    skip_bad_rows: skip and count unusable rows instead of raising DataError (False).
    limit: use only the first N samples.
    sample, seed: use N samples drawn at random by id; a larger N includes the samples of a smaller
        N.
    shard: one of n parts by id, such as "1/4", for separate processes; `reuse` with all parts gives
        the whole run.
    until, baseline: one or more gates such as "context_recall>=0.8": samples are judged in random
        order, by `seed`, until all are decided. "context_recall.delta>=-0.02" compares with the
        baseline, an earlier run. The intervals of such a run are confidence sequences. `Run.check`
        with the same gates gives the results.
    budget: judge as many samples in random order as fit into a time: "90s", "30m", "2h".
    reuse: one or more runs of the same judge with answers to reuse, such as all shards; only new
        questions are asked.

    Prompts and sentences:

    language: language of the rules that split sentences, as a spaCy code ("en").
    segmenter: installed spaCy pipeline that splits sentences instead.
    abbreviations: words whose full stop does not end a sentence, or a file with one per line.
    keep_thinking: judge also the thinking in responses, such as <think> ... </think> (False: it is
        left out).
    profile: prompt profile ("instruct", "minicheck" ...), or a folder; None for the one made for
        the model.
    reasons: "before" lets the model write a reason before the verdict (which may change it),
        "after" after it ("none").

    Engine; of these, only n_ctx and gpu_layers affect numbers:

    n_ctx: context of the model in tokens; None for the model's limit, at most 8,192.
    gpu_layers: layers of the model on the GPU; None for all, if the build has a GPU backend.
    threads: processor threads, with `ray` of each worker; None for all available to this process.
    ray: judge on the machines of a Ray cluster (docs/scaling.md): "auto" (the one that this machine
        is part of), "local" (one on this machine), or "HOST:PORT". None for this process alone.

    Raises InputError (DataError, ModelError, RunDirectoryError) if no sample was judged,
    OutOfResource if the same call can resume later. A sample that cannot be scored is part of the
    result instead of an error.
    """
    options = settings_among(locals())
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
        options,
        out=out,
        progress=progress,
        engine=engine,
        baseline=baseline_run,
    )


def evaluate_pair(
    data: Data,
    against: str,
    *,
    judge: JudgeNames | None = None,
    metrics: str | Metric | Path | Sequence[str | Metric | Path] | None = None,
    out: Output = None,
    engine: Engine | None = None,
    progress: Progress | bool | None = None,
    **settings: Any,
) -> RunPair:
    """Score the answers of two columns on the same questions and texts.

    against: the column with the answers of the baseline. The other answers are the response:
        `mapping={"response": "answer_b"}`, unless its column has a known name. Rows without one of
        the answers are left out of both runs.
    metrics: None for the default metrics that read the response.
    out: the directory of the comparison, with a run for each column; None and False as in
        `evaluate`.

    `settings` and the other arguments are those of `evaluate`, except `until` and
    `budget`. The same call resumes. Raises the errors of `evaluate`.
    """
    path, folder = directory_for(out)
    with closing(progress_for(progress)) as shown:
        planned = plan_pair(data, metrics, against, checked(settings), shown)
        pair = judge_pair(planned, judge=judge, engine=engine, out=path, progress=shown)
    types = planned.run.column_types
    baseline = Run.of(pair.baseline, folder, types)
    return RunPair(pair.directory.path, baseline, Run.of(pair.run, folder, types))


@check_arguments_except(SETTINGS)
def calibrate(  # noqa: PLR0913
    labels: RunLike | Sequence[RunLike],
    *,
    judge: JudgeName | Sequence[JudgeName] | None = None,
    name: str | None = None,
    metrics: Sequence[str] | None = None,
    out: str | Path | None = None,
    engine: Engine | None = None,
    progress: Progress | bool | None = None,
    threads: int | None = None,
    min_valid_mass: float | None = None,
    profile: str | Path | ProfileFolder | None = None,
    reasons: Reasons | None = None,
    n_ctx: int | None = None,
    gpu_layers: int | None = None,
    cluster_by: str | None = None,
    reuse: RunLike | Sequence[RunLike] | None = None,
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
    options = settings_among(locals())
    how = {**options, "metrics": metrics, "out": out, "engine": engine}
    sources: list[RunLike] = [labels] if isinstance(labels, RunLike) else list_runs(labels)
    judges: list[JudgeName] = [judge] if isinstance(judge, JudgeName) else list(judge or ())
    with closing(progress_for(progress)) as shown:
        return measure_judges(sources, how, judges=judges, name=name, progress=shown)
