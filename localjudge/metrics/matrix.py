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

The expected score takes the largest probability of a row (of a column) where the counted one asks
whether any of them is 1, as for windows of a long text.

Empty cases: no sentence in the reference, or no chunk, is `Undefined`.
"""

from collections.abc import Callable, Generator, Sequence
from math import fsum

from localjudge.metrics.metric import (
    About,
    BuiltIn,
    Sentences,
    Steps,
    SupportTable,
    against_each_chunk,
    chunks,
    labels_of,
    support_table,
    units_of,
)
from localjudge.types import Sample, Scored, Task, Undefined, Unit, Verdict

_ARE_SUPPORTED = "are supported by a single document"
_SupportOfEach = Callable[[SupportTable], SupportTable]
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
        shares = support(support_table(units, values, "reference"))
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
) -> Generator[Sequence[Task], Sequence[Verdict], SupportTable | Undefined]:
    statements = sentences(sample.reference or "")
    passages = list(chunks(sample))
    if not statements:
        return Undefined(reason="the reference has no sentence")
    if not passages:
        return Undefined(reason="the contexts have no chunk")
    tasks = against_each_chunk(sample, "reference", statements, passages)
    verdicts = yield tasks
    return support_table(units_of(tasks), labels_of(verdicts), "reference")
