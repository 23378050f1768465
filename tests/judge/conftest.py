from localjudge.metrics import Span, Unit

_SOURCES = {"statement": "reference", "question": "user_input", "response": "response"}


def unit(kind: str, text: str) -> Unit:
    """Return the first unit of a kind, from the field of the sample that it belongs to."""
    source = _SOURCES.get(kind, "retrieved_contexts")
    return Unit.model_validate(
        {"kind": kind, "index": 0, "source": source, "span": Span.whole(text)}
    )
