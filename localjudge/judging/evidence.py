"""Find the evidence of judged statements, block by block, after their verdicts.

    sample, its evaluations ──which texts?──> finder ──> rows of evidence.jsonl

    compared with          searched
    all contexts           all contexts
    one context            this context
    the cited contexts     all contexts, to find out that another one than the cited has it
    reference, response    its sentences

Of a text that a judge has read in part, only what it has read is searched.

Rows follow from samples and verdicts only, so that a resumed run, shards, and a run that reuses
answers find the same again.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, groupby

from localjudge.judge.nearest import Finders, shared_finders
from localjudge.judging.settings import RunSettings
from localjudge.metrics.citations import Citation, ContextIndex
from localjudge.metrics.metric import response_statements
from localjudge.run_directory.result_rows import Evaluation, EvidenceRow, VerdictRow
from localjudge.text.finder import CLOSE, CLOSE_UNREAD, Finder, Match, Part
from localjudge.text.marks import RANK
from localjudge.text.segmenter import JudgedSentences, judged_sentences
from localjudge.types import Sample, Span, context_texts

_COMPARED = ("reference", "response")


def find_evidence(
    evaluations: Iterable[Evaluation],
    samples: Iterator[Sample],
    settings: RunSettings,
    letters: Sequence[int],
) -> Iterator[EvidenceRow]:
    """Yield the rows for evaluations, and take their samples from `samples` in the same order.

    `letters` are those that a judge has read for each statement, in each of its readings, without
    any if it has read everything.
    """
    finders = shared_finders(settings.sentences, settings.language)
    sentences = judged_sentences(settings.sentences)
    by_sample = groupby(evaluations, key=lambda evaluation: evaluation.sample_id)
    for sample_id, of_sample in by_sample:
        sample = next(sample for sample in samples if sample.id == sample_id)
        texts = _SampleTexts(sample, sentences, finders, letters, settings.language)
        for evaluation in of_sample:
            for verdict in evaluation.verdicts:
                if verdict.unit == "statement" and verdict.source in _COMPARED:
                    yield from _make_rows(texts, verdict)


class _SampleTexts:
    """The texts of a sample, each cut and counted once, when it is first needed."""

    def __init__(
        self,
        sample: Sample,
        sentences: JudgedSentences,
        finders: Finders,
        letters: Sequence[int],
        language: str,
    ) -> None:
        self.sample = sample
        self._sentences = sentences
        self._finders = finders
        self._letters = letters
        self._language = language

    @cached_property
    def contexts(self) -> Finder:
        return self._finders.of(context_texts(self.sample.retrieved_contexts))

    @cached_property
    def reference(self) -> Finder:
        return self._finders.of((self.sample.reference or "",))

    def find_in_reference(self, statement: str) -> list[Match]:
        parts = self._parts_read((self.sample.reference or "",), statement)
        return self.reference.find(statement, parts=parts)

    def find_in_contexts(self, statement: str, read: Sequence[int]) -> list[Match]:
        """Return the closest sentences in all contexts; of the `read` ones, in what was read."""
        texts = context_texts(self.sample.retrieved_contexts)
        parts = self._parts_read(tuple(texts[number] for number in read), statement)
        if parts is None:
            return self.contexts.find(statement)
        everywhere = [Part(read[part.text], part.span) for part in parts]
        for number in sorted(set(range(len(texts))) - set(read)):
            everywhere.append(Part(number, Span.whole(texts[number])))
        return self.contexts.find(statement, parts=everywhere)

    def find_in_context(self, statement: str, number: int) -> list[Match]:
        texts = context_texts(self.sample.retrieved_contexts)
        parts = self._parts_read(texts[number : number + 1], statement)
        if parts is not None:
            parts = [Part(number, part.span) for part in parts]
        return self.contexts.find(statement, [number], parts)

    def _parts_read(self, texts: tuple[str, ...], statement: str) -> list[Part] | None:
        """Return what a judge has read of the texts that it was shown, None if everything."""
        if not self._letters:
            return None
        parts: list[Part] = []
        for letters in self._letters:
            parts += self._finders.read(texts, statement, letters).parts
        return parts

    @cached_property
    def response(self) -> Finder:
        statements = response_statements(self.sample, self._sentences)
        spans = [statement.span for statement in statements]
        return Finder([self.sample.response or ""], lambda _text: spans, self._language)

    @cached_property
    def citations(self) -> list[list[Citation]]:
        """The citations in each sentence of the response."""
        statements = response_statements(self.sample, self._sentences)
        return [self._index.resolve(statement.marks) for statement in statements]

    def contexts_read(self, verdict: VerdictRow) -> list[int]:
        """Return the numbers of the contexts that were shown for a statement."""
        if verdict.against != "cited":
            return list(range(len(self.sample.retrieved_contexts or ())))
        cited = {citation.context for citation in self.citations[verdict.index]}
        return sorted(number for number in cited if number is not None)

    @cached_property
    def _index(self) -> ContextIndex:
        return ContextIndex(self.sample.retrieved_contexts or ())

    def name_context(self, number: int) -> str:
        """Return the name by which the response would cite a context: its id, or its rank from 1.

        It is the id if the response cites ids, or if an id looks like a rank.
        """
        ids = self._index.ids
        cites_ids = any(citation.name in ids for citation in chain(*self.citations))
        if cites_ids or any(map(RANK.fullmatch, ids)):
            for name, context in ids.items():
                if context == number:
                    return name
        return str(number + 1)


def _make_rows(texts: _SampleTexts, verdict: VerdictRow) -> Iterator[EvidenceRow]:
    for rank, match in enumerate(_matches(texts, verdict), 1):
        context = None if verdict.against in _COMPARED else match.text
        is_cited = None
        cites = None
        name = None
        if verdict.against == "cited":
            citations = texts.citations[verdict.index]
            is_cited = any(citation.context == match.text for citation in citations)
            cites = tuple(dict.fromkeys(citation.name for citation in citations))
            name = texts.name_context(match.text)
        yield EvidenceRow(
            sample_id=verdict.sample_id,
            metric=verdict.metric,
            source=verdict.source,
            source_index=verdict.source_index,
            index=verdict.index,
            position=verdict.position or 0,
            rank=rank,
            context=context,
            start=match.span.start,
            end=match.span.end,
            text=match.span.text,
            score=match.score,
            supports=_supports(verdict, match, is_cited),
            cited=is_cited,
            cites=cites,
            name=name,
        )


def _matches(texts: _SampleTexts, verdict: VerdictRow) -> list[Match]:
    statement = verdict.judged_unit.text
    if verdict.against == "reference":
        return texts.find_in_reference(statement)
    if verdict.against == "response":
        return texts.response.find(statement)
    if isinstance(verdict.against, int):
        return texts.find_in_context(statement, verdict.against)
    return texts.find_in_contexts(statement, texts.contexts_read(verdict))


def _supports(verdict: VerdictRow, match: Match, is_cited: bool | None) -> bool:
    """Return whether the sentence can support the statement.

    The judge decides about the texts that it has read: none of them supports a statement with label
    0. It has not read a context that the statement does not cite, so more words must be there.
    """
    if verdict.label is None:
        return False
    if is_cited is False:
        return match.score >= CLOSE_UNREAD
    return verdict.label == 1 and match.score >= CLOSE
