"""Matrix metrics and noise sensitivity: sentences against every retrieved chunk.

                chunk 1   chunk 2   chunk 3
    sentence 1     1         0         1        supported twice
    sentence 2     0         0         1        supported only by chunk 3: its marginal value
    sentence 3     0         0         0        not supported

    matrix_recall      sentences supported by any chunk / sentences                            2/3
    matrix_recall@k    sentences supported by any of the first k chunks / sentences        @1: 1/3
    matrix_precision   chunks that support any sentence / chunks                               2/3
    noise_sensitivity  wrong sentences that a relevant chunk supports / sentences of the response

The sentences are those of the reference. `matrix_recall` also reports each chunk's marginal value:
the share of sentences that only this chunk supports. Unlike in `context_recall`, a sentence that
needs two chunks together is unsupported.

For `noise_sensitivity`, lower is better. A sentence of the response is *wrong* if it cannot be
attributed to the reference, even if it is true. A chunk is *relevant* if any sentence of the
reference can be attributed to it. Thinking, lists of sources and citation marks are not part of a
sentence.

The expected scores take the largest probability of a row (of a column) where the counted ones ask
whether any of them is 1, as for windows of a long text. A sentence is wrong with probability 1 - p:

    (1 - p of the sentence by the reference) x max over chunks of (p of the sentence by the chunk
        x max over sentences of the reference of p of that sentence by the chunk)

Source: RAGChecker (Ru et al., 2024): its table of claims by chunks, with sentences as claims, and
noise sensitivity as computed by ragas (`NoiseSensitivity`, `mode` relevant).

Empty cases: no sentence in the reference, none in the response for `noise_sensitivity`, or no
chunk, is `Undefined`.
"""

from collections.abc import Callable, Generator, Sequence
from math import fsum

import numpy as np
from numpy.typing import NDArray

from localjudge.metrics.metric import (
    NO_CHUNK,
    NO_REFERENCE,
    NO_RESPONSE,
    About,
    BuiltIn,
    Sentences,
    StatementSource,
    Steps,
    attributions,
    chunks,
    labels_of,
    response_statements,
    statement_unit,
    units_of,
)
from localjudge.text.responses import Statement
from localjudge.types import (
    Attribution,
    Sample,
    Scored,
    Span,
    Task,
    Undefined,
    Unit,
    UnitSource,
    Verdict,
)

_ARE_SUPPORTED = "are supported by a single document"
_SENTENCES = "sentences of the response"
_UNITS = f"({_SENTENCES} + of the reference) x contexts, + {_SENTENCES}"
_ARE_WRONG = "are wrong because a document says so"
_SupportTable = NDArray[np.float64]
"""Shape (sentences, chunks): does the chunk support the sentence? Numbers in [0, 1]."""
_SupportOfEach = Callable[[_SupportTable], _SupportTable]
"""The support of each sentence, or of each chunk, from the table."""


def matrix_recall(k: int | None = None) -> BuiltIn:
    """Share of sentences supported by any of the first k chunks.

    If `k` is None, by any chunk, with the marginal value of each chunk as detail.
    """
    name = "matrix_recall"
    headline = f"in an average right answer, {{}} of the sentences {_ARE_SUPPORTED}"
    if k is not None:
        name += f"@{k}"
        headline += f" among the first {k}"
    counted = "sentences of the reference supported by a context"
    return _matrix_metric(
        name,
        headline,
        counted,
        lambda table: table[:, :k].max(axis=1),
        with_marginal_values=k is None,
    )


def matrix_precision() -> BuiltIn:
    """Share of chunks that support any sentence."""
    headline = "in an average sample, {} of the documents support a sentence of the right answer"
    counted = "contexts support a sentence of the reference"
    return _matrix_metric("matrix_precision", headline, counted, lambda table: table.max(axis=0))


def _matrix_metric(
    name: str,
    headline: str,
    counted: str,
    support: _SupportOfEach,
    *,
    with_marginal_values: bool = False,
) -> BuiltIn:
    """Return a metric that is the mean of the support of each sentence or chunk."""

    def steps(sample: Sample, sentences: Sentences) -> Steps:
        table = yield from _ask_table(sample, sentences)
        if isinstance(table, Undefined):
            return table
        detail = None
        if with_marginal_values:
            has_one_chunk = table.sum(axis=1, keepdims=True) == 1
            marginal = (table * has_one_chunk).mean(axis=0)
            listed = ", ".join(f"{share:.3f}" for share in marginal)
            detail = f"marginal value by chunk: {listed}"
        return Scored.fraction(support(table).astype(int).tolist(), detail=detail)

    def formula(units: Sequence[Unit], values: Sequence[float]) -> float:
        shares = support(_support_table(units, values, "reference"))
        return fsum(shares.tolist()) / len(shares)

    return BuiltIn(
        name,
        steps,
        formula=formula,
        required_fields=frozenset({"reference", "retrieved_contexts"}),
        common_tasks=frozenset({"attribution"}),
        about=About(
            question="sentence of the reference: can it be attributed to this single context?",
            unit="sentences of the reference x contexts",
            headline=headline,
            counted=counted,
            source="RAGChecker",
        ),
    )


def _ask_table(
    sample: Sample, sentences: Sentences
) -> Generator[Sequence[Task], Sequence[Verdict], _SupportTable | Undefined]:
    statements = sentences(sample.reference or "")
    passages = list(chunks(sample))
    if not statements:
        return Undefined(reason=NO_REFERENCE)
    if not passages:
        return Undefined(reason=NO_CHUNK)
    tasks = _against_each_chunk(sample, "reference", statements, passages)
    verdicts = yield tasks
    return _support_table(units_of(tasks), labels_of(verdicts), "reference")


def noise_sensitivity() -> BuiltIn:
    """Share of the response's sentences that are wrong and supported by a relevant chunk."""

    def formula(units: Sequence[Unit], values: Sequence[float]) -> float:
        misled = _misled(units, values)
        return fsum(misled) / len(misled)

    return BuiltIn(
        "noise_sensitivity",
        _ask_about_noise,
        version=2,
        lower_is_better=True,
        formula=formula,
        required_fields=frozenset({"response", "reference", "retrieved_contexts"}),
        common_tasks=frozenset({"attribution"}),
        about=About(
            question="sentence of the response: is it wrong, and does a relevant context say it?",
            unit=_UNITS,
            headline=f"in an average answer, {{}} of the sentences {_ARE_WRONG}",
            counted="sentences of the response wrong, and supported by a context",
            source="RAGChecker; ragas NoiseSensitivity",
        ),
    )


def _ask_about_noise(sample: Sample, sentences: Sentences) -> Steps:
    response = response_statements(sample, sentences)
    reference = sentences(sample.reference or "")
    passages = list(chunks(sample))
    if not response:
        return Undefined(reason=NO_RESPONSE)
    if not reference:
        return Undefined(reason=NO_REFERENCE)
    if not passages:
        return Undefined(reason=NO_CHUNK)
    tasks = [
        *attributions(sample, "response", response, (sample.reference or "",), "reference"),
        *_against_each_chunk(sample, "response", response, passages),
        *_against_each_chunk(sample, "reference", reference, passages),
    ]
    verdicts = yield tasks
    misled = int(sum(_misled(units_of(tasks), labels_of(verdicts))))
    return Scored(value=misled / len(response), numerator=misled, denominator=len(response))


def _misled(units: Sequence[Unit], values: Sequence[float]) -> list[float]:
    """Return for each sentence of the response whether it is wrong by a relevant chunk."""
    correct: list[float] = []
    for unit, value in zip(units, values, strict=True):
        if unit.against == "reference":
            correct.append(value)
    response_by_chunk = _support_table(units, values, "response")
    relevant = _support_table(units, values, "reference").max(axis=0)
    by_relevant = (response_by_chunk * relevant).max(axis=1)
    misled: list[float] = ((1 - np.array(correct)) * by_relevant).tolist()
    return misled


def _against_each_chunk(
    sample: Sample,
    source: StatementSource,
    statements: Sequence[Span | Statement],
    passages: Sequence[Unit],
) -> list[Attribution]:
    """Return a task for each statement and chunk: all chunks of the first statement come first."""
    tasks = []
    for index, statement in enumerate(statements):
        for chunk in passages:
            unit = statement_unit(statement, index, source, chunk.index)
            contexts = (chunk.span.text,)
            task = Attribution(unit=unit, contexts=contexts, user_input=sample.user_input)
            tasks.append(task)
    return tasks


def _support_table(
    units: Sequence[Unit], values: Sequence[float], source: UnitSource
) -> _SupportTable:
    """Arrange the numbers of a text's units, each against each chunk, as a table."""
    entries: list[tuple[int, int, float]] = []
    for unit, value in zip(units, values, strict=True):
        if unit.source == source and isinstance(unit.against, int):
            entries.append((unit.index, unit.against, value))
    indices = sorted({index for index, _, _ in entries})
    chunk_numbers = sorted({chunk for _, chunk, _ in entries})
    rows = {index: row for row, index in enumerate(indices)}
    columns = {chunk: column for column, chunk in enumerate(chunk_numbers)}
    table = np.zeros((len(rows), len(columns)))
    for index, chunk, value in entries:
        table[rows[index], columns[chunk]] = value
    return table
