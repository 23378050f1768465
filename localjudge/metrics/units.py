"""What several metrics share: sentences and chunks as units, and the tasks that hold one against the other."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from localjudge.metrics.metric import Sentences
from localjudge.types import Against, Attribution, Sample, Span, Unit, Verdict, context_texts

SupportTable = NDArray[np.bool_]
"""Shape (sentences, chunks): does the chunk support the sentence."""

_Source = Literal["reference", "response"]


def chunks(sample: Sample) -> Iterator[Unit]:
    """Each retrieved context that is not blank, whole."""
    for position, text in enumerate(context_texts(sample.retrieved_contexts)):
        if text.strip():
            span = Span.whole(text)
            yield Unit(kind="chunk", index=position, source="retrieved_contexts", source_index=position, span=span)


def attributed_sentences(sample: Sample, source: _Source, sentences: Sentences) -> Sequence[Attribution]:
    """One attribution task for each sentence of the field, against all retrieved contexts."""
    contexts = context_texts(sample.retrieved_contexts)
    return [_attribution(sample, source, placed, contexts) for placed in enumerate(sentences(_text(sample, source)))]


def nothing_retrieved(sample: Sample) -> str | None:
    """Why no statement could be attributed to anything, if there is no context text."""
    return None if any(text.strip() for text in context_texts(sample.retrieved_contexts)) else "no context text"


def against_reference(sample: Sample, statements: Sequence[Span]) -> list[Attribution]:
    """One attribution task for each sentence of the response, against the reference."""
    contexts = (_text(sample, "reference"),)
    return [_attribution(sample, "response", placed, contexts, "reference") for placed in enumerate(statements)]


def against_response(sample: Sample, statements: Sequence[Span], *, said: bool) -> list[Attribution]:
    """One attribution task for each sentence of the reference, against the response, or nothing if none was `said`."""
    contexts = (_text(sample, "response"),) if said else ()
    return [_attribution(sample, "reference", placed, contexts, "response") for placed in enumerate(statements)]


def against_each_chunk(
    sample: Sample, source: _Source, statements: Sequence[Span], passages: Sequence[Unit]
) -> list[Attribution]:
    """One attribution task for each sentence of the field and each chunk alone, sentence by sentence."""
    return [
        _attribution(sample, source, placed, (chunk.span.text,), chunk.index)
        for placed in enumerate(statements)
        for chunk in passages
    ]


def _attribution(
    sample: Sample, source: _Source, placed: tuple[int, Span], contexts: tuple[str, ...], against: Against = None
) -> Attribution:
    """Can the sentence of the field, with its number, be attributed to the contexts?"""
    index, span = placed
    unit = Unit(kind="statement", index=index, source=source, span=span, against=against)
    return Attribution(unit=unit, contexts=contexts, user_input=sample.user_input)


def _text(sample: Sample, source: _Source) -> str:
    return getattr(sample, source) or ""


def support_table(verdicts: Iterable[Verdict], rows: int, columns: int) -> SupportTable:
    """The next `rows * columns` verdicts as a table, row by row. Raises ValueError if there are fewer."""
    labels = [verdict.label for verdict in islice(verdicts, rows * columns)]
    return np.array(labels, dtype=bool).reshape(rows, columns)
