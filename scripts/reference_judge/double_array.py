"""Packs a table of replacements as llama.cpp reads it: a trie in a double array, then the replacements.

    size of the array in bytes | array of 32-bit units | replacements, each ended by a zero byte

A node at place p has a base b, and its child for byte c stands at b XOR c; the unit there holds c, so that a wrong
turn is noticed. No two nodes have the same base. A node that ends an entry keeps its value (the offset of the
replacement) at place b. After Yata et al., "A compact static double-array keeping character codes" (2007), in the form
that the library darts-clone gave it.
"""

import struct
from collections.abc import Mapping
from typing import Union

_LEAF, _EXTENDED, _VALUE = 1 << 8, 1 << 9, 1 << 31
_BASE_SHIFT, _LARGEST_BASE = 10, 1 << 21

_END = 0

Node = dict[int, Union["Node", int]]
"""Children by byte; under _END, the value of the entry that ends here."""


def charsmap(table: Mapping[str, str]) -> bytes:
    """The bytes of `tokenizer.ggml.precompiled_charsmap`."""
    offsets: dict[str, int] = {}
    replacements = bytearray()
    for replacement in dict.fromkeys(table.values()):
        offsets[replacement] = len(replacements)
        replacements += replacement.encode() + b"\0"
    units = _packed({text.encode(): offsets[replacement] for text, replacement in table.items()})
    array = struct.pack(f"<{len(units)}I", *units)
    return struct.pack("<I", len(array)) + array + bytes(replacements)


def _packed(entries: Mapping[bytes, int]) -> list[int]:
    root: Node = {}
    for key in sorted(entries):
        node = root
        for byte in key:
            child = node.setdefault(byte, {})
            assert isinstance(child, dict), "no key holds a zero byte"
            node = child
        node[_END] = entries[key]
    return _Array().place(root)


class _Array:
    """Units filled so far, which places are taken, and which bases."""

    def __init__(self) -> None:
        self._units: dict[int, int] = {0: 0}
        self._bases: set[int] = set()
        self._search_from: dict[int, int] = {}

    def place(self, root: Node) -> list[int]:
        """Give every node of the trie its place, and return all units."""
        waiting: list[tuple[int, Node]] = [(0, root)]
        while waiting:
            place, node = waiting.pop()
            base = self._base_for(sorted(node))
            self._units[place] |= (place ^ base) << _BASE_SHIFT | (_LEAF if _END in node else 0)
            for byte, child in node.items():
                if isinstance(child, dict):
                    self._units[base ^ byte] = byte
                    waiting.append((base ^ byte, child))
                else:
                    self._units[base] = _VALUE | child
        # A query may leave the last filled place by any byte: the array ends at a whole block.
        return [self._units.get(place, 0) for place in range((max(self._units) | 0xFF) + 1)]

    def _base_for(self, labels: list[int]) -> int:
        free = self._search_from.get(len(labels), 1)
        base = free ^ labels[0]
        while base in self._bases or any(base ^ label in self._units for label in labels):
            free += 1
            base = free ^ labels[0]
        # Where a node of this size found no room, a later one of the same size hardly will.
        self._search_from[len(labels)] = free
        if base >= _LARGEST_BASE:
            raise ValueError("the table of replacements is too large for a double array")
        self._bases.add(base)
        self._units.update({base ^ label: 0 for label in labels})
        return base
