"""What Python's users see beside what the library does for anybody: a bar while a run goes on, a table in a notebook.

The command line is the other way in; both do the same with the same plan. `help(localjudge.evaluate)` names every
option with type, default and meaning, as the fields of the settings give them.
"""

import inspect
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Unpack, get_type_hints

from pydantic.fields import FieldInfo

from localjudge.doctor.calibrate import CalibrationOptions, measure_judge
from localjudge.engine.protocol import Engine
from localjudge.errors import UsageError
from localjudge.open_judge import Judge
from localjudge.progress import Progress, Silence
from localjudge.record.manifest import Calibration
from localjudge.record.merge import merge_shards
from localjudge.record.run import Run
from localjudge.run.combine import Weights, combine_runs
from localjudge.run.job import rescore_run, run_plan
from localjudge.run.judges import DEFAULT_JUDGE, JudgeName
from localjudge.run.plan import Data, plan
from localjudge.run.settings import Options, RunSettings, checked
from localjudge.run.verify import Verification, WhereAsked, verify_run
from localjudge.words import option_name

_WIDTH = 100


def evaluate(
    data: Data,
    *,
    judge: JudgeName | Judge = DEFAULT_JUDGE,
    metrics: Sequence[str] | None = None,
    out: str | Path | None = None,
    engine: Engine | None = None,
    progress: Progress | bool | None = None,
    **options: Unpack[Options],
) -> Run:
    """Score the data and leave a run directory; the same as the command `localjudge run`.

    data: a file or several (JSONL, JSON, CSV, Parquet, Arrow, logs of inspect), rows as mappings, models or
        dataclasses, a mapping of columns, or a frame, table or data set of another package as it is.
    judge: a registered name, the path of a GGUF file, a name that `localjudge models` lists, or the address of a server
        on this machine ("http://127.0.0.1:8080", "unix:/run/llama.sock"). Or an open `localjudge.Judge`, which stays
        open, and whose settings hold where the options name no others; other threads that use it wait until the run
        ends.
    metrics: names such as "context_recall"; None for a first picture of the data.
    out: the run directory; None for one under `runs/`, named after the data and all that can move a number.
    engine: takes the place of the judge's model (a `ScriptedEngine` in tests); it is not closed.
    progress: True shows a bar, False nothing; None a bar in notebooks and on terminals and nothing elsewhere.
        An object with the methods of `localjudge.progress.Progress` is told what goes on.

    Raises UsageError (DataError, ModelError, RunDirectoryError) where nothing was judged, OutOfResource where the same
    call goes on later. A sample that cannot be scored is in the result, and no error.
    """
    if isinstance(judge, Judge):
        if engine is not None:
            raise UsageError("an open judge has its engine", hint=f"leave out {option_name('engine')}, or the judge")
        settings = judge.settings_with(options)
    else:
        settings = checked(options)
    with closing(_progress(progress)) as told:
        planned = plan(data, metrics, settings, told)
        if not isinstance(judge, Judge):
            return run_plan(planned, judge=judge, out=out, engine=engine, progress=told)
        if "calibration" not in options:
            planned = planned._replace(settings=settings.for_metrics(planned.metrics))
        with judge.in_use() as opened:
            return run_plan(planned, judge=opened, out=out, progress=told)


def rescore(
    run: Run | str | Path,
    *,
    metrics: Sequence[str] | None = None,
    out: str | Path | None = None,
    judge: JudgeName | None = None,
    engine: Engine | None = None,
    progress: Progress | bool | None = None,
    **options: Unpack[Options],
) -> Run:
    """Score the samples of a run once more, with other metrics or options; only what it did not ask is asked.

    The result is a run of its own, which holds the answers that it took. `metrics` are those of the run if None, and so
    is all that the options do not name; `judge` says where the run's model is now. Data, sentences and judge stay the
    same, so the options are `threshold`, `calibration`, `min_legal_mass`, `cluster_by`, `max_failed`, `reuse`,
    `threads`, `allow_host` and those of a Ray cluster; what `progress` may be, `evaluate` says.

    Raises what `evaluate` raises, and UsageError if the judge, or a package that it rests on, is another one now.
    """
    with closing(_progress(progress)) as told:
        return rescore_run(run, metrics, options, out=out, judge=judge, engine=engine, progress=told)


def merge(shards: Sequence[Run | str | Path], *, out: str | Path, progress: Progress | bool | None = None) -> Run:
    """Make one run of all shards of it; the same as the command `localjudge merge`. No model is opened.

    shards: all of them, in any order: runs, or the directories that `evaluate(..., shard="1/4")` left.
    out: the directory of the whole run, whose result files are those of a run that was not sharded, byte for byte.

    Raises UsageError if a shard is missing or there twice, or if they are not of one judge, data and settings, and
    RunDirectoryError where one cannot be read or is not finished. What `progress` may be, `evaluate` says.
    """
    with closing(_progress(progress)) as told:
        return merge_shards(shards, out, told)


def combine(
    runs: Sequence[Run | str | Path],
    *,
    out: str | Path,
    weights: Weights = (),
    progress: Progress | bool | None = None,
) -> Run:
    """Combine runs of different judges on the same data; the same as the command `localjudge combine`.

    runs: runs, or their directories, with the same data, metrics and threshold, each by another judge.
    out: the directory of the combined run, whose probabilities are those of the mean log odds.
    weights: calibrations of a combined run of the same judges, made with `weights=True`, which decide the metrics that
        ask their questions.

    Raises UsageError for runs that do not judge the same units, and RunDirectoryError where one cannot be read.
    """
    with closing(_progress(progress)) as told:
        return combine_runs(runs, out, weights=weights, progress=told)


def verify(
    run: Run | str | Path,
    *,
    judge: JudgeName | None = None,
    engine: Engine | None = None,
    count: int | None = None,
    seed: int = 0,
    progress: Progress | bool | None = None,
    **where: Unpack[WhereAsked],
) -> Verification:
    """Ask the judge of a run again and work out its files again; the same as the command `localjudge verify`.

    run: a run, or its directory, in which nothing is changed.
    judge: where the run's model is now; None for where it was.
    count: how many of the stored requests are asked, drawn by `seed`; None for all. Files and data are always checked.

    Options are `threads`, `allow_host` and those of a Ray cluster. What `engine` and `progress` may be, `evaluate`
    says. Raises UsageError (ModelError, RunDirectoryError) where a judge or the run cannot be opened.
    """
    with closing(_progress(progress)) as told:
        return verify_run(run, judge=judge, engine=engine, count=count, seed=seed, progress=told, **where)


def calibrate(
    labels: str | Path,
    *,
    judge: JudgeName | None = None,
    run: Run | str | Path | None = None,
    name: str | None = None,
    engine: Engine | None = None,
    progress: Progress | bool | None = None,
    **options: Unpack[CalibrationOptions],
) -> Calibration:
    """Hold a judge against labels of people; the same as the command `localjudge calibrate`.

    labels: a file with the columns context, statement and label, or question, sentences and relevant, about which
        `judge` (the reference judge if None) is asked; or verdicts of a run with a column human.
    run: the run whose verdicts are labelled.
    name: what it is saved under, for `evaluate(calibration=name)`; None for that of judge and question.

    Options are `metrics` (whose labelled verdicts count), `out` (the run directory in which the judge is asked),
    `weights` (True: the judges of a combined run are weighed by the labels, for `combine`),
    `cluster_by`, `profile`, `prompts`, `reasons`, `min_legal_mass`, `reuse`, `n_ctx`, `threads`, `gpu_layers` and
    `allow_host`; what `engine` and `progress` may be, `evaluate` says. Raises DataError for labels that cannot be used,
    and what `evaluate` raises.
    """
    with closing(_progress(progress)) as told:
        return measure_judge(labels, options, judge=judge, run=run, name=name, engine=engine, progress=told)


def _progress(wanted: Progress | bool | None) -> Progress:
    if wanted is None:
        wanted = in_notebook() or sys.stderr.isatty()
    if isinstance(wanted, Progress):
        return wanted
    if not isinstance(wanted, bool):
        raise UsageError(
            f"progress must be True, False, None or a localjudge.progress.Progress, got {wanted!r:.80}",
            hint="leave it out for a bar in notebooks and on terminals",
        )
    if not wanted:
        return Silence()
    from localjudge.report.terminal import Bar, progress_on

    return Bar(sys.stderr) if in_notebook() and _has_widgets() else progress_on(sys.stderr)


def _html(run: Run) -> str:
    """A run as a notebook shows it; what draws it is imported when there is something to draw."""
    from localjudge.report.tables import run_html

    return run_html(run)


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this, and not a terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


def _has_widgets() -> bool:
    """Whether a bar can be drawn in a notebook: without them, lines are written as in a log."""
    from importlib.util import find_spec

    return find_spec("ipywidgets") is not None


def _options() -> Iterator[str]:
    """Each option with its type, default and meaning."""
    for name, hint in get_type_hints(Options).items():
        field = RunSettings.model_fields[name]
        yield f"{name} ({_type(hint)}, default {_default(field)!r}):"
        meaning = " ".join(str(field.description).split())
        yield textwrap.indent(textwrap.fill(meaning, _WIDTH), "    ")


def _type(hint: object) -> str:
    return inspect.formatannotation(hint).replace("collections.abc.", "").replace("pathlib.", "").replace("typing.", "")


def _default(field: FieldInfo) -> object:
    return field.get_default(call_default_factory=True, validated_data={})


def _signature() -> inspect.Signature:
    """The signature with each option by its name, for help and completion."""
    named = [
        one for one in inspect.signature(evaluate).parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    options = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=_default(RunSettings.model_fields[name]), annotation=hint
        )
        for name, hint in get_type_hints(Options).items()
    ]
    return inspect.Signature([*named, *options], return_annotation=Run)


evaluate.__doc__ = f"{inspect.getdoc(evaluate)}\n\nOptions:\n\n{chr(10).join(_options())}\n"
evaluate.__signature__ = _signature()  # type: ignore[attr-defined]
Run.html_view = staticmethod(_html)
