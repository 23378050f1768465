"""Steps before evaluation that all engines share.

They find equal requests, tokenize nodes and refuse long prompts.
"""

from collections.abc import Sequence

from localjudge.engine.tokens import Vocabulary
from localjudge.errors import SampleError
from localjudge.types import Node, VerdictRequest
from localjudge.words import option_name


def equal_requests(requests: Sequence[VerdictRequest]) -> list[list[int]]:
    """Return the indices of equal requests together, in the order of their first."""
    equal: dict[tuple[tuple[Node, ...], str], list[int]] = {}
    for index, request in enumerate(requests):
        equal.setdefault((request.path, request.shape), []).append(index)
    return list(equal.values())


def start_of_prompts(vocabulary: Vocabulary, *, begin_of_text: bool) -> tuple[int, ...]:
    """Return the tokens at the start of every prompt."""
    if begin_of_text and vocabulary.begin is not None:
        return (vocabulary.begin,)
    return ()


def tokenize_node(vocabulary: Vocabulary, node: Node) -> tuple[int, ...]:
    """Tokenize a node.

    Raises SampleError if the model cannot be shown a text of the user unchanged.
    """
    tokens: list[int] = []
    for piece in node:
        if piece.trusted:
            tokens += vocabulary.trusted(piece.text)
        else:
            tokens += vocabulary.user(piece.text)
    return tuple(tokens)


def require_room(tokens: int, capacity: int, trained: int, beginning: str) -> None:
    """Raise SampleError, with this beginning, for more tokens than the judge's context.

    The hint names a larger context only if the model was `trained` with enough tokens.
    """
    if tokens <= capacity:
        return
    remedy = f"name a model with a larger context than {trained} tokens, or shorten the text"
    if tokens <= trained:
        remedy = f"ask for a larger context, of up to {trained} tokens, with {option_name('n_ctx')}"
    raise SampleError(
        f"{beginning} {tokens} tokens, and the judge's context holds {capacity}", hint=remedy
    )
