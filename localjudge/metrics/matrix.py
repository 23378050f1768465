"""One table, many metrics: every sentence of the reference against every retrieved chunk.

                chunk 1   chunk 2   chunk 3
    sentence 1     1         0         1        supported, and twice
    sentence 2     0         0         1        supported by chunk 3 alone: its marginal value
    sentence 3     0         0         0        not supported

    matrix_recall      sentences supported by any chunk / sentences                            2/3
    matrix_recall@k    sentences supported by any of the first k chunks / sentences            @1: 1/3
    matrix_precision   chunks that support any sentence / chunks                               2/3
    matrix_redundancy  supports beyond a sentence's first / all supports                       1/3

`matrix_recall` also tells each chunk's marginal value: the share of sentences that this chunk alone supports, which is
what recall would lose without it. Source of the table: RAGChecker's claims by chunks (Ru et al., "RAGChecker", 2024);
`matrix_recall` and `matrix_precision` are its claim recall and context precision, with sentences as claims.

The metrics ask the same questions, and a run asks the same question once. A sentence that needs two chunks together is
supported by neither alone: that is what sets `matrix_recall` apart from `context_recall`.

Empty cases: no sentence in the reference, or no chunk, is `Undefined`; no support at all leaves redundancy `Undefined`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from localjudge.metrics.context_relevancy import relevant_chunks
from localjudge.metrics.protocol import Sentences, Steps
from localjudge.types import Attribution, Outcome, Sample, Scored, Undefined, Unit

Table = NDArray[np.bool_]
"""Shape (sentences, chunks): does the chunk support the sentence."""


def recall(table: Table, first: int | None = None) -> Scored:
    """Share of sentences supported by any of the first chunks; by any at all, with marginal values, if None."""
    supported = table[:, :first].any(axis=1)
    values = ", ".join(f"{value:.3f}" for value in marginal_values(table))
    detail = f"marginal value by chunk: {values}" if first is None else None
    return _ratio(int(supported.sum()), supported.size, detail)


def marginal_values(table: Table) -> list[float]:
    """For each chunk, the share of sentences that it alone supports; shape (chunks,)."""
    alone = table & (table.sum(axis=1, keepdims=True) == 1)
    return [float(share) for share in alone.mean(axis=0)]


def precision(table: Table) -> Scored:
    """Share of chunks that support any sentence."""
    supporting = table.any(axis=0)
    return _ratio(int(supporting.sum()), supporting.size)


def redundancy(table: Table) -> Outcome:
    """Share of supports that are beyond their sentence's first."""
    supports = int(table.sum())
    if supports == 0:
        return Undefined(reason="no chunk supports any sentence of the reference")
    return _ratio(supports - int(table.any(axis=1).sum()), supports)


@dataclass(frozen=True)
class MatrixMetric:
    """A metric that is read off the table."""

    name: str
    read: Callable[[Table], Outcome]
    version: int = 1
    requires: frozenset[str] = frozenset({"reference", "retrieved_contexts"})

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Ask about every sentence of the reference against every chunk."""
        statements = sentences(sample.reference or "")
        chunks = list(relevant_chunks(sample))
        if not statements:
            return Undefined(reason="the reference has no sentence")
        if not chunks:
            return Undefined(reason="the contexts have no chunk")
        verdicts = yield [
            Attribution(
                unit=Unit(kind="statement", index=index, source="reference", span=span, against=chunk.index),
                contexts=(chunk.span.text,),
                user_input=sample.user_input,
            )
            for index, span in enumerate(statements)
            for chunk in chunks
        ]
        labels = np.array([verdict.label for verdict in verdicts], dtype=bool)
        return self.read(labels.reshape(len(statements), len(chunks)))


def recall_at(k: int) -> MatrixMetric:
    """Recall over the first k chunks of the ranking."""
    return MatrixMetric(f"matrix_recall@{k}", partial(recall, first=k))


MATRIX_METRICS = (
    MatrixMetric("matrix_recall", recall),
    MatrixMetric("matrix_precision", precision),
    MatrixMetric("matrix_redundancy", redundancy),
)


def _ratio(numerator: int, denominator: int, detail: str | None = None) -> Scored:
    return Scored(value=numerator / denominator, numerator=numerator, denominator=denominator, detail=detail)
