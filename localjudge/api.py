"""The functions that make a run, as Python's users call them; the command line is the other way in, to the same plan.

    evaluate(data, judge=...) ──> Run      merge([shards]), combine([runs of several judges]) ──> Run
    calibrate(run), calibrate(labels) ──> [Calibration]    for evaluate(calibration=...)

What can be done with a run are its methods (`localjudge.result`).
"""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Unpack

from localjudge.arguments import check_arguments
from localjudge.doctor.calibrate import measure_judges
from localjudge.engine.protocol import Engine
from localjudge.errors import InputError
from localjudge.metrics import Metric
from localjudge.open_judge import Judge
from localjudge.progress import Progress
from localjudge.record.manifest import Calibration
from localjudge.record.merge import merge_shards
from localjudge.record.run import RunLike, as_run
from localjudge.result import Output, Run, directory_for, progress_for, runs_in
from localjudge.run.combine import combine_runs
from localjudge.run.job import run_plan
from localjudge.run.judges import DEFAULT_JUDGE, JudgeName
from localjudge.run.options import CalibrateOptions, RunOptions, named
from localjudge.run.plan import Data, plan
from localjudge.run.settings import checked
from localjudge.words import option_name


@check_arguments
def evaluate(
    data: Data,
    *,
    judge: JudgeName | Judge = DEFAULT_JUDGE,
    metrics: str | Metric | Path | Sequence[str | Metric | Path] | None = None,
    out: Output = None,
    engine: Engine | None = None,
    progress: Progress | bool | None = None,
    baseline: RunLike | None = None,
    **options: Unpack[RunOptions],
) -> Run:
    """Score data with a local judge. Scores are in [0, 1]; nothing leaves this machine.

    data: a file or several (JSONL, JSON, CSV, Parquet, Arrow, logs of inspect), rows as mappings, models or
        dataclasses, a mapping of columns, or a frame, table or data set of another package as it is.
    judge: a registered name, the path of a GGUF file, a name that `localjudge models` lists, or the address of a server
        on this machine ("http://127.0.0.1:8080"). Or an open `localjudge.Judge`, which stays
        open, and whose settings hold where these arguments name no others; other threads that use it wait.
    metrics: names, metric objects and `Criterion` objects, or one; None for those that the columns are enough for and
        that take few verdicts. A mean is a share from 0 to 1, and more is better but for refusal and noise_sensitivity.
        Names, by the columns that they need (docs/metrics.md says what each asks):
        retrieved_contexts and reference: context_recall, matrix_recall, matrix_recall@k, matrix_precision; with the
            user_input (the question) context_precision; with the response noise_sensitivity
        retrieved_contexts and user_input: context_relevancy, context_relevancy_chunk, context_sufficiency
        retrieved_contexts and response: faithfulness, citation_support, citation_validity; with the user_input
            abstention
        response: refusal; with the user_input answer_relevancy; with the reference answer_correctness
        retrieved_contexts and reference_contexts, without a judge: document_recall_single_hit,
            document_recall_multi_hit, document_mrr, document_map, document_ndcg, hit_rate@k, precision@k, recall@k
    out: the run directory; None for one under `runs/`, named after the data and all that can move a number; False for
        none: the files then lie in a private temporary folder, as long as the result is there.
    engine: takes the place of the judge's model (a `ScriptedEngine` in tests); it is not closed.
    progress: True shows a bar, False nothing; None a bar in notebooks and on terminals and nothing elsewhere.
        An object with the methods of `localjudge.progress.Progress` is told what goes on.

    What decides a verdict, and what is counted:

    threshold: probability in [0, 1] from which on a verdict is 1 (0.5).
    calibration: name or file of a calibration, or what `calibrate` returned, or several: their thresholds decide the
        metrics that ask their questions.
    min_legal_mass: probability in [0, 1] that the model must have given to valid answers; with less there is no verdict
        (0.01).
    max_failed: failed samples tolerated per metric before its mean is withheld (0).
    cluster_by: column that names what samples share, such as a document: intervals are then over these groups.

    Which data:

    mapping: field to column, such as {"reference": "gold"}. "a.b" reaches into objects, "a[].b" into each of a list;
        contexts may stand in several columns, "a,b".
    context_separator: separator between contexts in one text ("|" for files of DeepEval).
    rows: where the rows are inside the objects of a JSON file, such as "experiment.items".
    skip_bad_rows: leave out rows that cannot be used, and count them, instead of raising DataError (False).
    limit: use only the first N samples.
    sample, seed: use N samples drawn at random by id; a larger N includes the samples of a smaller N.
    shard: one of n parts by id, such as "1/4": several processes judge one each, and `merge` makes one run of them.
    until, baseline: gate, or several, such as "context_recall>=0.8": samples are judged in random order, by `seed`, and
        the run stops when each is decided. "context_recall.delta>=-0.02" is against the baseline, an earlier run. The
        intervals of such a run are confidence sequences. `Run.check` with the same gates says how each came out.
    width: judge samples in random order until the interval of every metric is at most so wide, from 0.001 to 1.
    budget: judge as many samples in random order as fit in a time: "90s", "30m", "2h".
    reuse: run, or several, of the same judge whose answers are taken in place of asking.

    cache: keep the answers of all your runs in one private folder and take them from there: True, or how many MiB at
        most (False).

    How the judge is asked:

    language: language whose rules cut sentences, as a spaCy code ("en").
    segmenter: installed spaCy pipeline that cuts sentences instead.
    abbreviations: words, or a file with one a line, whose full stop does not end a sentence.
    profile: prompt profile ("instruct", "minicheck" ...), or the folder of your own; None for the one made for the
        model.
    prompts: prompt file that replaces the built-in prompt for one task, or several.
    reasons: "before" lets the model write a reason before the verdict (which may move it), "after" after it ("none").
    protocol: "joint" judges all statements of a sample in one answer, as RAGAS does ("independent").

    Where it works; none of these but n_ctx and gpu_layers can move a number:

    n_ctx: context of the model in tokens; None for the model's limit, at most 8,192.
    gpu_layers: layers of the model on the GPU; None for all, if the build has a GPU backend.
    threads: processor threads; None for as many as this process may use.
    ray: "local" for workers on this machine, "auto" or "HOST:PORT" for those of a Ray cluster.
    ray_workers: how many, each with the model in its memory; None for as many as it has room for.
    allow_host: host beyond this machine that the judge's address may name, or several: the texts go there.

    Raises InputError (DataError, ModelError, RunDirectoryError) where nothing was judged, OutOfResource where the same
    call goes on later. A sample that cannot be scored is in the result, and no error.
    """
    before = None if baseline is None else as_run(baseline)
    if isinstance(judge, Judge):
        if engine is not None:
            raise InputError("an open judge has its engine", hint=f"leave out {option_name('engine')}, or the judge")
        return judge._evaluate(data, metrics, named(options), out=out, baseline=before, progress=progress)
    settings = checked(named(options))
    directory, folder = directory_for(out)
    with closing(progress_for(progress)) as shown:
        planned = plan(data, metrics, settings, shown)
        run = run_plan(planned, judge=judge, out=directory, engine=engine, baseline=before, progress=shown)
        return Run.of(run, folder, planned.column_types)


@check_arguments
def merge(shards: Sequence[RunLike], *, out: str | Path, progress: Progress | bool | None = None) -> Run:
    """Make one run of all shards of it. No model is opened.

    shards: all of them, in any order: runs, or the directories that `evaluate(..., shard="1/4")` left.
    out: the directory of the whole run, whose result files are those of a run that was not sharded, byte for byte.

    Raises InputError if a shard is missing or there twice, or if they are not of one judge, data and settings, and
    RunDirectoryError where one cannot be read, contradicts itself or is not finished, or `out` cannot be written. What
    `progress` may be, `evaluate` says.
    """
    with closing(progress_for(progress)) as shown:
        return Run.of(merge_shards(runs_in(shards), out, shown))


@check_arguments
def combine(runs: Sequence[RunLike], *, out: str | Path, progress: Progress | bool | None = None) -> Run:
    """Combine runs of different judges on the same data.

    runs: runs, or their directories, with the same data, metrics and threshold, each by another judge.
    out: the directory of the combined run, whose probabilities are those of the mean log odds.

    Raises InputError for runs that do not judge the same units, or are of one judge, and RunDirectoryError where one
    cannot be read, or `out` not be written. What `progress` may be, `evaluate` says.
    """
    with closing(progress_for(progress)) as shown:
        return Run.of(combine_runs(runs_in(runs), out, progress=shown))


@check_arguments
def calibrate(
    labels: RunLike | Sequence[RunLike],
    *,
    judge: JudgeName | Sequence[JudgeName] | None = None,
    name: str | None = None,
    metrics: Sequence[str] | None = None,
    out: str | Path | None = None,
    engine: Engine | None = None,
    progress: Progress | bool | None = None,
    **options: Unpack[CalibrateOptions],
) -> list[Calibration]:
    """Measure a judge on human labels and choose a threshold; return one calibration per question and judge.

    labels: a run whose statements people labelled, or a list of runs, whose labels count for all of them; or a file
        with the columns context, statement and label, or question, sentences and relevant.
    judge: the judge to ask about a file (the reference judge if None), or a list of judges.
    name: what it is saved under, for `evaluate(calibration=name)`; None for that of judge and question.
    metrics: those whose labelled verdicts count; None for all.
    out: the run directory in which the judge is asked.

    The best judge of a question comes first. The other arguments are those of `evaluate`. Raises DataError for labels
    that cannot be used, and what `evaluate` raises.
    """
    how = {**named(options), "metrics": metrics, "out": out, "engine": engine}
    sources = [labels] if isinstance(labels, RunLike) else runs_in(labels)
    judges = [judge] if isinstance(judge, JudgeName) else [*(judge or ())]
    with closing(progress_for(progress)) as shown:
        return measure_judges(sources, how, judges=judges, name=name, progress=shown)
