"""Other ways of asking the same model, through llama-cpp-python's own interface.

    joint       one chat completion for all statements of a sample, a worked example first, as RAGAS asks
    outlines    the same through an Outlines generator
    one_by_one  one chat completion for each statement
    prefill     no question: only the evaluation of as many tokens as localjudge evaluated

A model with random weights would never end a free answer. So each answer is fixed by a grammar of its own: the one that
a good model would give, every statement verbatim with a reason of twenty words and a label. llama.cpp samples it token
by token, as it would any other; the logits are made to prefer the tokens in which the tokenizer writes that answer.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import llama_cpp
from llama_cpp import Llama
from llama_cpp.llama_grammar import LlamaGrammar

from localjudge.judge import prompts
from localjudge.judge.prompt_writer import PromptWriter

from .cases import Case
from .cost import Cost

REASON = (
    "The passage says this in so many words where it tells of the time and place, and nothing there contradicts it."
)
_CERTAIN = 1e4
_INSTRUCTIONS = """\
You are given a question, a context and an answer. Go through the sentences of the answer one after the other and \
decide for each whether it can be attributed to the context. Use 1 for yes and 0 for no, and give a reason. Reply with \
JSON that follows this schema and nothing else:
{"type": "object", "properties": {"classifications": {"type": "array", "items": {"type": "object", "properties": \
{"statement": {"type": "string", "description": "a sentence of the answer, word for word"}, "reason": {"type": \
"string", "description": "why it can or cannot be attributed"}, "attributed": {"type": "integer", "description": "1 \
or 0"}}, "required": ["statement", "reason", "attributed"]}}}, "required": ["classifications"]}

Example
Input: {"question": "What is known about the Danube?", "context": "The Danube is a river in Europe, the second \
longest after the Volga. It rises in the Black Forest in Germany, flows through ten countries, more than any other \
river in the world, and ends in the Black Sea. Its drainage basin covers 817,000 square kilometres and reaches into \
nine more countries. Its length is about 2,850 kilometres.", "answer": "The Danube rises in the Black Forest. It is \
about 2,850 kilometres long. It passes through ten countries. It was first mapped by Dutch sailors in 1712."}
Output: {"classifications": [{"statement": "The Danube rises in the Black Forest.", "reason": "The context states \
that the river rises in the Black Forest in Germany.", "attributed": 1}, {"statement": "It is about 2,850 kilometres \
long.", "reason": "The context gives this very length.", "attributed": 1}, {"statement": "It passes through ten \
countries.", "reason": "The context states that it flows through ten countries.", "attributed": 1}, {"statement": "It \
was first mapped by Dutch sailors in 1712.", "reason": "The context does not speak of maps or sailors.", \
"attributed": 0}]}

Now do the same for this input.
"""


class CountingLlama(Llama):
    """Counts the tokens that are evaluated, and prefers the tokens of an expected answer."""

    evaluated = 0
    _expected: Iterator[int] = iter(())

    def expect(self, answer: str) -> int:
        """Prefer the tokens of this answer in the next completion; how many they are."""
        tokens = self.tokenize(answer.encode(), add_bos=False)
        self._expected = iter(tokens)
        return len(tokens)

    def eval(self, tokens: Sequence[int]) -> None:
        """Evaluate the tokens."""
        self.evaluated += len(tokens)
        super().eval(tokens)
        for wanted in islice(self._expected, 1):
            logits = llama_cpp.llama_get_logits_ith(self.ctx, -1)
            logits[wanted] = _CERTAIN


class Peer:
    """A way of asking, with a model of its own so that its prefix cache stays warm."""

    def __init__(self, name: str, path: str, *, n_ctx: int, threads: int) -> None:
        self.name = name
        self.costs: defaultdict[str, Cost] = defaultdict(Cost)
        self._llama = CountingLlama(path, n_ctx=n_ctx, n_threads=threads, n_threads_batch=threads, verbose=False)

    def warm_up(self, case: Case) -> None:
        """Fill the prefix cache with the instructions; nothing is counted."""
        self.ask(case)
        self.costs.clear()

    def ask(self, case: Case) -> None:
        """Judge one sample and count what it cost."""
        cost = self.costs[case.source]
        before = self._llama.evaluated
        with cost.counting():
            generated = self._answer(case)
        cost.evaluated += self._llama.evaluated - before
        cost.generated += generated

    def close(self) -> None:
        """Free the model."""
        self._llama.close()

    def _answer(self, case: Case) -> int:
        """Tokens generated."""
        raise NotImplementedError

    def _complete(self, prompt: str, answer: str) -> int:
        generated = self._llama.expect(answer)
        grammar = LlamaGrammar.from_string(f"root ::= {json.dumps(answer, ensure_ascii=False)}", verbose=False)
        done: Any = self._llama.create_chat_completion(
            [{"role": "user", "content": prompt}], temperature=0.0, grammar=grammar
        )
        said = done["choices"][0]["message"]["content"]
        if said != answer:
            raise RuntimeError(f"asked for {answer!r}, got {said!r}")
        return generated


class Joint(Peer):
    """All statements of a sample in one answer."""

    def _answer(self, case: Case) -> int:
        return self._complete(joint_prompt(case), joint_answer(case))


class OneByOne(Peer):
    """A call for each statement in the words of localjudge: the prefix cache holds the context for the next one."""

    def _answer(self, case: Case) -> int:
        requests = PromptWriter(prompts.load("instruct")).requests(case.tasks)
        asked = ["".join(piece.text for node in request.path for piece in node) for request in requests]
        return sum(self._complete(prompt, '{"attributed":1}') for prompt in asked)


class ByOutlines(Peer):
    """The joint question through Outlines, which begins every call with an empty cache."""

    def __init__(self, name: str, path: str, *, n_ctx: int, threads: int) -> None:
        import outlines

        super().__init__(name, path, n_ctx=n_ctx, threads=threads)
        self._model = outlines.from_llamacpp(self._llama)

    def _answer(self, case: Case) -> int:
        from outlines import Generator
        from outlines.types import Regex

        answer = joint_answer(case)
        generated = self._llama.expect(answer)
        generator = Generator(self._model, Regex(re.escape(answer)), backend="llguidance")
        said = generator(joint_prompt(case), temperature=0.0, max_tokens=None)
        if said != answer:
            raise RuntimeError(f"asked for {answer!r}, got {said!r}")
        return generated


class Prefill:
    """llama.cpp's own rate: plain evaluation of a text from an empty cache."""

    def __init__(self, name: str, path: str, *, n_ctx: int, threads: int) -> None:
        self.name = name
        self.costs: defaultdict[str, Cost] = defaultdict(Cost)
        self._llama = Llama(path, n_ctx=n_ctx, n_threads=threads, n_threads_batch=threads, verbose=False)

    def evaluate(self, text: str, count: int, source: str) -> None:
        """Evaluate `count` tokens of the text, repeated as often as it takes."""
        cost = self.costs[source]
        once = self._llama.tokenize(text.encode(), add_bos=False)
        tokens = (once * (count // len(once) + 1))[:count]
        self._llama.n_tokens = 0
        with cost.counting():
            self._llama.eval(tokens)
            llama_cpp.llama_synchronize(self._llama.ctx)
        cost.evaluated += count

    def close(self) -> None:
        """Free the model."""
        self._llama.close()


def joint_prompt(case: Case) -> str:
    """Instructions and example first, then what differs from sample to sample."""
    asked = {"question": case.sample.user_input, "context": _context(case), "answer": case.sample.reference}
    return f"{_INSTRUCTIONS}Input: {json.dumps(asked, ensure_ascii=False)}\nOutput: "


def joint_answer(case: Case) -> str:
    """What a good model would say."""
    entries = [{"statement": task.unit.span.text, "reason": REASON, "attributed": 1} for task in case.tasks]
    return json.dumps({"classifications": entries}, ensure_ascii=False)


def _context(case: Case) -> str:
    return "\n".join(context.text for context in case.sample.retrieved_contexts or ())
