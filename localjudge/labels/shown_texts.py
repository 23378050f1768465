"""The texts that annotators see with a statement, and the key of the statement by these texts.

Annotators who ask for them also see the sentences that come closest to the statement. They come
from `evidence.jsonl`, without what the judge's verdict adds to them: whether they support the
statement. The finder works by words only, so they do not tell the verdict.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from localjudge.errors import InputError
from localjudge.metrics import Metric, catalog
from localjudge.metrics.criterion import Criterion
from localjudge.metrics.metric import get_about
from localjudge.run_directory.label_rows import VerdictId
from localjudge.run_directory.result_rows import EvidenceRow, VerdictRow
from localjudge.run_directory.run_record import RunRecord
from localjudge.types import CONTEXT_FIELDS, Sample, context_texts
from localjudge.words import option_name

_KEY_DIGITS = 32


class AnswerAround(NamedTuple):
    """A whole answer, split before and after a statement, and its field of the sample."""

    field: str
    before: str
    statement: str
    after: str


def split_answer(sample: Sample, verdict: VerdictRow) -> AnswerAround | None:
    """Return the answer, or None if the statement is the whole answer or from contexts."""
    text = getattr(sample, verdict.source)
    if not isinstance(text, str):
        return None
    statement = text[verdict.start : verdict.end]
    if text.strip() == statement.strip():
        return None
    before = text[: verdict.start]
    after = text[verdict.end :]
    return AnswerAround(verdict.source, before, statement, after)


def find_metrics(run: RunRecord) -> dict[str, Metric]:
    """Return the metrics of a run by name, without those of a package that is not installed."""
    metrics: dict[str, Metric] = dict(run.manifest.criteria)
    for name in run.summary.metrics.keys() - metrics.keys():
        with suppress(InputError):
            metrics[name] = catalog.get(name)
    return metrics


def shown_texts(
    metrics: Mapping[str, Metric], sample: Sample, verdict: VerdictRow
) -> dict[str, Any]:
    """Return what annotators see with a unit, None if unused: asks, user_input, contexts, ...

    `context_ids` are the ids of the contexts, for a statement that may cite them by id.
    """
    metric = metrics.get(verdict.metric)
    needed = _needed_fields(metric, verdict)
    contexts = None
    if not needed.isdisjoint(CONTEXT_FIELDS):
        contexts = list(context_texts(sample.retrieved_contexts))
        if isinstance(verdict.against, int):
            contexts = contexts[verdict.against : verdict.against + 1]
    shown: dict[str, Any] = {
        "asks": get_about(metric).question or None,
        "user_input": sample.user_input,
        "contexts": contexts,
        "reference": None,
        "response": None,
        "context_ids": None,
    }
    if "reference" in needed:
        shown["reference"] = sample.reference
    if "response" in needed:
        shown["response"] = sample.response
    if verdict.against == "cited":
        ids = [context.id for context in sample.retrieved_contexts or ()]
        shown["context_ids"] = None
        if any(ids):
            shown["context_ids"] = ids
    return shown


def _needed_fields(metric: Metric | None, verdict: VerdictRow) -> set[str]:
    """Return the fields of the sample that an annotator must see."""
    if verdict.against == "cited" or isinstance(verdict.against, int):
        return {"retrieved_contexts"}
    if verdict.against in {"reference", "response"} and verdict.unit == "statement":
        return {str(verdict.against)}
    needed = {"retrieved_contexts", "reference", "response"}
    if metric is not None:
        needed = set(metric.required_fields)
    if verdict.unit in {"chunk", "question", "response", "statement"}:
        needed.discard(verdict.source)
    return needed


def statement_key(metrics: Mapping[str, Metric], sample: Sample, verdict: VerdictRow) -> str:
    """Return the hash of the question and all texts shown: 32 hexadecimal digits.

    It does not depend on the metric's name. Whether the cited contexts support a statement also
    depends on what it cites, so its place in its answer belongs to the question.
    """
    shown = shown_texts(metrics, sample, verdict)
    metric = metrics.get(verdict.metric)
    if isinstance(metric, Criterion):
        shown["asks"] = metric.question
    else:
        shown["asks"] = catalog.get_question(verdict.metric)
    context_ids = shown.pop("context_ids")
    asked = [*shown.values(), verdict.text]
    if verdict.against == "cited":
        asked += [getattr(sample, verdict.source), verdict.start, context_ids]
    texts = json.dumps(asked)
    return hashlib.sha256(texts.encode()).hexdigest()[:_KEY_DIGITS]


class ClosestSentence(NamedTuple):
    """A sentence in a text that is shown with a statement.

    `field` is contexts, reference or response. `context` counts the shown contexts from 0; it is
    None in another field. `start` and `end` count code points.
    """

    field: str
    context: int | None
    start: int
    end: int
    text: str

    @property
    def in_words(self) -> str:
        """`[2] The Danube rises in the Black Forest.`; without a number outside of contexts."""
        if self.context is None:
            return self.text
        return f"[{self.context + 1}] {self.text}"


def closest_sentences(
    run: RunRecord, keys: Mapping[VerdictId, str]
) -> dict[str, tuple[ClosestSentence, ...]]:
    """Return the closest sentences of the statements with these verdicts, by their keys.

    A statement that shares no word with its texts has none.
    """
    sentences: dict[str, tuple[ClosestSentence, ...]] = {}
    if not run.has_evidence:
        return sentences
    for verdict in run.iter_verdicts_with_evidence():
        key = keys.get(VerdictId(verdict.sample_id, verdict.metric, verdict.position or 0))
        if key is not None and verdict.evidence:
            sentences[key] = tuple(_describe(verdict, row) for row in verdict.evidence)
    return sentences


def _describe(verdict: VerdictRow, row: EvidenceRow) -> ClosestSentence:
    field = "contexts"
    context = row.context
    if context is None:
        field = str(verdict.against)
    elif isinstance(verdict.against, int):  # only this context is shown
        context = 0
    return ClosestSentence(field, context, row.start, row.end, row.text)


def require_evidence(run: RunRecord) -> None:
    """Raise InputError for a run that was made without evidence."""
    if not run.has_evidence:
        without = option_name("no_evidence")
        raise InputError(
            f"the run in {run.directory} has no evidence to show",
            hint=f"run the same command without {without}: it adds the evidence and asks nothing",
        )
