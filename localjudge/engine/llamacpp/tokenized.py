"""From requests to tokens: the path of one answer, its forced beginning put behind the prompt.

    pieces     "Decide ..." (ours)   "Paris ..." (user's)   "<|im_end|>..." (ours)
    path       [begin] tokens ...    tokens ...             tokens ... {"attributed":

Every piece is tokenized by itself and remembered: a context that is asked a hundred questions is tokenized once.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import NamedTuple

from localjudge.engine.llamacpp.constraint import CompiledGrammar, Constraints
from localjudge.engine.llamacpp.tokenizer import Vocabulary
from localjudge.engine.planner import TokenPath, by_question, depth_first, distinct_tokens
from localjudge.errors import SampleError
from localjudge.types import Answer, NoAnswer, Piece, VerdictRequest

_NODES_KEPT = 4096


class TokenizedRequest(NamedTuple):
    """One answer to decode: the prompt with the answer's forced beginning, and the answer's grammars."""

    path: TokenPath
    grammar: CompiledGrammar
    explanation: CompiledGrammar | None

    @property
    def longest(self) -> int:
        """Tokens of the prompt and the longest legal answer, up to its last decision."""
        prompt = sum(map(len, self.path)) - len(self.grammar.start.forced)
        return prompt + (self.explanation or self.grammar).longest


Tokenize = Callable[[VerdictRequest], TokenizedRequest]
"""Raises SampleError for a request that cannot be asked."""


class TokenizedQuestions:
    """Requests in tokens, those that one answer serves together; some cannot be asked."""

    def __init__(self, requests: Sequence[VerdictRequest], tokenize: Tokenize) -> None:
        self._requests = requests
        self._distinct: list[TokenizedRequest] = []
        self._askers: list[list[int]] = []
        self.refused: list[tuple[int, NoAnswer]] = []
        """Requests that cannot be asked, by their index, and why."""
        for indices in by_question(requests):
            try:
                self._distinct.append(tokenize(requests[indices[0]]))
                self._askers.append(indices)
            except SampleError as error:
                self.refused += [(index, NoAnswer(error=error.in_one_line)) for index in indices]
        self._paths = [tokenized.path for tokenized in self._distinct]

    @property
    def distinct_tokens(self) -> int:
        """Tokens of the tree that they form; what cannot be asked counts nothing."""
        return distinct_tokens(self._paths)

    def answers(
        self, decode: Callable[[TokenizedRequest], tuple[Answer, ...] | NoAnswer]
    ) -> Iterator[tuple[int, Answer | NoAnswer]]:
        """The answer to each request that can be asked, with its index; what is asked twice is decoded once."""
        for place in depth_first(self._paths):
            answers = decode(self._distinct[place])
            for index in self._askers[place]:
                yield index, answers if isinstance(answers, NoAnswer) else answers[self._requests[index].entry]


def tokens_to_evaluate(requests: Sequence[VerdictRequest], tokenize: Tokenize) -> int:
    """Tokens of the tree that the requests form; what the model cannot be shown counts nothing."""
    paths = []
    for request in requests:
        with suppress(SampleError):
            paths.append(tokenize(request).path)
    return distinct_tokens(paths)


class RequestTokenizer:
    """Tokenizes requests for one vocabulary. `begin_of_text`: whether prompts start with its begin token, if any."""

    def __init__(self, vocabulary: Vocabulary, *, begin_of_text: bool) -> None:
        self._vocabulary = vocabulary
        self.size = vocabulary.size
        """How many tokens the vocabulary has."""
        self.constraints = Constraints(vocabulary)
        self.begin = (vocabulary.begin,) if begin_of_text and vocabulary.begin is not None else ()
        self._node = lru_cache(maxsize=_NODES_KEPT)(partial(_tokenized, vocabulary))

    def tokenize(self, request: VerdictRequest) -> TokenizedRequest:
        """The request in tokens.

        Raises SampleError for text that the model cannot be shown, ModelError if its tokens cannot write the answers.
        """
        nodes = [self._node(node) for node in request.path]
        if self.begin and nodes[0][:1] != self.begin:
            nodes[0] = self.begin + nodes[0]
        grammar = self.constraints.compile(request.grammar)
        nodes[-1] += grammar.start.forced
        explanation = self.constraints.compile(request.explanation) if request.explanation else None
        return TokenizedRequest(tuple(nodes), grammar, explanation)

    def read_back(self, request: VerdictRequest) -> str | None:
        """The prompt as its tokens spell it, without the answer and the begin token that was put in front.

        None for a vocabulary that folds case or accents. Raises SampleError for what the model cannot be shown.
        """
        vocabulary = self._vocabulary
        if not vocabulary.exact:
            return None
        path, grammar, _ = self.tokenize(request)
        tokens = [token for node in path for token in node]
        spelled = vocabulary.decode(tokens[: len(tokens) - len(grammar.start.forced)]).decode(errors="replace")
        begin = vocabulary.decode(list(self.begin)).decode(errors="replace")
        is_written = request.path[0][0].text.startswith(begin)  # by the chat template: no other was put in front
        return spelled if is_written else spelled.removeprefix(begin)


def _tokenized(vocabulary: Vocabulary, node: tuple[Piece, ...]) -> tuple[int, ...]:
    return tuple(
        token
        for piece in node
        for token in (vocabulary.trusted(piece.text) if piece.trusted else vocabulary.user(piece.text))
    )
