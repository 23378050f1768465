"""Matrix metrics: every sentence of the reference against every retrieved chunk.

                chunk 1   chunk 2   chunk 3
    sentence 1     1         0         1        supported twice
    sentence 2     0         0         1        supported only by chunk 3: its marginal value
    sentence 3     0         0         0        not supported

    matrix_recall      sentences supported by any chunk / sentences                            2/3
    matrix_recall@k    sentences supported by any of the first k chunks / sentences        @1: 1/3
    matrix_precision   chunks that support any sentence / chunks                               2/3

`matrix_recall` also reports each chunk's marginal value: the share of sentences that only this
chunk supports. Unlike in `context_recall`, a sentence that needs two chunks together is
unsupported.

Source: RAGChecker's table of claims by chunks (Ru et al., 2024), with sentences as claims.

Empty cases: no sentence in the reference, or no chunk, is `Undefined`.
"""

from collections.abc import Callable
from functools import partial

from localjudge.metrics.metric import (
    About,
    BuiltIn,
    Sentences,
    Steps,
    SupportTable,
    against_each_chunk,
    chunks,
    support_table,
)
from localjudge.types import Sample, Scored, Undefined

_ARE_SUPPORTED = "are supported by a single document"
_ScoreTable = Callable[[SupportTable], Scored]


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
    return _matrix_metric(name, headline, counted, partial(_score_recall, k))


def matrix_precision() -> BuiltIn:
    """Share of chunks that support any sentence."""
    headline = "in an average sample, {} of the documents support a sentence of the right answer"
    counted = "contexts support a sentence of the reference"
    return _matrix_metric("matrix_precision", headline, counted, _score_precision)


def _matrix_metric(name: str, headline: str, counted: str, score: _ScoreTable) -> BuiltIn:
    """Return a metric computed from the table."""
    return BuiltIn(
        name,
        lambda sample, sentences: _steps(sample, sentences, score),
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


def _steps(sample: Sample, sentences: Sentences, score: _ScoreTable) -> Steps:
    statements = sentences(sample.reference or "")
    passages = list(chunks(sample))
    if not statements:
        return Undefined(reason="the reference has no sentence")
    if not passages:
        return Undefined(reason="the contexts have no chunk")
    verdicts = yield against_each_chunk(sample, "reference", statements, passages)
    return score(support_table(verdicts, len(statements), len(passages)))


def _score_recall(k: int | None, table: SupportTable) -> Scored:
    supported = Scored.fraction(table[:, :k].any(axis=1).astype(int).tolist())
    if k is not None:
        return supported
    has_one_chunk = table.sum(axis=1, keepdims=True) == 1
    marginal = (table & has_one_chunk).mean(axis=0)
    listed = ", ".join(f"{share:.3f}" for share in marginal)
    detail = f"marginal value by chunk: {listed}"
    return supported.model_copy(update={"detail": detail})


def _score_precision(table: SupportTable) -> Scored:
    return Scored.fraction(table.any(axis=0).astype(int).tolist())
