"""What a run computes if no metric is named: as few verdicts as give a first picture of the data, and no more.

    was what is needed retrieved?      context_recall       or, without a reference: context_relevancy_chunk
    does the response keep to it?      faithfulness
    does the response answer?          answer_correctness   or, without a reference: answer_relevancy
    which documents were retrieved?    all document metrics, which ask nothing

One metric for each question: the first that the data has the columns for. Where ground-truth documents tell of the
retrieval, context_relevancy_chunk is not asked for. Sentences of references and responses are few; those of contexts
are many, so context_relevancy is computed on request: on a typical file it alone asked most of all verdicts. Without a
reference these three are the "RAG triad" of TruLens.
"""

from collections.abc import Collection

_QUESTIONS = (
    ("context_recall", "context_relevancy_chunk"),
    ("faithfulness",),
    ("answer_correctness", "answer_relevancy"),
)
_DOCUMENTS = (
    "document_recall_single_hit",
    "document_recall_multi_hit",
    "document_mrr",
    "document_map",
    "document_ndcg",
)
_BESIDE_DOCUMENTS = "context_relevancy_chunk"
FIRST_CHOICES = (*(names[0] for names in _QUESTIONS), *_DOCUMENTS)
"""What is computed of data that has every column; a run says what it lacks for the others."""
ALL_CHOICES = (*(name for names in _QUESTIONS for name in names), *_DOCUMENTS)


def first_picture(possible: Collection[str]) -> tuple[str, ...]:
    """The metrics to compute, of those that are possible."""
    documents = [name for name in _DOCUMENTS if name in possible]
    asked = [next((name for name in names if name in possible), None) for names in _QUESTIONS]
    return tuple(name for name in (*asked, *documents) if name and not (documents and name == _BESIDE_DOCUMENTS))
