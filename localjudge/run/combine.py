"""Combine runs over the same data by different judges into one run (`localjudge combine`).

    RUN A   verdicts.jsonl   p_yes .9  ┐
    RUN B   verdicts.jsonl   p_yes .4  ├──> p_yes .71, label 1 ──metrics──> scores, verdicts, summary, manifest
                             samples   ┘

Log odds are averaged (.9 has 2.20, .4 has -.41, and their mean .90 is .71) instead of probabilities, so confident
judges count for more. Sources: C. Genest and J. V. Zidek (1986), Combining probability distributions, Statistical
Science 1, 114-135 (the logarithmic opinion pool); V. A. Satopää et al. (2014), Combining multiple probability
predictions using a simple logit model, International Journal of Forecasting 30.

Metrics use the combined verdicts as in any run. The order of the runs changes no byte of the result files. If one judge
has no verdict on a unit, neither has the combined run, and the reason names the judge.
"""

import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from localjudge.errors import InputError
from localjudge.metrics.criterion import rubrics
from localjudge.progress import Progress, count_with_progress
from localjudge.record import manifest as manifests
from localjudge.record.archive import stored_rows
from localjudge.record.differences import differences, format_differences
from localjudge.record.directory import STORE, RunDirectory, excerpt
from localjudge.record.files import ResultFiles, Summary, Totals, write_manifest
from localjudge.record.label_rows import now
from localjudge.record.manifest import MEAN_LOG_ODDS, CombinedRun, JudgeIdentity, Manifest
from localjudge.record.result_rows import Evaluation, JudgedUnit
from localjudge.record.run import Run, as_run, read_manifest
from localjudge.record.store import Store, canonical_sha256
from localjudge.run.loop import TaskRef, blocks, evaluate_samples
from localjudge.run.plan import Noted
from localjudge.run.settings import ONE_HALF, settings_of
from localjudge.types import JudgeVote, NoAnswer, Verdict
from localjudge.words import option

_ID_DIGITS = 12
_THE_SAME = ("metrics", "segmenter", "threshold", "min_legal_mass")
"""Parts of the judge identity that all runs must share."""
_OF_THE_DATA = ("sources", "samples_read", "skipped_rows", "mapping")
_CLIP = 1e-6
"""Minimum distance of a probability from 0 and 1."""


def combine_runs(runs: Sequence[Run | str | Path], out: str | Path, *, progress: Progress | None = None) -> Run:
    """Combine the runs into the directory `out` without changing them. Raises the errors of `localjudge.combine`."""
    noted = Noted(progress)
    combined = CombinedRuns([as_run(run) for run in runs])
    path, first = Path(os.path.expanduser(out)), combined.runs[0]
    if any(path.resolve() == run.directory.resolve() for run in combined.runs):
        raise InputError(f"{path} is one of the runs", hint=f"name another directory with {option('out')}")
    manifest = combined.manifest
    with ExitStack() as stack:
        directory = stack.enter_context(closing(RunDirectory(path)))
        if (there := read_manifest(path)) is not None:
            manifest.refuse_other_run(path, there)
        write_manifest(directory, manifest.with_environment(**manifests.finished_part(there)))
        store = stack.enter_context(closing(Store(path / STORE)))
        stack.callback(noted.close)
        store.add_samples(stored_rows(first.directory / STORE), first.cluster_of)
        results = stack.enter_context(closing(ResultFiles(directory)))
        totals = combined.totals()
        for evaluations in combined.evaluations(noted):
            totals.add(evaluations)
            results.add(evaluations)
        summary = combined.summary(totals)
        manifest = results.finish(summary, manifest)
    return Run(path, summary, manifest, notes=tuple(noted.notes))


class CombinedRuns:
    """Runs of the same data and metrics by different judges, ordered by name. Raises the errors of `combine_runs`."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = sorted(runs, key=lambda run: (run.summary.judge.name, _judge_id(run)))
        _check_same_work(self.runs)
        self._first = first = self.runs[0]
        settings = settings_of(first.manifest, reuse=())
        self._metrics = [first.manifest.metric(name) for name in first.summary.metrics]
        self._rule = settings.rule_for(self._metrics)
        self._sentences = settings.sentences
        judges = {_judge_id(run): run.manifest.judge for run in self.runs}
        combined = {"rule": MEAN_LOG_ODDS, "clip": _CLIP, "judges": judges}
        sentences, environment = self._sentences.identity, first.manifest.environment.as_json
        self.manifest = Manifest.of(
            JudgeIdentity.of({"engine": "combined"}, {}, sentences, self._metrics, self._rule, combined=combined),
            first.manifest.data,
            {
                "combined": self._sources(),
                **{name: environment[name] for name in _OF_THE_DATA if name in environment},
                "settings": settings.model_dump(mode="json"),
                "host": manifests.host(),
                "sessions": [{"started": now()}],
            },
        )

    def _sources(self) -> list[CombinedRun]:
        names, sources = Counter(run.summary.judge.name for run in self.runs), list[CombinedRun]()
        for run in self.runs:
            name, place = run.summary.judge.name, str(run.directory.absolute())
            name = name if names[name] == 1 else f"{name} {_judge_id(run)}"
            signature = run.manifest.signature
            sources.append(CombinedRun(name=name, judge=_judge_id(run), run=place, signature=signature))
        return sources

    def totals(self) -> Totals:
        """Return empty totals for the evaluations."""
        names = [metric.name for metric in self._metrics]
        first = self._first
        own, most = rubrics(self._metrics), first.max_failed
        return Totals(names, self._rule, first.cluster_of, own, first.sampling, most)

    def evaluations(self, progress: Progress) -> Iterator[list[Evaluation]]:
        """Yield every metric on every sample by the combined verdicts, in batches."""
        first = self._first
        rows = zip(*(run.iter_evaluations() for run in self.runs), strict=True)
        for block in blocks(count_with_progress(first.iter_samples(), progress, "combining", first.summary.samples)):
            judged: list[dict[tuple[str, str, int], JudgedUnit]] = [{} for _ in self.runs]
            for sample, of_runs in zip(block, rows, strict=False):
                for run, units, evaluations in zip(self.runs, judged, of_runs, strict=True):
                    for evaluation in evaluations:
                        if evaluation.sample_id != sample.id:
                            message = f"the rows of {run.directory} are in another order than those of the other runs"
                            raise InputError(message, hint="judge the same file with each judge")
                        for position, unit in enumerate(evaluation.units):
                            units[sample.id, evaluation.metric, position] = unit

            def verdicts(tasks: Sequence[TaskRef], judged: Any = judged) -> list[Verdict | NoAnswer]:
                return [self._verdict(task, judged) for task in tasks]

            yield evaluate_samples(block, self._metrics, self._sentences, verdicts)

    def summary(self, totals: Totals) -> Summary:
        """Return the summary of the combined run."""
        return totals.summary(self.manifest.signature, self.manifest.card, self._first.summary.skipped_rows)

    def _verdict(
        self, task: TaskRef, judged: Sequence[Mapping[tuple[str, str, int], JudgedUnit]]
    ) -> Verdict | NoAnswer:
        """Combine the judges' verdicts, or return the reason if one is missing."""
        verdicts: dict[str, Verdict | NoAnswer] = {}
        names = [source.name for source in self.manifest.environment.combined]
        for run, name, units in zip(self.runs, names, judged, strict=True):
            unit = units.get((task.sample_id, task.metric, task.position))
            if unit is None or unit.unit != task.task.unit:
                message = f"{run.directory} did not judge what {task.metric} now asks about {excerpt(task.sample_id)}"
                raise InputError(message, hint="was it made by another version? judge its data again")
            verdicts[name] = unit.verdict
        votes = tuple(JudgeVote(name, getattr(verdict, "p_yes", None)) for name, verdict in verdicts.items())
        answered: dict[str, Verdict] = {}
        for name, verdict in verdicts.items():
            if isinstance(verdict, NoAnswer):
                return NoAnswer(error=f"{name}: {verdict.error}", legal_mass=verdict.legal_mass, votes=votes)
            answered[name] = verdict
        probabilities = [p_yes for _, p_yes in votes if p_yes is not None]
        if not probabilities:  # nobody had to be asked
            return next(iter(answered.values())).model_copy(update={"votes": votes})
        p_yes = mean_log_odds(probabilities)
        masses = [verdict.legal_mass for verdict in answered.values() if verdict.legal_mass is not None]
        reasons = [f"{name}: {verdict.reason}" for name, verdict in answered.items() if verdict.reason]
        return Verdict(
            label=1 if p_yes >= self._rule.of(task.metric).threshold else 0,
            p_yes=p_yes,
            legal_mass=min(masses, default=None),
            reason=" | ".join(reasons) or None,
            window=next((verdict.window for verdict in answered.values() if verdict.window is not None), None),
            votes=votes,
        )


def mean_log_odds(probabilities: Sequence[float]) -> float:
    """Return the probability with the mean log odds of the probabilities."""
    mean = math.fsum(map(log_odds, probabilities)) / len(probabilities)
    least = math.exp(-abs(mean))
    return (1 if mean >= 0 else least) / (1 + least)


def log_odds(probability: float) -> float:
    """Return log(p / (1 - p)) with p clipped to [1e-6, 1 - 1e-6]."""
    clipped = min(max(probability, _CLIP), 1 - _CLIP)
    return math.log(clipped) - math.log1p(-clipped)


def _check_same_work(runs: Sequence[Run]) -> None:
    """Raise InputError unless the runs differ only in their judges."""
    if len(runs) <= 1:
        raise InputError("nothing to combine", hint="name the runs of two judges or more")
    first = runs[0]
    for run in runs:
        if run.manifest.judge.combined:
            raise InputError(f"{run.directory} is a combined run", hint="name the runs that it was combined from")
        if run.summary.thresholds:
            message = f"{run.directory} has calibrated thresholds, which fit its own judge and not a combination"
            raise InputError(message, hint=f"rescore it with {option('threshold', ONE_HALF)}, and combine that run")
        if (shard := run.manifest.shard) is not None:
            hint = "merge the shards of each judge first: localjudge merge"
            raise InputError(f"{run.directory} is shard {shard} of a run", hint=hint)
        different = differences(first.manifest.data, run.manifest.data)
        before, after = ({name: part.manifest.judge.as_json.get(name) for name in _THE_SAME} for part in (first, run))
        different += differences(before, after)
        if different:
            how = format_differences(different)
            message = f"{first.directory} and {run.directory} did not judge the same:{how}"
            raise InputError(message, hint="run the same data with the same metrics and settings with each judge")
    judge, count = Counter(map(_judge_id, runs)).most_common(1)[0]
    if count > 1:
        raise InputError(f"{count} of the runs are of one judge ({judge})", hint="leave all but one of them out")


def _judge_id(run: Run) -> str:
    """Return the start of the checksum of the model, or of the engine's identity."""
    engine = run.manifest.judge.engine
    return (engine.model_sha256 or canonical_sha256(engine.as_json))[:_ID_DIGITS]
