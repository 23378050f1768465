"""Names requests by their content, so that the same question is asked once, and never again after a restart.

    node key     sha256 of its pieces: text, and whether it is trusted
    request key  sha256 of (engine identity, keys of the nodes root first, shape of the answer, entry in it)

The engine's identity holds everything else that can move an answer, so equal keys mean equal answers. Equal nodes are
also made one object: a context that is asked a hundred questions stands in memory once.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

from localjudge.types import Node, VerdictRequest

_NODES_KEPT = 65_536


class KeyedRequest(NamedTuple):
    """A request with its key, the key of each of its nodes, and the shape of its answer (grammars) as JSON."""

    key: str
    node_keys: tuple[str, ...]
    shape: str
    request: VerdictRequest


class RequestKeys:
    """Keys of the requests to one engine."""

    def __init__(self, engine_identity: Mapping[str, Any]) -> None:
        self._engine = canonical_sha256(engine_identity)
        self._nodes: dict[Node, tuple[str, Node]] = {}
        self._shapes: dict[str, str] = {}

    @property
    def shapes(self) -> Set[str]:
        """Shapes of the answers to all requests so far, as JSON."""
        return self._shapes.keys()

    def keyed(self, request: VerdictRequest) -> KeyedRequest:
        """The request, its equal nodes replaced by the ones seen before, with its keys."""
        known = [self._node(node) for node in request.path]
        node_keys = tuple(key for key, _ in known)
        shape = request.shape
        shape = self._shapes.setdefault(shape, shape)
        parts = (self._engine, *node_keys, hashlib.sha256(shape.encode()).hexdigest(), str(request.entry))
        key = hashlib.sha256("|".join(parts).encode()).hexdigest()
        return KeyedRequest(key, node_keys, shape, request._replace(path=tuple(node for _, node in known)))

    def _node(self, node: Node) -> tuple[str, Node]:
        if node not in self._nodes:
            if len(self._nodes) >= _NODES_KEPT:
                self._nodes.clear()
            self._nodes[node] = (canonical_sha256(node), node)
        return self._nodes[node]


def canonical_sha256(value: Mapping[str, Any] | Sequence[Any]) -> str:
    """Sha256 (hexadecimal) of JSON values, whatever the order of the keys in their objects."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
