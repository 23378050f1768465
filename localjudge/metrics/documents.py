"""What the document metrics share: they compare documents, and ask no judge.

Two documents are the same if their *comparison values* are equal: their text (`content`), their `id`, or a value of
their meta (`meta.a.b` reaches into objects). A document that lacks the value has None and matches nothing.

Documents of which nothing but the id is known can only be compared by it. Where they meet documents without ids, or are
compared by content, the metric is `Undefined`: that they do not match says nothing of the retrieval.

Semantics and numbers are those of Haystack's evaluators (haystack-ai, `haystack.components.evaluators`), float for
float: a test runs both. Two differences: a comparison value that is a list may be used with every metric (there only
with MRR and MAP), and a negative relevance is an error (there NDCG leaves [0, 1]).
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, NamedTuple

from localjudge.errors import SampleError, UsageError
from localjudge.metrics.about import About
from localjudge.metrics.metric import Metric, Sentences, Steps
from localjudge.metrics.naming import with_options
from localjudge.types import Context, Outcome, Sample, Scored, Undefined

ScoreRanking = Callable[[Sequence[Context], Sequence[Context], str], Scored]
"""Scores one question: ground truth, retrieved in their order, and by what they are compared.

Raises ValueError for documents that it cannot score.
"""


class RankingMeasure(NamedTuple):
    """A formula for the ranking of one question, the name of the metric that it makes, and what that counts."""

    name: str
    score: ScoreRanking
    counts: str = ""


@dataclass(frozen=True)
class DocumentMetric:
    """A measure as a metric of samples. Raises UsageError for a comparison value that no document has."""

    measure: RankingMeasure
    _: KW_ONLY
    compare_by: str = "content"
    version = 1
    required_fields = frozenset({"retrieved_contexts", "reference_contexts"})
    about = About(
        asks="retrieved against ground-truth documents: which were found, and how early?",
        verdicts="none",
        source="Haystack's document evaluators",
    )

    def __post_init__(self) -> None:
        if problem := _problem_with(self.compare_by):
            raise UsageError(problem, hint="meta.a.b reaches the value of b in the object a of the meta")

    @property
    def name(self) -> str:
        """`document_map`, `document_map(compare_by=id)`."""
        return with_options(self.measure.name, self)

    @property
    def counts(self) -> str:
        """What the fraction is of."""
        return self.measure.counts

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Ask nothing. A 0 that means "nothing to compare" says so. Raises SampleError from the measure."""
        yield from ()
        return self._outcome(sample)

    def _outcome(self, sample: Sample) -> Outcome:
        truths, retrieved = sample.reference_contexts, sample.retrieved_contexts
        if truths is None or retrieved is None:
            field = "reference_contexts" if truths is None else "retrieved_contexts"
            return Undefined(reason=f"{field} is null")
        bare = truths and retrieved and any(document.text is None for document in (*truths, *retrieved))
        if bare and (nothing := _nothing_to_compare(truths, retrieved, self.compare_by)):
            return Undefined(reason=f"{nothing}, and of some only the id is known")
        try:
            scored = self.measure.score(truths, retrieved, self.compare_by)
        except ValueError as error:
            raise SampleError(f"sample {sample.id}: {error}") from error
        if scored.value or scored.detail:
            return scored
        return scored.model_copy(update={"detail": _nothing_to_compare(truths, retrieved, self.compare_by)})


def by_id_without_texts(metric: Metric) -> Metric:
    """A document metric that would compare texts, comparing ids instead; any other metric as it is."""
    if isinstance(metric, DocumentMetric) and metric.compare_by == "content":
        return replace(metric, compare_by="id")
    return metric


def comparison_values(documents: Sequence[Context], compare_by: str) -> list[Any]:
    """Comparison value of each document: shape (documents,), None where it lacks one."""
    return [_comparison_value(document, compare_by) for document in documents]


def unique(values: Sequence[Any], *, ignored: tuple[Any, ...] = (None,)) -> list[Any]:
    """The values without repetition, in their order. They need not be hashable."""
    found: list[Any] = []
    for value in values:
        if value not in ignored and value not in found:
            found.append(value)
    return found


def _problem_with(compare_by: str) -> str | None:
    """What is wrong with the name of a comparison value."""
    if compare_by in {"content", "id"} or compare_by.startswith("meta."):
        return None
    return f"documents cannot be compared by {compare_by!r}: use content, id or meta.KEY"


def _comparison_value(document: Context, compare_by: str) -> Any:
    if compare_by == "content":
        return document.text
    if compare_by == "id":
        return document.id
    value: Any = document.meta
    for key in compare_by.removeprefix("meta.").split("."):
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return value


def _nothing_to_compare(truths: Sequence[Context], retrieved: Sequence[Context], compare_by: str) -> str | None:
    for documents, none_given, what in (
        (truths, "there is no ground truth", "ground-truth"),
        (retrieved, "nothing was retrieved", "retrieved"),
    ):
        if not documents:
            return none_given
        if not unique(comparison_values(documents, compare_by), ignored=(None, "")):
            return f"no {what} document has {compare_by}"
    return None
