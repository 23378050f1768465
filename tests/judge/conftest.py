"""What the tests of prompts share."""

from localjudge.types import Span, Unit

_SOURCES = {"statement": "reference", "question": "user_input", "response": "response"}


def unit(kind: str, text: str) -> Unit:
    """The first of its kind, from the part of a sample where such a one comes from."""
    source = _SOURCES.get(kind, "retrieved_contexts")
    return Unit.model_validate({"kind": kind, "index": 0, "source": source, "span": Span.whole(text)})
