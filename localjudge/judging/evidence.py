"""Find the evidence of judged statements, block by block, after their verdicts.

    sample, its evaluations ──which texts?──> finder ──> rows of evidence.jsonl

    compared with          searched
    all contexts           all contexts
    one context            this context
    the cited contexts     all contexts, to find out that another one than the cited has it
    reference, response    its sentences

Rows follow from samples and verdicts only, so that a resumed run, shards, and a run that reuses
answers find the same again.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, groupby

from localjudge.evidence import finder
from localjudge.evidence.finder import CLOSE, CLOSE_UNREAD, Finder, Match
from localjudge.judging.settings import RunSettings
from localjudge.metrics.citations import Citation, ContextIndex
from localjudge.metrics.metric import response_statements
from localjudge.run_directory.evaluations import Evaluation, JudgedUnit, verdict_rows, with_evidence
from localjudge.run_directory.result_rows import EvidenceRow, VerdictRow
from localjudge.text.judged_sentences import JudgedSentences
from localjudge.text.mark_names import RANK
from localjudge.types import Sample, Span, Unit, Verdict, context_texts

_COMPARED = ("reference", "response")


def find_evidence(
    evaluations: Iterable[Evaluation], samples: Iterator[Sample], settings: RunSettings
) -> Iterator[EvidenceRow]:
    """Yield the rows for evaluations, and take their samples from `samples` in the same order."""
    sentences = JudgedSentences(settings.sentences)
    by_sample = groupby(evaluations, key=lambda evaluation: evaluation.sample_id)
    for sample_id, of_sample in by_sample:
        sample = next(sample for sample in samples if sample.id == sample_id)
        texts = _SampleTexts(sample, sentences, settings.language)
        for evaluation in of_sample:
            for position, judged in enumerate(evaluation.units):
                if _is_statement(judged.unit):
                    yield from _make_rows(texts, evaluation, position, judged)


def verdicts_with_evidence(
    evaluations: Sequence[Evaluation], samples: Iterable[Sample], settings: RunSettings
) -> list[VerdictRow]:
    """Return the verdicts of these evaluations, each with its evidence unless settings omit it."""
    verdicts = verdict_rows(evaluations)
    if settings.no_evidence:
        return list(verdicts)
    return list(with_evidence(verdicts, find_evidence(evaluations, iter(samples), settings)))


def evidence_identity(settings: RunSettings) -> dict[str, str | int] | None:
    """Return everything that affects the evidence of a run, or None for a run without."""
    if settings.no_evidence:
        return None
    return finder.identity(settings.language)


class _SampleTexts:
    """The texts of a sample, each cut and counted once, when it is first needed."""

    def __init__(self, sample: Sample, sentences: JudgedSentences, language: str) -> None:
        self.sample = sample
        self._sentences = sentences
        self._language = language

    @cached_property
    def contexts(self) -> Finder:
        texts = context_texts(self.sample.retrieved_contexts)
        return Finder(texts, self._sentences, self._language)

    @cached_property
    def reference(self) -> Finder:
        return Finder([self.sample.reference or ""], self._sentences, self._language)

    @cached_property
    def response(self) -> Finder:
        return Finder([self.sample.response or ""], self._spans_of_response, self._language)

    def _spans_of_response(self, _text: str) -> list[Span]:
        statements = response_statements(self.sample, self._sentences)
        return [statement.span for statement in statements]

    @cached_property
    def citations(self) -> list[list[Citation]]:
        """The citations in each sentence of the response."""
        statements = response_statements(self.sample, self._sentences)
        return [self._index.resolve(statement.marks) for statement in statements]

    @cached_property
    def _index(self) -> ContextIndex:
        return ContextIndex(self.sample.retrieved_contexts or ())

    def name_context(self, place: int) -> str:
        """Return the name by which the response would cite a context: its id, or its rank from 1.

        It is the id if the response cites ids, or if an id looks like a rank.
        """
        ids = self._index.ids
        cites_ids = any(citation.name in ids for citation in chain(*self.citations))
        if cites_ids or any(map(RANK.fullmatch, ids)):
            for name, context in ids.items():
                if context == place:
                    return name
        return str(place + 1)


def _is_statement(unit: Unit) -> bool:
    return unit.kind == "statement" and unit.source in _COMPARED


def _make_rows(
    texts: _SampleTexts, evaluation: Evaluation, position: int, judged: JudgedUnit
) -> Iterator[EvidenceRow]:
    unit = judged.unit
    for rank, match in enumerate(_matches(texts, unit), 1):
        context = None if unit.against in _COMPARED else match.text
        is_cited = None
        cites = None
        name = None
        if unit.against == "cited":
            citations = texts.citations[unit.index]
            is_cited = any(citation.context == match.text for citation in citations)
            cites = tuple(dict.fromkeys(citation.name for citation in citations))
            name = texts.name_context(match.text)
        yield EvidenceRow(
            sample_id=evaluation.sample_id,
            metric=evaluation.metric,
            source=unit.source,
            source_index=unit.source_index,
            index=unit.index,
            position=position,
            rank=rank,
            context=context,
            start=match.span.start,
            end=match.span.end,
            text=match.span.text,
            score=match.score,
            supports=_supports(judged, match, is_cited),
            cited=is_cited,
            cites=cites,
            name=name,
        )


def _matches(texts: _SampleTexts, unit: Unit) -> list[Match]:
    if unit.against == "reference":
        return texts.reference.find(unit.text)
    if unit.against == "response":
        return texts.response.find(unit.text)
    if isinstance(unit.against, int):
        return texts.contexts.find(unit.text, [unit.against])
    return texts.contexts.find(unit.text)


def _supports(judged: JudgedUnit, match: Match, is_cited: bool | None) -> bool:
    """Return whether the sentence can support the statement.

    The judge decides about the texts that it has read: none of them supports a statement with label
    0. It has not read a context that the statement does not cite, so more words must be there.
    """
    if not isinstance(judged.verdict, Verdict):
        return False
    if is_cited is False:
        return match.score >= CLOSE_UNREAD
    return judged.verdict.label == 1 and match.score >= CLOSE
