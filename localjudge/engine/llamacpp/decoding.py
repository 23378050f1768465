"""Answers on their way through the cells, one after the other.

instructions ─ context ─ statement 1 {"attributed":     the path is held, the answer grows behind it
instructions ─ context                                  and goes, before the next begins
"""

from typing import NamedTuple

from localjudge.engine.llamacpp.constrained_answer import Answering
from localjudge.engine.llamacpp.constraint import Constraints
from localjudge.engine.llamacpp.kv_cache import Cells, Stretch
from localjudge.engine.llamacpp.prefix_cache import Trunk
from localjudge.engine.llamacpp.tokenized import Work
from localjudge.errors import SampleError
from localjudge.types import Answer, NoAnswer


class Decoded(NamedTuple):
    """An answer for each verdict, or why there is none, and what it took.

    `continued` counts the tokens evaluated behind the answer's forced beginning, `free` those that the model chose for
    reasons.
    """

    answers: tuple[Answer, ...] | NoAnswer
    continued: int
    free: int


class IsolatedDecoder:
    """Decodes every answer by itself: nothing but its own path is in the cells."""

    def __init__(self, constraints: Constraints, cells: Cells) -> None:
        self._constraints = constraints
        self._cells = cells
        self._trunk = Trunk(cells)

    def decode(self, work: Work) -> Decoded:
        """The answer to one request. Only what its path does not share with the one before is evaluated."""
        answering = Answering(self._constraints, work.shape, work.explanation)
        answers: tuple[Answer, ...] | NoAnswer
        try:
            self._write(answering, work)
            answers = answering.answers()
        except SampleError as error:
            self._trunk.wipe()  # the cells may hold what is not a number
            answers = NoAnswer(error=error.in_one_line)
        return Decoded(answers, answering.continued_tokens, answering.free_tokens)

    def _write(self, answering: Answering, work: Work) -> None:
        """Evaluate and decide until the answer is finished. Raises SampleError if it cannot be."""
        stretch = Stretch(self._trunk.hold(work.path[:-1]), work.path[-1])
        while not answering.finished:
            answering.take(self._cells.logits_behind(stretch))
            stretch = Stretch(stretch.end, answering.pending)
            if not answering.finished and stretch.end >= work.longest:
                raise SampleError(f"the answer did not end within the {work.longest} tokens kept for it")
