"""Whether a run can be had again: its judge is asked again, and its files are worked out again.

    run.sqlite   requests ──judge──> the same answers?                     bit-identical, same verdicts or different
                 samples, stored answers ──cut, count──> the same files?
                 samples ──sha256──> the data that the manifest speaks of?

Nothing but the run's directory and its judge is needed, and nothing in the directory is changed. A sample of the
requests may be asked in place of all; files and data are always checked as a whole, which asks nothing.
"""

import random
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from localjudge import model_registry
from localjudge.dataset.identity import fingerprint
from localjudge.engine.protocol import Engine
from localjudge.errors import ModelError, UsageError
from localjudge.metrics import Metric, catalog
from localjudge.metrics.documents import DocumentMetric
from localjudge.progress import Progress, Silence
from localjudge.record.archive import StoredRequest, stored_askings, stored_requests
from localjudge.record.directory import MANIFEST, STORE
from localjudge.record.keys import RequestKeys
from localjudge.record.manifest import Difference, Manifest, data_part, differences, judge_part
from localjudge.record.results import Run, as_run
from localjudge.record.untrusted import shown, validated
from localjudge.run.answers import WindowAnswer, verdict_of
from localjudge.run.judges import opened
from localjudge.run.replay import replay
from localjudge.run.settings import RunSettings, checked
from localjudge.types import Answer, JudgeCard, Label, NoAnswer, Record, Verdict, VerdictRule

SCHEMA_VERSION = 1
Result = Literal["bit-identical", "same verdicts", "different"]
Answers = Mapping[str, Answer | NoAnswer]

_SHA256_SHOWN = 12
_BEFORE = {"min_legal_mass": 0.0}
"""What a run did whose settings do not say."""
_MACHINE = {"engine.system", "engine.gpu_layers", "engine.repack"}


class RowChange(Record):
    """A verdict row before and after; `changed` says whether any bit of its answers did.

    `position` counts the rows of its sample and metric. A row without an answer has neither label nor probability.
    """

    sample_id: str
    metric: str
    position: int
    text: str
    changed: bool
    before: Label | None
    after: Label | None
    p_before: float | None
    p_after: float | None

    @property
    def moved(self) -> bool:
        """Whether the verdict is another one."""
        return self.before != self.after

    @property
    def distance(self) -> float:
        """How far the probability moved; 1 where there is none on one side."""
        if self.p_before is None or self.p_after is None:
            return float(self.p_before != self.p_after)
        return abs(self.p_after - self.p_before)


class Verification(Record):
    """What came of it. `judge_changes` and `data_changes` name the ingredients that are not what the manifest says.

    `rows` are the verdict rows whose answer changed in any bit, those first whose verdict moved, then by distance.
    `altered_requests` counts stored requests that are not what was asked, `files` the result files that the stored
    answers do not give.
    """

    schema_version: int = SCHEMA_VERSION
    run: str
    signature: str
    judge: JudgeCard
    result: Result
    stored_requests: int
    asked_again: int
    identical: int
    verdicts: int
    verdicts_moved: int
    largest_move: float
    rows: tuple[RowChange, ...]
    altered_requests: int
    files: tuple[str, ...]
    judge_changes: tuple[Difference, ...]
    data_changes: tuple[Difference, ...]

    @property
    def other_machine(self) -> bool:
        """Whether this machine is of another kind, for which the run's bytes are not promised."""
        return any(change.ingredient in _MACHINE for change in self.judge_changes)

    @property
    def was_batched(self) -> bool:
        """Whether the run's answers were decoded several at once, as an earlier version could."""
        return any(
            change.ingredient == "engine.batching" and str(change.before).startswith("not isolated")
            for change in self.judge_changes
        )


def verify(
    run: Run | str | Path,
    *,
    judge: str | None = None,
    engine: Engine | None = None,
    count: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Ask the judge again, all requests of the run or `count` of them drawn by `seed`, and check data and files.

    `run` is a run or its directory. `judge` takes the place of the one that it was made with, `engine` that of any
    model. Raises UsageError (ModelError, RunDirectoryError) where the judge or the run cannot be opened.
    """
    run = as_run(run, check=False)  # files that contradict each other are what it looks for
    settings = _settings(run.manifest, threads)
    named = judge or run.manifest.environment.get("judge")
    if named is None and engine is None:
        raise UsageError(f"{run.directory} does not say which judge it was made with", hint="name it with --judge")
    if judge is None and engine is None:
        _refuse_moved(str(named), run)
    stored = stored_requests(run.directory / STORE)
    chosen = _chosen(stored, count, seed)
    metrics = _metrics(run)
    segmenter = settings.sentences
    rule = VerdictRule(run.summary.threshold, settings.min_legal_mass)
    with opened(str(named), engine, settings) as ours:
        card = ours.card
        replayed = replay(run, stored, ours, metrics=metrics, sentences=segmenter, rule=rule)
        altered = _altered(run.manifest, stored, replayed.shapes)
        asked = [one for one in chosen if one.key not in altered.foreign]
        again = _asked_again(ours.engine, asked, progress or Silence(), note=ours.announcement)
        now = judge_part(ours.engine.identity, ours.judge.identity, segmenter.identity, metrics, rule)
    rows = _rows(run, stored, again, replayed.texts, rule)
    found = Verification(
        run=str(run.directory),
        signature=run.manifest.signature,
        judge=card,
        result="bit-identical",
        stored_requests=len(stored),
        asked_again=len(asked),
        identical=sum(again[one.key] == one.answer for one in asked),
        verdicts=len(rows),
        verdicts_moved=sum(row.moved for row in rows),
        largest_move=max((row.distance for row in rows), default=0.0),
        rows=tuple(sorted((row for row in rows if row.changed), key=lambda row: (not row.moved, -row.distance))),
        altered_requests=altered.requests,
        files=replayed.differing_files,
        judge_changes=tuple(differences(run.manifest.judge, now)),
        data_changes=_data_changes(run),
    )
    return found.model_copy(update={"result": _result(found)})


def _refuse_moved(judge: str, run: Run) -> None:
    """Raise ModelError if the model that the run was made with is not where it was."""
    registered = model_registry.registered().get(judge)
    file = Path(registered.path or "" if registered else judge).expanduser()
    if file.is_file():
        return
    sha256 = str(run.manifest.judge["engine"].get("model_sha256", "unknown"))
    raise ModelError(
        f"the model of this run ({Path(judge).stem}, sha256 {shown(sha256[:_SHA256_SHOWN])}) is not at {file} any more",
        hint=f"say where it is now: localjudge verify {run.directory} --judge PATH",
    )


def _settings(manifest: Manifest, threads: int | None) -> RunSettings:
    """The run's settings as it resolved them. A file with a prompt that is gone is missed in the judge's identity."""
    kept = {name: value for name, value in manifest.environment["settings"].items() if name in RunSettings.model_fields}
    n_ctx = manifest.judge["engine"].get("n_ctx")
    checked({"threads": threads})
    settings = validated(RunSettings, {**_BEFORE, **kept, "n_ctx": n_ctx, "threads": threads}, f"{MANIFEST}: settings")
    return settings.model_copy(update={"prompts": tuple(file for file in settings.prompts if Path(file).is_file())})


@dataclass(frozen=True)
class _NamedWithoutOption(DocumentMetric):
    """A document metric of an earlier run, whose settings said by what documents are compared, and not its name."""

    @property
    def name(self) -> str:
        """`document_map`, whatever is compared."""
        return self.measure.name


def _metrics(run: Run) -> list[Metric]:
    """The run's metrics in their order, under the names that it gave them."""
    metrics = [catalog.get(name) for name in run.summary.metrics]
    compare_by = run.manifest.environment["settings"].get("compare_by")
    if not isinstance(compare_by, str):
        return metrics
    return [
        _NamedWithoutOption(metric.measure, compare_by=compare_by) if isinstance(metric, DocumentMetric) else metric
        for metric in metrics
    ]


def _chosen(stored: Sequence[StoredRequest], count: int | None, seed: int) -> list[StoredRequest]:
    """So many requests, drawn from all in the order of their keys, which no order of rows moves."""
    if count is None or count >= len(stored):
        return list(stored)
    return random.Random(seed).sample(sorted(stored, key=lambda one: one.key), count)


def _asked_again(engine: Engine, chosen: Sequence[StoredRequest], progress: Progress, *, note: str) -> Answers:
    progress.note(note)
    progress.expect(len(chosen))
    answers: dict[str, Answer | NoAnswer] = {}
    try:
        for index, answer in engine.answers([one.request for one in chosen]):
            answers[chosen[index].key] = answer
            progress.advance()
    finally:
        progress.close()
    return answers


def _rows(
    run: Run,
    stored: Sequence[StoredRequest],
    again: Answers,
    texts: Mapping[tuple[str, str, int], str],
    rule: VerdictRule,
) -> list[RowChange]:
    """Every verdict row that was asked about again, whole or in part, before and after."""
    by_key = {one.key: one for one in stored}
    keys_of_row: dict[tuple[str, str, int], list[str]] = {}
    for asking in stored_askings(run.directory / STORE):
        if asking.request_key in by_key:
            keys_of_row.setdefault(asking[:3], []).append(asking.request_key)
    found = []
    for row, keys in keys_of_row.items():
        if again.keys().isdisjoint(keys):
            continue
        old = [by_key[key].answer for key in keys]
        new = [again.get(key, by_key[key].answer) for key in keys]
        before, after = _row_verdict(old, rule), _row_verdict(new, rule)
        found.append(
            RowChange(
                sample_id=row[0],
                metric=row[1],
                position=row[2],
                text=texts.get(row, ""),
                changed=old != new,
                before=before.label if before else None,
                after=after.label if after else None,
                p_before=before.p_yes if before else None,
                p_after=after.p_yes if after else None,
            )
        )
    return found


def _row_verdict(answers: Sequence[Answer | NoAnswer], rule: VerdictRule) -> Verdict | None:
    """The verdict of a unit from the answers of its windows; None where there is none."""
    verdict = verdict_of([WindowAnswer(answer, None) for answer in answers], rule)
    return verdict if isinstance(verdict, Verdict) else None


class _Altered(NamedTuple):
    """How many stored requests are not what was asked, and the keys of those that no model is asked again.

    A grammar that is none of the judge's is foreign: it can be made so that no end of it is ever found.
    """

    requests: int
    foreign: frozenset[str]


def _altered(manifest: Manifest, stored: Sequence[StoredRequest], shapes: Set[str]) -> _Altered:
    keys = RequestKeys(manifest.judge["engine"])
    found = {one.key: keys.keyed(one.request) for one in stored}
    foreign = frozenset(key for key, keyed in found.items() if keyed.shape not in shapes)
    return _Altered(sum(keyed.key != key or key in foreign for key, keyed in found.items()), foreign)


def _data_changes(run: Run) -> tuple[Difference, ...]:
    now = data_part(fingerprint(run.samples), len(run.samples), run.cluster_of)
    return tuple(differences(run.manifest.data, now))


def _result(found: Verification) -> Result:
    if found.verdicts_moved or found.altered_requests or found.files or found.data_changes:
        return "different"
    return "bit-identical" if found.identical == found.asked_again else "same verdicts"
