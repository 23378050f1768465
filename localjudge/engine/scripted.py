"""Engine with predefined answers, for tests of metrics, runs and user code.

    ScriptedEngine({"Paris is in France.": 0.97, "It rains.": 0.02}, default=0.5)

A script maps the last user text of a request (the statement, sentence or chunk), or is a function
of the request. It gives the probability of label 1, an error message, an `Answer` or a `NoAnswer`.
Stored answers are reused by an engine with the same script: a function with the same source code,
whose arguments, variables around it and attributes are the same texts, numbers, booleans and
tuples of them. What may change does not count: lists and other objects, a variable that the
function assigns (`nonlocal`), and attributes that begin with `_`. A function without source code is
identified by its name.
"""

import dis
import hashlib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from localjudge.engine.protocol import EngineStats
from localjudge.errors import ArgumentTypeError, InputError
from localjudge.types import NO_MODEL, Answer, ChatEnds, NoAnswer, Node, VerdictRequest, plain_value

_CHANGES = "STORE_DEREF"
"""The instruction that assigns a variable of the function around."""
Scripted = float | str | Answer | NoAnswer
Script = Mapping[str, Scripted] | Callable[[VerdictRequest], Scripted]


def unit_text(request: VerdictRequest) -> str:
    """Return the last user text of the request, except a custom question repeated after it."""
    texts_by_node: list[list[str]] = []
    last: list[str] = []
    for node in request.path:
        texts = [piece.text for piece in node if not piece.trusted]
        texts_by_node.append(texts)
        last = texts or last
    if not last:
        return ""
    question_follows = len(texts_by_node) > 1 and len(last) > 1 and last[-1] in texts_by_node[0]
    if question_follows:
        return last[-2]
    return last[-1]


class ScriptedEngine:
    """Answer from a mapping of unit texts, or a function of the request.

    One code point counts as one token. Raises InputError for a unit without an answer and for an
    invalid answer. `remember=False` leaves `asked` empty.
    """

    shares_prefixes = True
    memory_bytes = 0

    def __init__(
        self,
        script: Script,
        *,
        default: Scripted | None = None,
        capacity: int = 1_000_000,
        remember: bool = True,
    ) -> None:
        if not (callable(script) or isinstance(script, Mapping)):
            raise ArgumentTypeError(
                f"a script maps texts to answers, got {script!r:.80}",
                hint="pass {'It rains.': 0.9}, or a function",
            )
        self._remember = remember
        self._script = script
        self._default = default
        self._capacity = capacity
        self._asked: list[VerdictRequest] = []

    @property
    def asked(self) -> tuple[VerdictRequest, ...]:
        """All requests so far."""
        return tuple(self._asked)

    @property
    def identity(self) -> dict[str, Any]:
        """Hash of the script, and the name of a function without source code."""
        name_alone = ""
        script = self._script
        if isinstance(script, Mapping):
            answers = dict(script)
            source = json.dumps(answers, sort_keys=True, default=lambda answer: answer.model_dump())
        else:
            definition, values = _read_function(script)
            try:
                source = inspect.getsource(definition)
            except (OSError, TypeError):  # typed in a console, or not a function
                source = f"{definition.__module__}.{definition.__qualname__}"
                name_alone = f"{source} (known by name alone)"
            seen = {name: plain_value(value) for name, value in sorted(values.items())}
            if any(value is not None for value in seen.values()):
                source = f"{source}|{json.dumps(seen)}"
        content = f"{source}|{self._default}".encode("utf-8", "surrogatepass")
        identity = {"engine": "scripted", "script_sha256": hashlib.sha256(content).hexdigest()}
        if name_alone:
            identity["script"] = name_alone
        return identity

    @property
    def name(self) -> str:
        """Empty."""
        return ""

    @property
    def chat_ends(self) -> ChatEnds | None:
        """None."""
        return None

    @property
    def stats(self) -> EngineStats:
        """Zeros."""
        return EngineStats()

    @property
    def capacity(self) -> int:
        """See `Engine.capacity`."""
        return self._capacity

    def length(self, request: VerdictRequest) -> int:
        """Return the code points of all pieces."""
        return sum(map(_count_code_points, request.path))

    def distinct_tokens(self, requests: Sequence[VerdictRequest]) -> int:
        """Return the code points, with shared prefixes counted once."""
        beginnings: set[tuple[Node, ...]] = set()
        for request in requests:
            for length in range(1, len(request.path) + 1):
                beginnings.add(request.path[:length])
        return sum(_count_code_points(path[-1]) for path in beginnings)

    def answers(
        self, requests: Sequence[VerdictRequest]
    ) -> Iterator[tuple[int, Answer | NoAnswer]]:
        """Answer in the order of the requests."""
        for index, request in enumerate(requests):
            if self._remember:
                self._asked.append(request)
            yield index, self._answer(request)

    def _answer(self, request: VerdictRequest) -> Answer | NoAnswer:
        if self.length(request) > self.capacity:
            return NoAnswer(error=f"{self.length(request)} tokens do not fit {self.capacity}")
        scripted = self._look_up(request)
        match scripted:
            case Answer() | NoAnswer():
                return scripted
            case str():
                return NoAnswer(error=scripted)
            case float() | int() if 0 <= scripted <= 1:
                return Answer(p_yes=scripted, valid_mass=1.0, raw="")
        raise InputError(
            f"the script answers {scripted!r:.80} about {unit_text(request)!r:.80}",
            hint="give a probability from 0 to 1, the message of an error, an Answer or a NoAnswer",
        )

    def _look_up(self, request: VerdictRequest) -> Scripted:
        if callable(self._script):
            return self._script(request)
        unit = unit_text(request)
        for text in (unit, unit.removeprefix(" ")):  # some profiles add a space
            if text in self._script:
                return self._script[text]
        if self._default is None:
            raise InputError(
                f"the script contains no answer for {unit!r:.80}",
                hint="add it, or give a default",
            )
        return self._default

    def close(self) -> None:
        """Do nothing."""


class NoModel(ScriptedEngine):
    """Engine of a run whose metrics ask no question. It answers none."""

    def __init__(self) -> None:
        super().__init__({})

    @property
    def identity(self) -> dict[str, Any]:
        """The type of engine."""
        return {"engine": NO_MODEL}


def _read_function(script: Any) -> tuple[Any, dict[str, Any]]:
    """Return the function or class that answers, and the values that it sees, by name."""
    values: dict[str, Any] = {}
    if isinstance(script, partial):
        definition, values = _read_function(script.func)
        for number, value in enumerate(script.args):
            values[f"argument {number}"] = value
        return definition, values | script.keywords
    if inspect.ismethod(script):
        return script.__func__, _attributes(script.__self__)
    if inspect.isfunction(script):
        changed = {each.argval for each in dis.get_instructions(script) if each.opname == _CHANGES}
        for name, cell in zip(script.__code__.co_freevars, script.__closure__ or (), strict=True):
            with suppress(ValueError):  # it is still empty
                if name not in changed:
                    values[name] = cell.cell_contents
        defaults = script.__defaults__ or ()
        positional = script.__code__.co_varnames[: script.__code__.co_argcount]
        values |= zip(positional[len(positional) - len(defaults) :], defaults, strict=True)
        return script, values | (script.__kwdefaults__ or {})
    if hasattr(script, "__qualname__"):
        return script, values
    return type(script), _attributes(script)


def _attributes(script: object) -> dict[str, Any]:
    """Return the attributes of an object, without those that it keeps for itself."""
    attributes = getattr(script, "__dict__", {})
    return {name: value for name, value in attributes.items() if not name.startswith("_")}


def _count_code_points(node: Node) -> int:
    return sum(len(piece.text) for piece in node)
