"""Four ways of asking one model about the statements of one sample.

Run as a program, it is the process for one way.

    ours            one forward pass per verdict, forked from the shared prefix
    prefill         evaluation of the same number of tokens as ours, from an empty cache
    one-by-one      one completion per statement, with the same prompt and a grammar for the same
                    answers
    llama-server    the same with llama.cpp's server

Each function loads the model, evaluates the instructions and returns the timed function, which
judges the sample and returns the number of verdicts. Both completion ways keep the shared prefix of
the previous prompt.

    argument    an order, in JSON; the end of stdin means that the bench has ended
    stdout      first the properties of the way, then its result, a line of JSON each
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection
from itertools import chain
from typing import Any, NamedTuple

import llama_cpp
from llama_cpp import Llama
from llama_cpp.llama_grammar import LlamaGrammar

from localjudge.errors import LocaljudgeError
from localjudge.judging.judges import SingleJudge, open_judge
from localjudge.judging.settings import RunSettings
from localjudge.types import Attribution, Grammar, NoAnswer, VerdictRequest

from .cases import Case, make_case, warm_up

_HOST = "127.0.0.1"
_START_SECONDS = 300
_ANSWER_TOKENS = 64
"""Upper limit for the length of an answer."""
Way = Callable[[], int]


class Order(NamedTuple):
    """One sample to judge in one way."""

    way: str
    judge: str
    """Argument for `--judge`."""
    path: str
    threads: int
    place: int = 0
    context: str = "short"
    tokens: int = 0
    """Tokens evaluated by our way, for raw prefill."""
    server: str = ""
    """The llama-server to start."""

    @property
    def case(self) -> Case:
        """The case to judge."""
        return make_case(self.place, self.context)


class Wording(NamedTuple):
    """localjudge's complete prompts, inside the model's chat template, with the settings."""

    warm_up: str
    prompts: list[str]
    answers: list[str]
    """Valid answers, empty if they cannot be listed."""
    prompt_tokens: int
    """Length of the longest prompt with its answer."""
    n_ctx: int
    gpu_layers: int


def _join_pieces(request: VerdictRequest) -> str:
    return "".join(piece.text for piece in chain.from_iterable(request.path))


def word(judge: SingleJudge, case: Case) -> Wording:
    """Return an open judge's prompts for a case."""
    requests = judge.prompts.requests([*warm_up().tasks, *case.tasks])
    first, *prompts = [_join_pieces(request) for request in requests]
    tokens = max(judge.engine.length(request) for request in requests[1:])
    layers = int(judge.engine.identity.get("gpu_layers", 0))
    return Wording(
        first,
        prompts,
        list_answers(requests[0].grammar),
        tokens,
        judge.engine.capacity,
        layers,
    )


def list_answers(grammar: Grammar) -> list[str]:
    """List all answers of a grammar if they differ only in the label; none if it has a reason."""
    labels = "|".join(grammar.labels)
    answers = [
        re.sub(r"\\(.)", r"\1", grammar.pattern.replace(f"({labels})", label))
        for label in grammar.labels
    ]
    answers = [text[1:-1] if text.startswith("(") else text for text in answers]
    return answers if all(re.fullmatch(grammar.pattern, text) for text in answers) else []


def gbnf(answers: list[str]) -> str:
    """Return the answers as a grammar of llama.cpp. Raises ValueError without any."""
    if not answers:
        raise ValueError(
            "this judge's answers cannot be listed, so a completion cannot be held to them"
        )
    escaped = (
        text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for text in answers
    )
    return "root ::= " + " | ".join(f'"{text}"' for text in escaped)


def ask_ours(judge: SingleJudge, tasks: tuple[Attribution, ...]) -> int:
    """Judge all statements in one call, as in a run."""
    answers = [answer for _, answer in judge.engine.answers(judge.prompts.requests(tasks))]
    failures = [answer.error for answer in answers if isinstance(answer, NoAnswer)]
    if failures:
        raise ValueError(f"a statement got no answer: {failures[0]}")
    return len(answers)


def prefill(order: Order, wording: Wording) -> Way:
    """Evaluate prompts one after the other."""
    llama = _load(order, wording)
    text = llama.tokenize("".join(wording.prompts).encode(), add_bos=False)
    tokens = (text * (order.tokens // len(text) + 1))[: order.tokens]

    def evaluate(part: list[int]) -> None:
        llama.n_tokens = 0  # from an empty cache
        llama.eval(part)
        llama_cpp.llama_synchronize(llama.ctx)

    def judge() -> int:
        for start in range(0, len(tokens), wording.n_ctx):
            evaluate(tokens[start : start + wording.n_ctx])
        return len(wording.prompts)

    evaluate(tokens[:32])
    return judge


def one_by_one(order: Order, wording: Wording) -> Way:
    """Ask one by one; the prefix cache keeps the contexts for the next statement."""
    grammar = LlamaGrammar.from_string(gbnf(wording.answers), verbose=False)
    llama = _load(order, wording)
    begin = llama.detokenize([llama.token_bos()], special=True) or b"\0"

    def complete(prompt: str) -> None:
        text = prompt.encode()
        tokens = llama.tokenize(text, add_bos=not text.startswith(begin), special=True)
        done: Any = llama.create_completion(
            tokens, temperature=0.0, max_tokens=None, grammar=grammar
        )
        _check(done["choices"][0]["text"], wording.answers)

    return _each(complete, wording)


def served(order: Order, wording: Wording) -> Way:
    """Use one slot of a server started for this sample; it ends with this process group."""
    with socket.socket() as free:
        free.bind((_HOST, 0))
        port: int = free.getsockname()[1]
    grammar = gbnf(wording.answers)
    threads = str(order.threads)
    layers = "999" if wording.gpu_layers < 0 else str(wording.gpu_layers)
    command = [order.server, "-m", order.path, "--host", _HOST, "--port", str(port)]
    command += ["-c", str(wording.n_ctx), "-t", threads, "-tb", threads, "-np", "1", "-ngl", layers]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + _START_SECONDS
    while not _is_ready(port):
        if server.poll() is not None or time.monotonic() > until:
            raise ValueError(
                f"{order.server} is not ready after {_START_SECONDS} s, "
                f"or ended: {server.returncode}"
            )
        time.sleep(0.1)
    how = {
        "grammar": grammar,
        "cache_prompt": True,
        "temperature": 0.0,
        "n_predict": _ANSWER_TOKENS,
    }

    def complete(prompt: str) -> None:
        status, answer = _request(
            port, "POST", "/completion", json.dumps({"prompt": prompt, **how})
        )
        content = str(answer)
        if status == HTTPStatus.OK:
            content = answer["content"]
        _check(content, wording.answers)

    return _each(complete, wording)


WAYS: dict[str, Callable[[Order, Wording], Way] | None] = {
    "ours": None,
    "prefill": prefill,
    "one-by-one": one_by_one,
    "llama-server": served,
}


def main(order: Order) -> None:
    """Carry out the order and report the result."""
    reports = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is not a report
    threading.Thread(target=_end_with_the_bench, daemon=True).start()
    stack = ExitStack()
    ours = open_judge(order.judge, RunSettings(threads=order.threads))
    stack.callback(ours.close)
    wording = word(ours, order.case)
    make = WAYS[order.way]
    if make:
        stack.close()  # one model in memory at a time
        way = make(order, wording)
    else:
        ask_ours(ours, warm_up().tasks)
        way = partial(ask_ours, ours, order.case.tasks)
    print(json.dumps({"prompt_tokens": wording.prompt_tokens}), file=reports, flush=True)
    evaluated_before = ours.stats.evaluated_tokens
    started = time.perf_counter()
    verdicts = way()
    seconds = time.perf_counter() - started
    evaluated = ours.stats.evaluated_tokens - evaluated_before
    print(
        json.dumps({"seconds": seconds, "verdicts": verdicts, "evaluated": evaluated}),
        file=reports,
        flush=True,
    )


def _load(order: Order, wording: Wording) -> Llama:
    return Llama(
        order.path,
        n_ctx=wording.n_ctx,
        n_gpu_layers=wording.gpu_layers,
        n_threads=order.threads,
        n_threads_batch=order.threads,
        verbose=False,
    )


def _each(complete: Callable[[str], None], wording: Wording) -> Way:
    def judge() -> int:
        for prompt in wording.prompts:
            complete(prompt)
        return len(wording.prompts)

    complete(wording.warm_up)
    return judge


def _check(answer: str, answers: list[str]) -> None:
    if answer not in answers:
        raise ValueError(f"{answer[:200]!r} is not a valid answer")


def _is_ready(port: int) -> bool:
    with suppress(ConnectionError):
        return _request(port, "GET", "/health")[0] == HTTPStatus.OK
    return False


def _request(
    port: int, method: str, path: str, body: str | None = None
) -> tuple[int, dict[str, Any]]:
    connection = HTTPConnection(_HOST, port)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def _end_with_the_bench() -> None:
    """End this process and its server when the bench is killed."""
    while os.read(0, 1):  # not through `sys.stdin`, whose lock would be held when this process ends
        pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    try:
        main(Order(*json.loads(sys.argv[1])))
    except LocaljudgeError as error:
        sys.exit(error.in_one_line)
