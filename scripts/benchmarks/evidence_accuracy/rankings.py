"""Ways to rank the sentences of a text as evidence for a statement.

Each returns, for each statement, the places of its sentences, the best first.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from judge_accuracy.questions import WholeStatement

import localjudge
from evidence_accuracy.rows import LabelledStatement
from localjudge.text.finder import Finder
from localjudge.types import Span

Ranking = Callable[[Sequence[LabelledStatement]], list[list[int]]]
_WORD = re.compile(r"\w+")
_ASKED = 12


def by_overlap(statements: Sequence[LabelledStatement]) -> list[list[int]]:
    """Rank by the share of the statement's words in the sentence."""
    orders: list[list[int]] = []
    for statement in statements:
        words = _words(statement.text)
        common = [len(words & _words(sentence)) for sentence in statement.sentences]
        orders.append(_descending(common))
    return orders


def by_finder(statements: Sequence[LabelledStatement]) -> list[list[int]]:
    """Return the sentences that the finder of evidence names: at most two."""
    orders: list[list[int]] = []
    for statement in statements:
        matches = _finder(statement).find(statement.text)
        orders.append([match.text for match in matches])
    return orders


def by_judge(judge: str, folder: Path) -> Ranking:
    """Rank by the judge's probability that the sentence alone supports the statement.

    The judge is asked about the first sentences by word overlap. Its answers stay in the folder.
    """

    def ranking(statements: Sequence[LabelledStatement]) -> list[list[int]]:
        candidates = [order[:_ASKED] for order in by_overlap(statements)]
        rows: list[dict[str, object]] = []
        for statement, places in zip(statements, candidates, strict=True):
            for place in places:
                row: dict[str, object] = {
                    "id": f"{statement.id} {place}",
                    "retrieved_contexts": [statement.sentences[place]],
                    "response": statement.text,
                }
                rows.append(row)
        name = re.sub(r"\W+", "-", f"{judge}-{statements[0].id}-{len(statements)}")
        run = localjudge.evaluate(
            rows, judge=judge, metrics=[WholeStatement()], out=folder / name, no_evidence=True
        )
        p_yes = {row.sample_id: row.p_yes or 0.0 for row in run.iter_verdicts()}
        orders: list[list[int]] = []
        for statement, places in zip(statements, candidates, strict=True):
            scores = [p_yes[f"{statement.id} {place}"] for place in places]
            orders.append([places[rank] for rank in _descending(scores)])
        return orders

    return ranking


def _finder(statement: LabelledStatement) -> Finder:
    return Finder(statement.sentences, lambda text: [Span.whole(text)])


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _descending(scores: Sequence[float]) -> list[int]:
    return sorted(range(len(scores)), key=lambda place: (-scores[place], place))
