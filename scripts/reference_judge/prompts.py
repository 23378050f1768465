"""Words a labelled example as the judge is asked: the same pieces as the prompt profile `reference`."""

from collections.abc import Sequence

from . import vocabulary as names
from .vocabulary import Vocabulary

FORCED_ATTRIBUTION, FORCED_RELEVANCE = '{"attributed":', '{"relevant":'


def attribution(vocabulary: Vocabulary, contexts: Sequence[str], statement: str) -> list[int]:
    """Token ids of "can this statement be attributed to these contexts?"."""
    given = [token for context in contexts for token in _part(vocabulary, names.CONTEXT, context)]
    return [*given, *_part(vocabulary, names.STATEMENT, statement), *_answer(vocabulary, FORCED_ATTRIBUTION)]


def relevance(vocabulary: Vocabulary, contexts: Sequence[str], question: str, judged: str) -> list[int]:
    """Token ids of "is this sentence needed to answer the question?", or this chunk, which is shown no contexts."""
    given = [token for context in contexts for token in _part(vocabulary, names.CONTEXT, context)]
    asked = _part(vocabulary, names.QUESTION, question)
    return [*given, *asked, *_part(vocabulary, names.SENTENCE, judged), *_answer(vocabulary, FORCED_RELEVANCE)]


def _part(vocabulary: Vocabulary, marker: str, text: str) -> list[int]:
    return [vocabulary.ids[marker], *vocabulary.tokenizer.encode(text)]


def _answer(vocabulary: Vocabulary, forced: str) -> list[int]:
    return _part(vocabulary, names.ANSWER, forced)
