"""Lines below the tables of a run: what limits its means, its judge, and details."""

import re
from collections.abc import Iterator, Mapping
from itertools import islice

from localjudge import model_registry
from localjudge.analysis.breakdowns import missing_scores
from localjudge.judge.profile import reads_nearest
from localjudge.judge.profile_choice import load_profile
from localjudge.labels.label_source import how_to_label
from localjudge.labels.run_labels import RunLabels
from localjudge.metrics import catalog
from localjudge.metrics.catalog import get_question
from localjudge.metrics.metric import nothing_retrieved
from localjudge.report.label_views import label_lines
from localjudge.report.terminal import number
from localjudge.run_directory.measured_judges import find_examination
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.summary import NEAR, MetricSummary, VerdictSummary, verdict_summary
from localjudge.text.claims import WITHOUT_CLAIM, is_bare_answer
from localjudge.types import CLASSIFIER, ONE_HALF, UnitKind
from localjudge.words import numbered, option, option_name, percent, typed_path

ALWAYS_VALID = "the intervals are confidence sequences, which are valid at any stopping point"
_MAX_NEAR = 0.5
"""Share of verdicts near the threshold that causes a warning."""
_MOST_SAMPLES = 10_000
"""Whose contexts are looked at for a remark."""
_MAX_REASONS = 5
_COMPARES_WORDS = "lexical"
"""Prompt profile of the judge that compares words."""
_OF_ANSWERS = "answer_relevancy"
"""The metric for which comparing words is worse than guessing: an evasion repeats the words of its
question. Of 50 public pairs of a good and a poor answer, the good one scored higher in 10, and the
poor one in 28.
"""
_SMALL_JUDGES = {_COMPARES_WORDS, "reader"}
"""Prompt profiles of the packaged judges."""
_WITHOUT_CLAIM = re.compile(rf"(?P<sentences>\d+) {WITHOUT_CLAIM}")


Shown = Mapping[str, MetricSummary]
"""The metrics that a view shows: all of a run, or one."""


def remarks(run: RunRecord, shown: Shown) -> Iterator[str]:
    """Yield what limits the means of a run.

    Unscored samples come first, then answers from elsewhere, and doubts about the judge.
    """
    withheld = run.summary.failed_beyond(run.max_failed)
    for name, summary in shown.items():
        for remark in metric_remarks(summary, withheld=name in withheld):
            yield f"{name}: {remark}"
        if name == _OF_ANSWERS:
            yield from _answer_remarks(run)
    yield from context_remarks(run, shown)
    if "faithfulness" in shown:
        yield from _claim_remarks(run)
        yield from _bare_answer_remarks(run)
    yield from _data_remarks(run)
    for origin in run.origins:
        if origin.is_notable:
            yield str(origin)
    verdicts = select_verdicts(run, shown)
    is_jury = verdicts.divided is not None  # its probabilities are near one half by construction
    near = verdicts.near_threshold
    if near is not None and near >= _MAX_NEAR and not is_jury:
        doubt = "most verdicts are close to the threshold; the judge may be guessing"
        yield f"warning: {doubt}: test it with `localjudge doctor`"
    near_half = abs(run.summary.threshold - ONE_HALF) <= NEAR
    if near is not None and near >= _MAX_NEAR and near_half:
        effect = "expected scores are near one half, as most probabilities are"
        yield f"warning: {effect}: compare runs by them, and do not read them as shares"
    if verdicts.windowed:
        yield (
            f"warning: {numbered(verdicts.windowed, 'unit')} did not fit the judge's context "
            "together with their texts, and were judged in windows: the highest window decides, "
            f"so many windows mean more false verdicts of 1; {_advise_on_windows(run, shown)}"
        )


def _answer_remarks(run: RunRecord) -> Iterator[str]:
    """Yield that the judge cannot tell good from poor answers, or was not measured on them."""
    judge = run.manifest.judge
    examination = find_examination(judge)
    if judge.profiles(_OF_ANSWERS) == {_COMPARES_WORDS}:
        yield (
            f"warning: {_OF_ANSWERS} is no better than guessing with a judge that compares words: "
            "of 50 good answers, 10 scored higher than a poor answer to the same question; "
            f"name another model with {option('judge')}"
        )
    elif examination is not None and examination.items and "answers" not in examination.uses:
        yield (
            f"{_OF_ANSWERS}: the doctor's recommendation is older than its items about answers: "
            "examine the judge again with `localjudge doctor`"
        )


def context_remarks(run: RunRecord, shown: Shown) -> Iterator[str]:
    """Yield how many samples have contexts without any text, which support nothing.

    Ids without texts and missing contexts have no score, for a reason that is shown.
    """
    metrics = run.installed_metrics
    fields: set[str] = set()
    for name in shown.keys() & metrics.keys():
        fields |= catalog.fields_read_as_text(metrics[name])
    if "retrieved_contexts" not in fields:
        return
    samples = min(run.summary.samples, _MOST_SAMPLES)
    without = 0
    for sample in islice(run.iter_samples(), samples):
        contexts = sample.retrieved_contexts
        has_texts = contexts is not None and all(each.text is not None for each in contexts)
        without += has_texts and nothing_retrieved(sample) is not None
    if not without:
        return
    advice = "check why the retriever found no text"
    if without == samples:
        mapped = option("mapping", {"retrieved_contexts": "COLUMN"})
        advice += f", or name another column with {mapped}"
    counted = numbered(samples, "sample")
    if samples < run.summary.samples:
        counted = f"the first {counted}"
    yield f"{without:,} of {counted} have no context text: {advice}"


def _claim_remarks(run: RunRecord) -> Iterator[str]:
    """Yield how many sentences of responses claim nothing, and are in no share."""
    sentences = 0
    samples = 0
    for row in run.iter_scores():
        count = _WITHOUT_CLAIM.match(row.detail or "")
        if row.metric == "faithfulness" and count:
            sentences += int(count["sentences"])
            samples += 1
    if sentences:
        counted = f"{numbered(sentences, 'sentence')} {WITHOUT_CLAIM} (greetings, refusals)"
        yield f"faithfulness: {counted} not counted, in {numbered(samples, 'sample')}"


def _bare_answer_remarks(run: RunRecord) -> Iterator[str]:
    """Yield how many statements are yes or no, if only small judges answered them."""
    if not run.manifest.judge.profiles("faithfulness") <= _SMALL_JUDGES:
        return
    bare = 0
    for row in run.iter_verdicts():
        bare += row.metric == "faithfulness" and is_bare_answer(row.text)
    if bare:
        yield (
            f"faithfulness: only yes or no in {numbered(bare, 'statement')}, judged with the "
            "question: small judges are not shown to be better than guessing there (the judge "
            "bundled has 15 of 28 right)"
        )


def _data_remarks(run: RunRecord) -> Iterator[str]:
    """Yield which rows of the data have no scores."""
    summary = run.summary
    if summary.skipped_rows:
        rows = numbered(summary.skipped_rows, "row")
        yield f"{rows} of the data could not be used and were skipped"
    if run.so_far:
        judged = f"the first {summary.samples:,} of {run.manifest.data.rows:,} samples"
        yield f"not finished: {judged}, in data order"
    if summary.how_it_ended:
        yield summary.how_it_ended
    elif run.part:
        yield f"part of the data: {run.part}"


def _advise_on_windows(run: RunRecord, shown: Shown) -> str:
    """Return how to avoid windows: by a new run, or by a larger context of this or another judge.

    Packaged judges read the nearest sentences, but read windows in earlier versions.
    """
    larger = f"a larger {option_name('n_ctx')} avoids windows"
    windowed: set[UnitKind] = set()
    for row in run.iter_verdicts():
        if row.window is not None and row.metric in shown:
            windowed.add(row.unit)
    sizes: list[int] = []
    for judge in run.manifest.judge.judges:
        size = judge.engine.n_ctx
        packaged = model_registry.packaged_as(str(judge.engine.model_sha256))
        if packaged is not None and packaged.profile is not None:
            nearest = load_profile(packaged.profile).nearest
            reads_less = nearest is not None and all(
                reads_nearest(nearest.units, unit) for unit in windowed
            )
            is_asked_so = judge.judge.profile == packaged.profile
            if reads_less and is_asked_so and judge.judge.nearest is None:
                now = (
                    f"the judge {packaged.name} now reads the nearest sentences in place of windows"
                )
                return f"a new run avoids windows: {now}"
        if size is None:
            continue
        sizes.append(size)
        if packaged is None:
            return f"{larger} if the model has one"
        if packaged.n_ctx is not None and size < packaged.n_ctx:
            return larger
    if not sizes:
        return "a judge with a larger context has fewer windows"
    judges_largest = f"a context of {min(sizes):,} tokens is this judge's largest"
    return f"{judges_largest}; a judge with a larger one has fewer windows"


def metric_remarks(metric: MetricSummary, *, withheld: bool) -> Iterator[str]:
    """Yield why a metric has no interval, and what its failed samples could change."""
    if metric.by_judge is not None and metric.by_judge.one_cluster:
        yield (
            "warning: all samples are in one group, so there is no interval: name a column with "
            f"several groups with {option('cluster_by')}, or omit it"
        )
    if metric.failed and metric.bounds:
        failed = f"{metric.failed:,} failed"
        if withheld:
            failed += f", more than allowed ({option_name('max_failed')}): no mean"
        low, high = map(number, metric.bounds)
        yield f"{failed}; if they had scores, the mean would be between {low} and {high}"


def reason_lines(
    run: RunRecord, shown: Shown, *, texts: bool = True, name: str | None = None
) -> list[str]:
    """Return the most frequent reasons for missing scores, with advice.

    Without `texts`, lists only built-in reasons, because others may contain a text. Commands call
    the run by its directory or by this `name`.
    """
    groups = missing_scores(run, shown)
    if not texts:
        groups = [
            group
            for group in groups
            if (group.status == "undefined" and catalog.is_ours(group.metric))
        ]
    lines = [str(group) for group in groups[:_MAX_REASONS]]
    if len(groups) > _MAX_REASONS:
        more = numbered(len(groups) - _MAX_REASONS, "more reason")
        lines.append(f"and {more}: localjudge show {typed_path(name or run.directory)} --json")
    return lines


def judge_lines(run: RunRecord) -> list[str]:
    """Return the judge with its caution and any threshold other than one half.

    Returns nothing if no metric needs a judge.
    """
    summary = run.summary
    if not any(map(catalog.is_judged, summary.metrics)):
        return []
    parts = [f"judge {run.judge.in_brief}"]
    if summary.threshold != ONE_HALF:
        parts.append(f"threshold {summary.threshold:g}")
    for name, threshold in summary.thresholds.items():
        parts.append(f"threshold {number(threshold)} for {name}")
    for calibration in run.manifest.environment.settings.calibration:
        if calibration.guesses:
            doubt = "not shown to be better than guessing"
            parts.append(f"by the calibration {calibration.name} {doubt}")
    return [", ".join(parts)]


def detail_lines(run: RunRecord, labels: RunLabels | None, shown: Shown) -> Iterator[str]:
    """Yield the details of a run.

    These are the labels of each mean, origins of answers, calibrations, the judge, what it has
    read, how clear its verdicts are, the signature and the directory.
    """
    stopped_by_scores = run.sampling.optional_stopping
    if labels is not None:
        yield from label_lines(labels)
    elif stopped_by_scores and run.so_far is None:
        reason = "labels cannot correct this run, because its size depends on its scores"
        yield f"{reason}: {how_to_label(run)}"
    if stopped_by_scores:
        yield ALWAYS_VALID
    for origin in run.origins:
        if not origin.is_notable:
            yield str(origin)
    for line in calibration_lines(run, shown):
        yield f"calibration {line}"
    if str(run.judge) != run.judge.in_brief:
        yield f"judge {run.judge}"
    for line in reading_lines(run):
        yield f"read by {line}"
    yield decidedness_line(select_verdicts(run, shown))
    yield f"signature {run.summary.signature}"
    yield f"run {run.directory}"


def reading_lines(run: RunRecord) -> Iterator[str]:
    """Yield how much each judge of a run has read, if one of them does not always read all."""
    judge = run.manifest.judge
    judges = judge.jury or {run.judge.name: judge.judges[0]}
    chooses = any(member.judge.nearest is not None for member in judges.values())
    for name, member in judges.items():
        nearest = member.judge.nearest
        if nearest is not None:
            near = f"the sentences nearest to each statement, {nearest.letters} letters at most"
            if nearest.closer is not None:
                near += f", and the nearest {nearest.closer} letters a second time"
            if nearest.units:
                near += "; beside other units, all texts"
            yield f"{name}: {near}"
        elif chooses or member.engine.engine == CLASSIFIER:
            yield f"{name}: all texts, in windows if they were too long for its context"


def calibration_lines(run: RunRecord, shown: Shown) -> Iterator[str]:
    """Yield the threshold of each calibration, and how good it is."""
    names = [name for name in run.summary.thresholds if name in shown]
    for calibration in run.manifest.environment.settings.calibration:
        decided = [name for name in names if get_question(name) == calibration.question]
        if not decided:
            continue
        threshold = f"threshold {number(calibration.threshold)} for {', '.join(decided)}"
        line = f"{calibration.name}: {threshold}"
        accuracy = calibration.held_out.get("balanced_accuracy")
        if accuracy:
            low, high = map(number, accuracy.ci95)
            line += f"; balanced accuracy {number(accuracy.value)} [{low}, {high}], held out"
        line += f", on {calibration.labels.verdicts:,} labelled statements"
        if calibration.guesses:
            line += "; not shown to be better than guessing"
        yield line


def decidedness_line(verdicts: VerdictSummary) -> str:
    """Return how many verdicts are near the threshold, judges that disagree, and valid mass."""
    line = "no verdict has a probability"
    if verdicts.near_threshold is not None:
        share = f"{percent(verdicts.near_threshold)} %"
        line = f"{numbered(verdicts.count, 'verdict')}: {share} within {NEAR:g} of the threshold"
    if verdicts.divided is not None:
        line += f"; the judges disagree on {percent(verdicts.divided)} %"
    if verdicts.median_valid_mass is not None:
        line += f"; median valid mass {number(verdicts.median_valid_mass)}"
    return line


def select_verdicts(run: RunRecord, shown: Shown) -> VerdictSummary:
    """Return how clear the verdicts of a run are, or of one metric."""
    if shown.keys() == run.summary.metrics.keys():
        return run.summary.verdicts
    (metric,) = shown
    rows = (row for row in run.iter_verdicts() if row.metric == metric)
    if metric in run.manifest.rubrics:
        return verdict_summary(rows, None)
    return verdict_summary(rows, run.manifest.judge.rule.threshold_of(metric))


def has_expected(shown: Shown) -> bool:
    """Return whether a mean of expected scores differs from the mean."""
    summaries = shown.values()
    return any(number(summary.expected) != number(summary.mean) for summary in summaries)
