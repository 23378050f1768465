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

from abc import ABC, abstractmethod
from dataclasses import dataclass

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
_ABOUT = About(
    question="sentence of the reference: can it be attributed to this single context?",
    unit="sentences of the reference x contexts",
    source="RAGChecker",
)


class MatrixMetric(BuiltIn, ABC):
    """A metric computed from the table."""

    required_fields = frozenset({"reference", "retrieved_contexts"})
    common_tasks = frozenset({"attribution"})

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        statements = sentences(sample.reference or "")
        passages = list(chunks(sample))
        if not statements:
            return Undefined(reason="the reference has no sentence")
        if not passages:
            return Undefined(reason="the contexts have no chunk")
        verdicts = yield against_each_chunk(sample, "reference", statements, passages)
        return self.score(support_table(verdicts, len(statements), len(passages)))

    @abstractmethod
    def score(self, table: SupportTable) -> Scored:
        """Compute the outcome."""


@dataclass(frozen=True)
class MatrixRecall(MatrixMetric):
    """Share of sentences supported by any of the first k chunks.

    If `k` is None, by any chunk, with the marginal value of each chunk as detail.
    """

    k: int | None = None

    @property
    def name(self) -> str:
        if self.k is None:
            return "matrix_recall"
        return f"matrix_recall@{self.k}"

    @property
    def about(self) -> About:
        headline = f"in an average right answer, {{}} of the sentences {_ARE_SUPPORTED}"
        if self.k is not None:
            headline += f" among the first {self.k}"
        return _ABOUT._replace(
            headline=headline,
            counted="sentences of the reference supported by a context",
        )

    def score(self, table: SupportTable) -> Scored:
        supported = Scored.fraction(table[:, : self.k].any(axis=1).astype(int).tolist())
        if self.k is not None:
            return supported
        has_one_chunk = table.sum(axis=1, keepdims=True) == 1
        marginal = (table & has_one_chunk).mean(axis=0)
        listed = ", ".join(f"{share:.3f}" for share in marginal)
        detail = f"marginal value by chunk: {listed}"
        return supported.model_copy(update={"detail": detail})


@dataclass(frozen=True)
class MatrixPrecision(MatrixMetric):
    """Share of chunks that support any sentence."""

    name = "matrix_precision"
    about = _ABOUT._replace(
        headline="in an average sample, {} of the documents support a sentence of the right answer",
        counted="contexts support a sentence of the reference",
    )

    def score(self, table: SupportTable) -> Scored:
        return Scored.fraction(table.any(axis=0).astype(int).tolist())
