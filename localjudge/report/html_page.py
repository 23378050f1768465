"""Writes the report of a run: one private HTML file, whole or not at all.

    localjudge.write_report("runs/demo-57143f90", baseline="runs/last-week", gates=["context_recall>=0.8"])

What may run in the page is its own style and script, named by their sha256; it may load nothing and send nothing, not
even what a text in it might ask for. Markup cannot be made of strings in it (trusted types).

A run as one HTML page that asks nothing of any network.

    page.html     the template: the first screen needs no script; user text in it is escaped
    *.css, *.js   the only style and script, allowed by their sha256 in the page's Content-Security-Policy
    data blocks   the samples, gzipped JSON in base64: nothing in them is markup; unpacked when they are looked at

The invariant: the same run, and the same baseline and gates, give the same bytes (with the same build of zlib).

What each sample was in the baseline: its scores, the texts that were others, and the verdicts before.

A text is written once: of the baseline only the fields that differ, as both are shown side by side.

The samples of a run as blocks of a page: written as they are read, and unpacked by the page when they are needed.

    list       [id, question, group, outcomes, outcomes before] of some thousand samples: to sort, filter and search
    details    texts and verdicts of some hundred samples: unpacked when one of them is opened

An outcome is a score, or the first letter of "undefined" and "failed"; null for a sample that has no such score.
A block is gzipped JSON in base64: no character of a user's text stands in the page as it is, and pages are small.

What the first screen of a page says: who judged, each metric with interval and distribution, gates, differences.

The words and numbers are those of the terminal's tables; here they are only put in order for the template.

One sample as the values that its part of the page is drawn from.

Places of verdicts count UTF-16 code units, as scripts in a browser count; the record counts Unicode code points.

    text        "a😀b."      the verdict is on "b."
    the record  2 to 4
    the page    3 to 5
"""

import base64
import gzip
import hashlib
import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from localjudge.analysis.check import Check, Undecided, check
from localjudge.analysis.compare import ComparedRun, RunComparison, SampleKeys, pair_samples, unit_changes
from localjudge.analysis.correct import CorrectedMeans, corrected_means
from localjudge.engine.hardware import readable
from localjudge.errors import UsageError
from localjudge.metrics import catalog
from localjudge.record.directory import open_regular
from localjudge.record.files import NEAR
from localjudge.record.result_rows import ScoreRow, VerdictRow, json_line
from localjudge.record.run import Run, as_run
from localjudge.report.label_tables import corrected_view
from localjudge.report.sample import outcome_of, remark_on
from localjudge.report.tables import (
    calibration_lines,
    change_remarks,
    count_cells,
    decidedness_line,
    metric_remarks,
    reason_of,
    score_cells,
    shared_samples,
    why,
)
from localjudge.report.terminal import number
from localjudge.resources import write_output
from localjudge.types import CONTEXT_FIELDS, Context, JudgeCard, Sample, context_texts
from localjudge.words import as_typed, printable

BINS = 10
"""Of a distribution: scores from 0 to 0.1, ..., from 0.9 to 1."""


def overview(run: Run, checked: Check, corrected: CorrectedMeans | None = None) -> dict[str, Any]:
    """The values of the template that stand for the run, its gates, its comparison and its corrected means."""
    return {
        "data": ", ".join(Path(source).name for source in run.manifest.environment.get("sources", ())),
        "samples": run.summary.samples,
        "judge": run.judge,
        "mind": "; ".join(_to_mind(run.judge)),
        "facts": list(_facts(run)),
        "metrics": _metrics(run),
        "gates": [(decision.outcome, decision.gate, reason_of(decision)) for decision in checked.decisions],
        "comparison": checked.comparison and _comparison(checked.comparison),
        "corrected": corrected and _corrected(corrected),
    }


def _to_mind(judge: JudgeCard) -> Iterator[str]:
    """What must stand beside every number of the judge."""
    if judge.caution:
        yield judge.caution
    if judge.examined:
        yield judge.examined


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    judge, summary = run.judge, run.summary
    model = [readable(judge.size)] if judge.size is not None else []
    model += [judge.quantisation] if judge.quantisation else []
    if model:
        yield "Model", ", ".join(model)
    if judge.sha256:
        yield "sha256", judge.sha256
    others = ", of the metrics without a calibration" if summary.thresholds else ""
    yield "Threshold", f"{summary.threshold:g}: a verdict is 1 from this probability on{others}"
    for line in calibration_lines(run):
        yield "Calibration", line
    yield "Verdicts", decidedness_line(summary.verdicts)
    if summary.skipped_rows:
        yield "Left out", f"{summary.skipped_rows:,} rows of the data could not be used"
    yield "Signature", summary.signature


def _metrics(run: Run) -> list[dict[str, Any]]:
    """`mean` and `interval` are None where too many failed or nothing was scored."""
    distributions = {name: [0] * BINS for name in run.summary.metrics}
    reasons: dict[str, Counter[str]] = {name: Counter() for name in run.summary.metrics}
    for row in run.iter_scores():
        if row.metric not in distributions:
            continue
        if row.score is not None:
            distributions[row.metric][min(int(row.score * BINS), BINS - 1)] += 1
        elif row.status == "failed":
            reasons[row.metric][row.detail or ""] += 1
    withheld = run.summary.failed_beyond(run.max_failed)
    return [
        {
            "name": name,
            "mean": None if name in withheld else metric.mean,
            "interval": None if name in withheld else metric.ci95,
            "counts": metric,
            "distribution": distributions[name],
            "failure": _most_common(reasons[name]),
            "remarks": list(metric_remarks(metric, withheld=name in withheld)),
        }
        for name, metric in run.summary.metrics.items()
    ]


def _most_common(reasons: Counter[str]) -> str | None:
    """Why samples failed, as most of them say it; None if none did."""
    for reason, count in reasons.most_common(1):
        return f"why: {reason}" if len(reasons) == 1 else f"why, most often ({count:,}): {reason}"
    return None


def _comparison(comparison: RunComparison) -> dict[str, Any]:
    changes: list[dict[str, Any]] = [
        {
            "name": name,
            "scores": score_cells(change.scores),
            "counts": count_cells(name, change),
            "difference": change.scores and change.scores.difference,
            "interval": change.scores and change.scores.ci95,
            "remarks": list(change_remarks(name, change)),
        }
        for name, change in comparison.metrics.items()
    ]
    ends = [abs(end) for change in changes for end in change["interval"] or ()]
    return {
        "changes": changes,
        "widest": max([*ends, 0.05]),
        "notes": [shared_samples(comparison.samples), *(f"warning: {warning}" for warning in comparison.warnings)],
        "baseline": f"judge {comparison.baseline_judge}, signature {comparison.baseline_signature}",
        "run": f"judge {comparison.judge}, signature {comparison.signature}",
    }


def _corrected(means: CorrectedMeans) -> dict[str, Any]:
    view = corrected_view(means)
    return {"rows": view.rows, "warnings": means.warnings, "notes": view.notes[len(means.warnings) :]}


def distribution_in_words(distribution: list[int]) -> str:
    """For who does not see the drawing: `0 to 0.1: 5, 0.9 to 1: 12 samples`."""
    parts = [f"{at / BINS:g} to {(at + 1) / BINS:g}: {count:,}" for at, count in enumerate(distribution) if count]
    return f"{', '.join(parts)} samples" if parts else "no score"


def interval_in_words(mean: float, interval: tuple[float, float]) -> str:
    """`mean 0.417, 95 % interval 0.063 to 0.913`."""
    return f"mean {number(mean)}, 95 % interval {' to '.join(map(number, interval))}"


Values = dict[str, Any]
VerdictsOf = Callable[[str], list[VerdictRow]]
"""The verdicts of a metric on the sample at hand."""

_TEXT_FIELDS = ("user_input", "reference", "response")
_LAST_OF_ONE_UNIT = "\uffff"
SCORE_DIGITS = 6
_PROBABILITY_DIGITS = 4
"""Enough for what is shown with three: of scores also the differences."""


def sample_values(sample: Sample, scores: Mapping[str, ScoreRow], verdicts_of: VerdictsOf) -> Values:
    """Texts, and of each metric the outcome, one line why unless the outcome says it, and the verdicts."""
    places = PlacesInBrowser(sample)
    return {
        "id": sample.id,
        "texts": text_values(sample),
        "metrics": {name: _metric_values(score, verdicts_of(name), places) for name, score in scores.items()},
    }


def text_values(sample: Sample) -> Values:
    """The fields that the sample has; contexts as objects."""
    texts = {field: getattr(sample, field) for field in _TEXT_FIELDS}
    contexts = {field: _contexts(getattr(sample, field)) for field in CONTEXT_FIELDS}
    return {field: value for field, value in (texts | contexts).items() if value is not None}


def _contexts(contexts: Iterable[Context] | None) -> list[Values] | None:
    if contexts is None:
        return None
    return [context.model_dump(include={"text", "id", "score"}, exclude_none=True) for context in contexts]


def _metric_values(score: ScoreRow, verdicts: Sequence[VerdictRow], places: "PlacesInBrowser") -> Values:
    return {
        "outcome": outcome_of(score),
        "why": why(score, verdicts) if score.status == "scored" else "",
        "verdicts": [verdict_values(verdict, places) for verdict in verdicts],
    }


def verdict_values(verdict: VerdictRow, places: "PlacesInBrowser") -> list[Any]:
    """Field, which of its contexts, start, end, label, probability, remark."""
    return [
        verdict.source,
        verdict.source_index,
        places.place(verdict, verdict.start),
        places.place(verdict, verdict.end),
        verdict.label,
        rounded(verdict.p_yes),
        remark_on(verdict),
    ]


def rounded(share: float | None, digits: int = _PROBABILITY_DIGITS) -> float | None:
    """A probability in as many digits as the page needs, or a score in `SCORE_DIGITS`."""
    return None if share is None else round(share, digits)


class PlacesInBrowser:
    """Where places in the texts of a sample are for a script in a browser."""

    def __init__(self, sample: Sample) -> None:
        self._sample = sample
        self._long: dict[tuple[str, int | None], list[int]] = {}

    def place(self, verdict: VerdictRow, place: int) -> int:
        """The place in the verdict's text: one further for each character before it that takes two code units."""
        where = verdict.source, verdict.source_index
        if where not in self._long:
            text = self._text(*where)
            self._long[where] = [] if text.isascii() else [at for at, one in enumerate(text) if one > _LAST_OF_ONE_UNIT]
        return place + bisect_left(self._long[where], place)

    def _text(self, field: str, index: int | None) -> str:
        found = getattr(self._sample, field)
        if index is not None:
            found = context_texts(found)[index : index + 1]
        return "".join(found or ())


class BaselineSide:
    """The samples of a run as they were in its baseline, known by their positions in the run: `samples` are its.

    In memory: some numbers of each sample, and the texts of those that were read last.
    """

    def __init__(self, baseline: Run, metrics: Iterable[str], samples: Sequence[SampleKeys]) -> None:
        self._baseline = baseline
        self._metrics = [metric for metric in metrics if metric in baseline.summary.metrics]
        self._side = ComparedRun(baseline, self._metrics)
        self._partner = {pair.after: pair.before for pair in pair_samples(self._side.samples, samples).pairs}
        self._samples: dict[int, Sample] = {}

    def read(self, positions: Iterable[int]) -> None:
        """Hold the baseline's samples that belong to these, in place of those before.

        Raises RunDirectoryError if they cannot be read.
        """
        partners = [self._partner[position] for position in positions if position in self._partner]
        self._samples = self._baseline.samples_at(partners)

    def score(self, position: int, metric: str) -> float | None:
        """The sample's score in the baseline; None without one."""
        partner = self._partner.get(position)
        return None if partner is None else rounded(self._side.score(metric, partner), SCORE_DIGITS)

    def values(self, position: int, sample: Sample, verdicts_of: VerdictsOf) -> Values | None:
        """Fields that were others, and of each metric the score and the verdicts; None for a sample of this run only.

        Raises KeyError for a sample that was not read.
        """
        partner = self._partner.get(position)
        if partner is None:
            return None
        old = self._samples[partner]
        before, after = text_values(old), text_values(sample)
        differ = {field: before.get(field) for field in before | after if before.get(field) != after.get(field)}
        return {
            "id": old.id,
            "texts": differ,
            "metrics": {
                metric: {
                    "score": self.score(position, metric),
                    **self._verdicts(partner, metric, verdicts_of(metric), same_texts=not differ),
                }
                for metric in self._metrics
            },
        }

    def _verdicts(self, partner: int, metric: str, after: list[VerdictRow], *, same_texts: bool) -> Values:
        """`was`: label and probability of each unit of the new run; `verdicts`: all before, if they need a place."""
        rows = self._side.verdicts(metric, partner)
        changes = unit_changes(rows, after, same_content=same_texts)
        was = [[change.before, rounded(change.p_before)] for change in islice(changes, len(after))]
        if same_texts and len(changes) == len(after):
            return {"was": was}
        places = PlacesInBrowser(self._samples[partner])
        return {"was": was, "verdicts": [verdict_values(row, places) for row in rows]}


_SAMPLES_READ_AT_ONCE = 64
_SAMPLES_OF_A_LIST = 2_000
_LETTERS_OF_DETAILS = 256 << 10
_LETTERS_OF_A_QUESTION = 200

Outcome = float | str | None
_Scored = tuple[Sample, dict[str, ScoreRow]]


class DataBlock(NamedTuple):
    """One block: what it holds, the number of its first sample, and its bytes as base64."""

    kind: str
    first: int
    content: str


def data_blocks(run: Run, baseline: Run | None = None) -> Iterator[DataBlock]:
    """All samples of the run in the order of the data, with what they were in the baseline."""
    listed, details = _Block("list"), _Block("details")
    for row, values in _samples(run, baseline):
        listed.add(row)
        details.add(values)
        if len(listed) >= _SAMPLES_OF_A_LIST:
            yield listed.taken()
        if details.letters >= _LETTERS_OF_DETAILS:
            yield details.taken()
    yield from (block.taken() for block in (listed, details) if len(block))


class _Block:
    """Values that are gathered until they are taken as one block."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._first = 0
        self._lines: list[str] = []
        self.letters = 0

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, values: Any) -> None:
        line = json_line(values)
        self._lines.append(line)
        self.letters += len(line)

    def taken(self) -> DataBlock:
        packed = gzip.compress(f"[{','.join(self._lines)}]".encode(), mtime=0)
        block = DataBlock(self._kind, self._first, base64.b64encode(packed).decode("ascii"))
        self._first += len(self._lines)
        self._lines, self.letters = [], 0
        return block


def _samples(run: Run, baseline: Run | None) -> Iterator[tuple[list[Any], Values]]:
    """Row of the list and details of each sample."""
    columns = ComparedRun(run, run.summary.metrics)
    side = BaselineSide(baseline, run.summary.metrics, columns.samples) if baseline is not None else None
    scored = enumerate(run.iter_scored_samples())
    groups = run.cluster_of
    while some := list(islice(scored, _SAMPLES_READ_AT_ONCE)):
        if side:
            side.read(position for position, _ in some)
        for position, (sample, scores) in some:
            verdicts = {metric: columns.verdicts(metric, position) for metric in scores}
            group = None if groups is None else groups[sample.id]
            row: list[Any] = [sample.id, _question(sample), group, _outcomes(run, scores)]
            values = sample_values(sample, scores, verdicts.__getitem__)
            if side:
                row.append([side.score(position, metric) for metric in run.summary.metrics])
                values["before"] = side.values(position, sample, verdicts.__getitem__)
            yield row, values


def _outcomes(run: Run, scores: Mapping[str, ScoreRow]) -> Sequence[Outcome]:
    return [_outcome(scores[metric]) if metric in scores else None for metric in run.summary.metrics]


def _outcome(score: ScoreRow) -> Outcome:
    return score.status[0] if score.score is None else rounded(score.score, SCORE_DIGITS)


def _question(sample: Sample) -> str:
    """What the sample asks, or else what it answers, as far as a list shows it."""
    text = sample.user_input or sample.response or sample.reference or ""
    return text[:_LETTERS_OF_A_QUESTION]


REPORT = "report.html"
_FOLDER = Path(__file__).with_name("page")
_STYLES = ("page.css", "samples.css", "paper.css")
_SCRIPTS = ("elements.js", "blocks.js", "details.js", "selection.js", "samples.js")
"""In the order in which they stand in the page, as one style and one script."""
_OURS = (
    b'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="generator" content="localjudge">\n'
)


def write_report(
    run: Run | str | Path,
    *,
    baseline: Run | str | Path | None = None,
    gates: Sequence[str] = (),
    undecided: Undecided = "fail",
    labels: str | Path | None = None,
    foreign_labels: bool = False,
    out: str | Path | None = None,
) -> Path:
    """Write the report of a finished run, and say where it is: by default `report.html` in its directory.

    Takes a baseline and gates as `localjudge.check` does, labels as `localjudge.corrected_means` does, and raises what
    these raise. An earlier report is replaced; UsageError for another file of that name, and for one that cannot be
    written.
    """
    run = as_run(run)
    before = None if baseline is None else as_run(baseline)
    checked = check(run, gates=gates, baseline=before, undecided=undecided)
    corrected = None if labels is None else corrected_means(run, labels, foreign_labels=foreign_labels)
    return write_checked_report(run, checked, before, out, corrected)


def write_checked_report(
    run: Run,
    checked: Check,
    baseline: Run | None = None,
    out: str | Path | None = None,
    corrected: CorrectedMeans | None = None,
) -> Path:
    """The same of a run that was held to its gates, compared with its baseline and corrected by labels before."""
    path = run.directory / REPORT if out is None else Path(os.path.expanduser(out))
    refuse_other_file(path)
    write_output(path, (part.encode() for part in page(run, checked, baseline, corrected)))
    return path


def refuse_other_file(path: Path) -> None:
    """Raise UsageError if something at the path is not a report of ours."""
    if not os.path.lexists(path):
        return
    if path.is_dir():
        raise UsageError(f"{path} is a directory", hint="name a file with --out")
    with open_regular(path) as file:
        if file.read(len(_OURS)) != _OURS:
            raise UsageError(f"{path} is not a report of localjudge", hint="name another file with --out")


def page(
    run: Run, checked: Check, baseline: Run | None = None, corrected: CorrectedMeans | None = None
) -> Iterator[str]:
    """The page in parts, as the samples are read."""
    style = "".join(map(_text, _STYLES))
    script = "".join(map(_text, _SCRIPTS))
    config = {
        "metrics": [{"name": name, "lowerIsBetter": catalog.lower_is_better(name)} for name in run.summary.metrics],
        "threshold": run.summary.threshold,
        "thresholds": run.summary.thresholds,
        "near": NEAR,
        "hasGroups": run.cluster_of is not None,
        "compared": baseline is not None,
        "samples": run.summary.samples,
    }
    return (
        _environment()
        .get_template("page.html")
        .generate(
            **_in_words_for_anybody(run, checked, corrected),
            version=version("localjudge"),
            policy=policy(style, script),
            style=Markup(style),
            script=Markup(script),
            config=config,
            blocks=data_blocks(run, baseline),
        )
    )


def _in_words_for_anybody(run: Run, checked: Check, corrected: CorrectedMeans | None) -> dict[str, Any]:
    """The first screen, which calls options as the command line does: the page is the same whoever wrote it."""
    with as_typed():
        return overview(run, checked, corrected)


def policy(style: str, script: str) -> str:
    """The Content-Security-Policy: nothing but this style and this script, and no markup made of strings."""
    return (
        f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)}; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _source(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _text(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _environment() -> Environment:
    environment = Environment(
        autoescape=True,
        finalize=_visible,
        loader=FileSystemLoader(_FOLDER),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["number"] = number
    environment.globals |= {"in_words": interval_in_words, "distribution_in_words": distribution_in_words}
    return environment


def _visible(value: Any) -> Any:
    """Every text that the template prints, with escapes for what would act on a reader; markup stays as it is."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
