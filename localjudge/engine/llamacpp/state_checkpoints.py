"""States of a memory that cannot be cut back, saved at the ends of nodes.

    instructions ▪ context ▪ statement 1        ▪ = saved
    restore      ▪ context ▪
    instructions ▪ context ▪ statement 2

A recurrent layer (Mamba, gated delta networks, short convolutions) keeps one state for all that it has read, which is
overwritten by the next token. llama.cpp copies such states out and in; where a model also has attention layers, their
cells are cut as usual. The copy is exact, so what follows is bit-identical to an evaluation from scratch.
"""

import ctypes
from typing import Any, NamedTuple

from localjudge.engine.llamacpp.library import llama_cpp

_KEPT = 4
_SEQUENCE = 0
_RECURRENT_PART = llama_cpp.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY


class _Checkpoint(NamedTuple):
    position: int
    state: Any


class StateCheckpoints:
    """Saved states of one sequence, along the path that it holds.

    A path of many nodes keeps the state behind its first node, which other samples share, and the last few, where
    statements part.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._saved: list[_Checkpoint] = []

    def save(self, position: int) -> None:
        """Save the state of the sequence, which holds `position` tokens."""
        size = llama_cpp.llama_state_seq_get_size_ext(self._context, _SEQUENCE, _RECURRENT_PART)
        state = (ctypes.c_uint8 * size)()
        llama_cpp.llama_state_seq_get_data_ext(self._context, state, size, _SEQUENCE, _RECURRENT_PART)
        self._saved.append(_Checkpoint(position, state))
        if len(self._saved) > _KEPT:
            del self._saved[1]

    def restore(self, position: int) -> int:
        """Go back to the last saved place that is not behind `position`; tokens that the sequence holds then.

        Attention cells behind that place, if the model has any, are still to be cut.
        """
        while self._saved and self._saved[-1].position > position:
            self._saved.pop()
        if not self._saved:
            return 0
        last = self._saved[-1]
        restored = llama_cpp.llama_state_seq_set_data_ext(
            self._context, last.state, len(last.state), _SEQUENCE, _RECURRENT_PART
        )
        if not restored:
            self._saved.clear()
            return 0
        return last.position

    def clear(self) -> None:
        """Forget every saved state."""
        self._saved.clear()
