"""Other ways of asking the same model, through llama-cpp-python's own interface.

    OneByOne    a completion for each statement in the words of localjudge, held to the same answers by a grammar
    Joint       a chat completion for all statements, held to JSON by llama.cpp's grammar
    ByOutlines  the same, held to JSON by Outlines
    Prefill     no question: the evaluation of as many tokens as ours evaluated

The first two keep what a prompt shares with the one before it; Outlines begins every call with an empty cache. The
model ends its answers as it likes: one that does not know how to end goes on until its context is full or time is up.
"""

import json
from collections.abc import Sequence
from typing import Any

import llama_cpp
from llama_cpp import Llama
from llama_cpp.llama_grammar import LlamaGrammar

from .cases import warm_up
from .joint_question import SCHEMA, joint_prompt, verdicts_in
from .order import Order, Work, gbnf


class CountingLlama(Llama):
    """Counts the tokens that are evaluated."""

    evaluated = 0

    def eval(self, tokens: Sequence[int]) -> None:
        """Evaluate the tokens."""
        self.evaluated += len(tokens)
        super().eval(tokens)

    @property
    def has_template(self) -> bool:
        """Whether its file says how to chat with it."""
        return "tokenizer.chat_template" in self.metadata


class Peer:
    """A way of asking through a `Llama`."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._llama = CountingLlama(
            order.path,
            n_ctx=order.n_ctx or 0,
            n_threads=order.threads,
            n_threads_batch=order.threads,
            n_gpu_layers=order.gpu_layers,
            verbose=False,
        )

    def ask(self) -> Work:
        """Judge the sample."""
        before = self._llama.evaluated
        verdicts, generated = self._judge()
        return Work(verdicts, self._llama.evaluated - before, generated)

    def close(self) -> None:
        """Free the model."""
        self._llama.close()

    def _judge(self) -> tuple[int, int]:
        """Verdicts, and tokens generated."""
        raise NotImplementedError


class OneByOne(Peer):
    """The prefix cache holds the contexts for the next statement."""

    def __init__(self, order: Order) -> None:
        grammar = gbnf(order.answers)
        super().__init__(order)
        self._grammar = LlamaGrammar.from_string(grammar, verbose=False)
        self._complete(order.warm_up[0])

    def _judge(self) -> tuple[int, int]:
        return len(self._order.prompts), sum(map(self._complete, self._order.prompts))

    def _complete(self, prompt: str) -> int:
        begins = prompt.encode().startswith(self._llama.detokenize([self._llama.token_bos()], special=True) or b"\0")
        tokens = self._llama.tokenize(prompt.encode(), add_bos=not begins, special=True)
        done: Any = self._llama.create_completion(tokens, temperature=0.0, max_tokens=None, grammar=self._grammar)
        said = done["choices"][0]["text"]
        if said not in self._order.answers:
            raise ValueError(f"{said!r} is no legal answer")
        return int(done["usage"]["completion_tokens"])


class Joint(Peer):
    """The prefix cache holds the instructions."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self._complete(joint_prompt(warm_up()), 1)

    def _judge(self) -> tuple[int, int]:
        case = self._order.case
        said, generated = self._complete(joint_prompt(case), None)
        return verdicts_in(said, len(case.tasks)), generated

    def _complete(self, prompt: str, most: int | None) -> tuple[str, int]:
        how: dict[str, Any] = {"temperature": 0.0, "max_tokens": most}
        done: Any
        if self._llama.has_template:
            schema: Any = {"type": "json_object", "schema": SCHEMA}
            message: Any = {"role": "user", "content": prompt}
            done = self._llama.create_chat_completion([message], response_format=schema, **how)
            said = done["choices"][0]["message"]["content"]
        else:
            grammar = LlamaGrammar.from_json_schema(json.dumps(SCHEMA), verbose=False)
            done = self._llama.create_completion(prompt, grammar=grammar, **how)
            said = done["choices"][0]["text"]
        return said, int(done["usage"]["completion_tokens"])


class ByOutlines(Peer):
    """With llguidance: the backend that Outlines takes by itself lets any text through where numba is missing."""

    def __init__(self, order: Order) -> None:
        import outlines
        from outlines.types import JsonSchema

        super().__init__(order)
        model = outlines.from_llamacpp(self._llama, chat_mode=self._llama.has_template)
        schema = json.dumps(SCHEMA)
        self._generators = [outlines.Generator(model, JsonSchema(schema), backend="llguidance") for _ in range(2)]
        self._complete(joint_prompt(warm_up()), 1)

    def _judge(self) -> tuple[int, int]:
        case = self._order.case
        said = self._complete(joint_prompt(case), None)
        return verdicts_in(said, len(case.tasks)), len(self._llama.tokenize(said.encode(), add_bos=False))

    def _complete(self, prompt: str, most: int | None) -> str:
        return str(self._generators.pop()(prompt, temperature=0.0, max_tokens=most))


class Prefill(Peer):
    """llama.cpp's own rate, from an empty cache, by prompts one after the other: about as fast as reading gets."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        text = "".join(order.prompts).encode()
        once = self._llama.tokenize(text, add_bos=False)
        self._tokens = (once * (order.tokens // len(once) + 1))[: order.tokens]
        self._evaluate(self._tokens[:32])

    def _judge(self) -> tuple[int, int]:
        room = self._llama.n_ctx()
        for start in range(0, len(self._tokens), room):
            self._evaluate(self._tokens[start : start + room])
        return len(self._order.case.tasks), 0

    def _evaluate(self, tokens: list[int]) -> None:
        self._llama.n_tokens = 0  # from an empty cache
        self._llama.eval(tokens)
        llama_cpp.llama_synchronize(self._llama.ctx)
