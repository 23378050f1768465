"""Messages of the label page and the certificate in the reader's language.

    [label]                                        languages/en.toml
    progress = "{n} of {total} labelled"
    open.one = "1 statement without an answer"
    open.other = "{n} statements without an answer"

    messages = Messages("de")
    messages("label.progress", n=2, total=50)      2 von 50 gelabelt

A message with two forms uses `one` if its value `n` is 1. English is the source of all messages,
except for the questions and sentences about a metric: their English text is in the metric's file.
"""

import re
import tomllib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from localjudge import model_registry
from localjudge.analysis.gates import GateDecision, parse_gate
from localjudge.judging.verify_files import Alteration
from localjudge.labels.corrected_mean import CorrectedMean
from localjudge.labels.decisions import Agreement
from localjudge.labels.matched_labels import (
    SMALLEST_SHOWN,
    EvidenceUse,
    LabelCounts,
    labelled_template,
)
from localjudge.labels.run_labels import RunLabels
from localjudge.metrics import catalog
from localjudge.metrics.metric import parse_name
from localjudge.run_directory.files import VerifiedLabels
from localjudge.run_directory.identity import UNPROVED
from localjudge.run_directory.label_rows import LABELS, LabelRow
from localjudge.run_directory.manifest import Origin
from localjudge.run_directory.measured_judges import Examination, name_task
from localjudge.run_directory.run_record import RunRecord
from localjudge.stats.interval import Limits
from localjudge.types import USES, JudgeCard, Language
from localjudge.words import percent, printable, signed, signed_difference, three_digits

FOLDER = Path(__file__).with_name("languages")
Message = str | dict[str, str]
_ROW = re.compile(r"row (\d+)")
_STATES = {
    "it cannot be read": "altered_place.unreadable",
    "formatting": "altered_place.formatting",
}
"""What `localjudge.judging.verify_files` says of a file of results besides its rows and values."""

_OUTCOMES = {
    "pass": "certificate.gate_pass",
    "fail": "certificate.gate_fail",
    "undecided": "certificate.gate_undecided",
}
LabelCheck = dict[str, str | bool]
"""What the last verification says about a file of labels.

It has a `sentence` and `remarks`. `is_covered`: it is about all rows of the file.
"""


class Messages:
    """The messages of one language."""

    def __init__(self, language: Language = "en") -> None:
        self.language = language
        self._sections = read_messages(language)

    def __call__(self, key: str, /, **values: Any) -> Markup:
        """Return the message `section.name` for a page, with markup and escaped values."""
        return Markup(self._template(key, values)).format(**self._show(values))

    def plain(self, key: str, /, **values: Any) -> str:
        """Return the message `section.name` as plain text."""
        return self._template(key, values).format(**self._show(values))

    def section(self, *names: str) -> dict[str, Message]:
        """Return all messages of these sections by name, for a script."""
        messages: dict[str, Message] = {}
        for name in names:
            messages |= self._sections[name]
        return messages

    def number(self, value: float | None) -> str:
        """Format a count as 1,234 and any other number as 0.708, with the signs of the language."""
        if value is None:
            return "-"
        if isinstance(value, int):
            text = f"{value:,}"
        else:
            text = three_digits(value)
        return self.digits(text)

    def digits(self, text: str) -> str:
        """Return a formatted number, such as +1,234.5, with the signs of the language."""
        thousands = self.plain("number.thousands")
        decimal = self.plain("number.decimal")
        return text.translate({ord(","): thousands, ord("."): decimal})

    def question(self, metric: str) -> str | None:
        """Return the translated question about a unit of a metric, or None."""
        return self._for_metric("question", metric)

    def headline(self, metric: str) -> str | None:
        """Return the sentence about the mean of a metric, with `{share}` for its value, or None."""
        in_english = catalog.about(metric).headline.replace("{}", "{share}")
        return self._for_metric("headline", metric) or in_english or None

    def labelled(self, metric: str) -> str | None:
        """Return the sentence about its labels, with `{supported}` and `{n}`, or None."""
        return self._for_metric("labelled", metric) or labelled_template(metric)

    def _for_metric(self, section: str, metric: str) -> str | None:
        """Look up `hit_rate@3(compare_by=id)` with its options, then without, as `hit_rate@k`."""
        name = parse_name(metric)
        if name is None or catalog.ours(metric) is None:
            return None
        base, k, options = name
        if k is not None:
            base = f"{base}@k"
        messages = self._sections.get(section, {})
        message = messages.get(f"{base}({options})") or messages.get(base)
        if not isinstance(message, str):
            return None
        return message.replace("{k}", str(k))

    def _template(self, key: str, values: dict[str, Any]) -> str:
        section, _, name = key.partition(".")
        message = self._sections[section][name]
        if isinstance(message, str):
            return message
        if values["n"] == 1:
            return message["one"]
        return message["other"]

    def _show(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values with numbers in the language, and texts with escapes."""
        shown = dict(values)
        for name, value in values.items():
            if isinstance(value, int | float):
                shown[name] = self.number(value)
            # Markup is a subclass of str, and has its escapes already.
            elif type(value) is str:
                shown[name] = printable(value)
        return shown


@lru_cache(maxsize=8)
def read_messages(language: Language) -> dict[str, dict[str, Message]]:
    return tomllib.loads((FOLDER / f"{language}.toml").read_text(encoding="utf-8"))


def describe_samples(run: RunRecord, messages: Messages) -> str:
    """Return how many samples were scored, and how they were chosen."""
    part = run.part
    if part is None:
        return messages.plain("samples.all", n=run.summary.samples)
    counts = {"n": part.samples, "total": part.whole}
    if run.summary.stopped is not None:
        return messages.plain("samples.random", **counts, seed=str(part.seed))
    if part.shard is not None:
        return messages.plain("samples.shard", **counts, shard=part.shard)
    if part.sample is not None:
        return messages.plain("samples.drawn", **counts, seed=str(part.seed))
    return messages.plain("samples.first", **counts)


def describe_alteration(alteration: Alteration, messages: Messages) -> str:
    """Return what was changed. The message of an error stays as it is."""
    details = alteration.details
    if alteration.reason == "results":
        details = ", ".join(_translate_place(place, messages) for place in details.split(", "))
    sentence = messages.plain(
        f"alteration.{alteration.reason}", file=alteration.file, details=details
    )
    if alteration.side:
        return f"{alteration.side}: {sentence}"
    return sentence


def _translate_place(place: str, messages: Messages) -> str:
    """Return `row 3` or the state of a file in the language; the name of a value stays."""
    row = _ROW.fullmatch(place)
    if row:
        return messages.plain("altered_place.row", row=row[1])
    if place in _STATES:
        return messages.plain(_STATES[place])
    return place


def translate_mean(name: str, mean: float | None, ci95: Limits, messages: Messages) -> str:
    """Return the mean in the metric's words.

    For example, `about 9 % of the answers decline to answer (2 to 22)`.
    """
    if mean is None:
        return ""
    headline = messages.headline(name)
    if headline:
        share = messages.plain("finding.share", share=percent(mean))
        clause = headline.format(share=share)
        show: Callable[[float], str] = percent
    else:
        clause = messages.plain("finding.mean", name=name, mean=mean)
        show = messages.number
    if not ci95:
        return clause
    low, high = map(show, ci95)
    return messages.plain("finding.with_limits", clause=clause, low=low, high=high)


def translate_estimate(
    value: float | None, ci95: Limits, messages: Messages, *limits: float
) -> tuple[str, str]:
    """Return a mean and its interval, which show on which side of the limits they are."""
    if value is None:
        return "-", "-"
    mean = messages.digits(three_digits(value, *limits))
    if not ci95:
        return mean, "-"
    low, high = (messages.digits(three_digits(end, *limits)) for end in ci95)
    return mean, messages.plain("certificate.range", low=low, high=high)


def translate_difference(
    value: float | None, ci95: Limits, messages: Messages, *limits: float
) -> tuple[str, str]:
    """Return a difference and its interval, as `words.signed_difference`."""
    if value is None:
        return "-", "-"
    if not ci95:
        return messages.digits(signed(value, *limits)), "-"
    difference, low, high = map(messages.digits, signed_difference(value, ci95, *limits))
    return difference, messages.plain("certificate.range", low=low, high=high)


def gate_row(decision: GateDecision, messages: Messages) -> dict[str, Any]:
    """Return a gate with its outcome, value and basis in the language."""
    basis = "certificate.judge_only"
    if decision.corrected or decision.labels is not None:
        basis = "labels.count"  # without a value, nothing is by these labels
        if decision.value is not None:
            basis = "certificate.by_labels"
    gate = parse_gate(decision.gate)
    write = translate_estimate
    if gate.delta:
        write = translate_difference
    value, interval = write(decision.value, decision.ci95, messages, gate.threshold)
    return {
        "gate": decision.gate,
        "outcome": messages.plain(_OUTCOMES[decision.outcome]),
        "value": value,
        "interval": interval,
        "basis": messages.plain(basis, n=decision.labels or 0),
    }


def translate_labels(counts: LabelCounts, messages: Messages) -> str:
    """Return `0 of 19 labelled statements are supported by the documents`.

    Labels that contradict the judge, and annotators that contradict each other, are named.
    """
    if not counts.undisputed:
        return messages.plain("labels.all_disputed", n=counts.disputed)
    template = messages.labelled(counts.metric)
    if template and counts.is_share:
        supported = messages.number(counts.supported)
        says = template.format(supported=supported, n=messages.number(counts.labelled))
    else:
        says = messages.plain("labels.say", supported=counts.supported, n=counts.labelled)
    if counts.disputed:
        says = messages.plain("labels.disputed", says=says, n=counts.disputed)
    if not counts.is_contradiction:
        return says
    p_value = f"p = {messages.number(counts.p_value)}"
    if counts.p_value < SMALLEST_SHOWN:
        p_value = f"p < {messages.number(SMALLEST_SHOWN)}"
    judge = counts.undisputed_by_judge
    if counts.disputed:
        return messages.plain(
            "labels.contradict_agreed",
            says=says,
            agreed=counts.undisputed,
            judge=judge,
            p_value=p_value,
        )
    return messages.plain("labels.contradict", says=says, judge=judge, p_value=p_value)


def count_labels(corrected: CorrectedMean, messages: Messages) -> str:
    """Return `50 labels`, or `50 of 63 labels` between two looks."""
    if corrected.labels < corrected.labelled:
        return messages.plain(
            "labels.counted", counted=corrected.labels, labelled=corrected.labelled
        )
    return messages.plain("labels.count", n=corrected.labels)


def translate_caution(judge: JudgeCard, messages: Messages) -> str | None:
    """Return the caution about a packaged judge, or about one without a checksum, translated.

    A caution is found by its English text: another judge may have the name of a packaged one.
    """
    if judge.caution == UNPROVED:
        return messages.plain("caution.unproved")
    english = Messages("en")
    for name, caution in english.section("caution").items():
        values: dict[str, int | float] = {}
        jury = model_registry.registered_juries().get(name)
        if jury is not None and jury.measured is not None:
            values = jury.measured.model_dump()
        elif "{auc}" in str(caution):
            continue
        if english.plain(f"caution.{name}", **values) == judge.caution:
            return messages.plain(f"caution.{name}", **values)
    return judge.caution


def describe_examination(examination: Examination, messages: Messages) -> str:
    """Return what doctor recommends the judge for, in English as `str` of the examination."""
    basis = messages.plain("examined.plain_cases")
    if examination.items:
        basis = messages.plain("examined.items", n=examination.items)
    uses_by_task: dict[str, str] = {}
    for task, uses in examination.uses.items():
        words = ""
        for use in uses:
            word = messages.plain(f"examined.{use}")
            if words:
                word = messages.plain("examined.and", one=words, other=word)
            words = word
        uses_by_task[name_task(task)] = words
    distinct_uses = set(uses_by_task.values())
    if not any(distinct_uses):
        all_uses = ", ".join(messages.plain(f"examined.{use}") for use in USES)
        return messages.plain("examined.no_use", uses=all_uses, basis=basis)
    recommended = [*distinct_uses]
    if len(distinct_uses) > 1:
        recommended = []
        for task, words in uses_by_task.items():
            key = "examined.task" if words else "examined.no_task"
            recommended.append(messages.plain(key, uses=words, task=task))
    return messages.plain("examined.uses", uses=", ".join(recommended), basis=basis)


def describe_origin(origin: Origin, messages: Messages) -> str:
    return messages.plain(
        f"origin.{origin.kind}", count=origin.count, total=origin.total, name=origin.name
    )


def describe_agreement(agreement: Agreement, messages: Messages) -> str:
    """Return `14 statements with several labels: 86 % agreement, Krippendorff's alpha 0.713`."""
    share = percent(agreement.share)
    line = messages.plain("labels.agreement", n=agreement.statements, share=share)
    if agreement.alpha is None:
        return line
    return messages.plain("labels.alpha", agreement=line, alpha=agreement.alpha)


def _describe_evidence_use(use: EvidenceUse, messages: Messages) -> str:
    """Return the line of `EvidenceUse.in_words` in the language of the page."""
    counted = messages.plain("labels.evidence_open", n=use.open + use.closed, open=use.open)
    if use.shown:
        counted = messages.plain("labels.evidence_shown", counted=counted, shown=use.shown)
    if not use.closed:
        return messages.plain(
            "labels.evidence_agreement", counted=counted, agreeing=use.open_agreeing
        )
    return messages.plain(
        "labels.evidence_agreement_of_others",
        counted=counted,
        agreeing=use.open_agreeing,
        others=use.closed,
        others_agreeing=use.closed_agreeing,
    )


def describe_labels(
    labels: RunLabels | None, sha256: str, messages: Messages
) -> dict[str, Any] | None:
    """Return what the labels say, who gave them, their agreement, and warnings."""
    if labels is None:
        return None
    says: list[tuple[str, str]] = []
    evidence_use: list[tuple[str, str]] = []
    for name, mean in labels.corrected.items():
        if mean.counts:
            says.append((name, translate_labels(mean.counts, messages)))
        if mean.evidence_use:
            evidence_use.append((name, _describe_evidence_use(mean.evidence_use, messages)))
    annotators: list[tuple[str, int, int]] = []
    for name, count in labels.annotators.items():
        annotators.append((name, count, labels.ones.get(name, 0)))
    warnings: list[str] = []
    if labels.passed_over:
        warnings.append(messages.plain("labels.unlabelled", n=labels.passed_over))
    if labels.undrawn:
        warnings.append(messages.plain("labels.undrawn", n=labels.undrawn))
    agreement = labels.agreement
    settled = None
    if agreement and agreement.settled:
        counts = {"n": agreement.disputed, "settled": agreement.settled}
        settled = messages.plain("labels.settled", **counts)
    return {
        "says": says,
        "evidence_use": evidence_use,
        "annotators": annotators,
        "unsure": labels.unsure,
        "first": labels.first,
        "last": labels.last,
        "agreement": agreement and describe_agreement(agreement, messages),
        "settled": settled,
        "warnings": warnings,
        "files": [(LABELS, sha256)],
    }


def describe_label_check(
    file: str, rows: Sequence[LabelRow], verified: VerifiedLabels | None, messages: Messages
) -> list[LabelCheck]:
    """Return what the last verification covers of the labels in a file, or nothing without rows."""
    total = len(rows)
    if not total:
        return []
    if verified is None or not verified.rows:
        sentence = messages.plain("certificate.labels_unverified", n=total, file=file)
        return [{"sentence": sentence, "remarks": "", "is_covered": False}]
    day = verified.when[:10]
    sentence = messages.plain(
        "certificate.labels_verified", n=verified.rows, total=total, file=file, day=day
    )
    remarks: list[str] = []
    added = total - verified.rows
    if added:
        remarks.append(messages.plain("certificate.labels_added", n=added))
    if verified.first in (None, verified.when):
        remarks.append(messages.plain("certificate.labels_first"))
    else:
        remarks.append(messages.plain("certificate.labels_again", day=str(verified.first)[:10]))
    return [{"sentence": sentence, "remarks": " ".join(remarks), "is_covered": not added}]
