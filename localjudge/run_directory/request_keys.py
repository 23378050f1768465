"""Keys of requests and of the nodes of their prompts, for storing each answer once.

node key     sha256 of its pieces: text, and whether it is trusted
request key  sha256 of (engine identity, keys of the nodes root first, shape of the answer)
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any, NamedTuple

from localjudge.types import ClassifierReading, Grammar, VerdictRequest

_NODES_KEPT = 8_192
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


class KeyedRequest(NamedTuple):
    """A request with its key, its nodes' keys, and the shape of its answer as JSON."""

    key: str
    node_keys: tuple[str, ...]
    shape: str
    request: VerdictRequest


class RequestKeys:
    """Keys of the requests to one engine."""

    def __init__(self, engine_identity: Mapping[str, Any]) -> None:
        self._engine = canonical_sha256(engine_identity)
        self._node = lru_cache(_NODES_KEPT)(lambda node: (canonical_sha256(node), node))
        self._shapes: dict[tuple[Grammar, Grammar | None, ClassifierReading | None], str] = {}

    @property
    def shapes(self) -> Set[str]:
        return set(self._shapes.values())

    def keyed(self, request: VerdictRequest) -> KeyedRequest:
        """Return the request with its keys, with equal nodes as one object."""
        node_keys, nodes = zip(*map(self._node, request.path), strict=True)
        kind = (request.grammar, request.explanation, request.reading)
        if kind not in self._shapes:
            self._shapes[kind] = request.shape
        shape = self._shapes[kind]
        key = self.make_key(node_keys, shape)
        return KeyedRequest(key, node_keys, shape, request._replace(path=nodes))

    def make_key(self, node_keys: Iterable[str], shape: str) -> str:
        return _sha256("|".join((self._engine, *node_keys, _sha256(shape))))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def canonical_sha256(value: Mapping[str, Any] | Sequence[Any]) -> str:
    """Return the sha256 (hexadecimal) of JSON values, independent of key order."""
    return _sha256(_CANONICAL.encode(value))
