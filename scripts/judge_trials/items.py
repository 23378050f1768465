"""Labelled questions to judges, of four tasks, in an order in which any first part is a fair sample of the whole.

    task                 data                       positive                                   cluster
    attribution          attribution.dev.jsonl      the context supports the statement         context
    relevance_sentence   relevance.dev.jsonl        the sentence is needed for the question    question
    relevance_chunk      relevance.dev.jsonl        a sentence of the passage is needed        question
    usefulness           rag_hotpotqa.dev.jsonl     the passage is a supporting one            question

Long texts are left out (`LONGEST`), because models that read 40 tokens a second are measured on what remains.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from reference_judge import labelled
from reference_judge.labelled import Example

from localjudge.types import Attribution, Relevance, Span, Task, Unit, UnitKind, UnitSource, Usefulness

LONGEST = {"attribution": 1500, "relevance_sentence": 600, "relevance_chunk": 1000, "usefulness": 800}
"""Characters of the texts that a verdict is about, the question not among them."""


class Item(NamedTuple):
    """One labelled question. `cluster` names what it shares with others, `source` its data set."""

    id: str
    source: str
    cluster: str
    label: int
    task: Task


def choose(folder: Path, task: str, count: int) -> list[Item]:
    """About `count` items: of `relevance_sentence` all sentences of whole questions, until there are so many.

    Labels and data sets are in the shares that they have in the data, and a larger count begins with the same ones.
    """
    groups: dict[str, list[Item]] = defaultdict(list)
    for item in _MAKERS[task](folder):  # groups are asked together
        groups[item.cluster if task == "relevance_sentence" else item.id].append(item)
    strata: dict[tuple[str, int], list[list[Item]]] = defaultdict(list)
    for group in groups.values():
        strata[group[0].source, max(item.label for item in group)].append(group)
    placed = []  # each stratum spread evenly over the order
    for stratum in strata.values():
        stratum.sort(key=lambda group: _digest(group[0].id))
        placed += [((place + 0.5) / len(stratum), _digest(group[0].id), group) for place, group in enumerate(stratum)]
    chosen: list[Item] = []
    for _, _, group in sorted(placed, key=lambda entry: entry[:2]):
        if len(chosen) < count:
            chosen += group
    return chosen


def _attribution(folder: Path) -> Iterable[Item]:
    for row in _rows(folder / "attribution.dev.jsonl"):
        if len(row["context"]) + len(row["statement"]) <= LONGEST["attribution"]:
            task = Attribution(
                unit=_unit("statement", row["statement"], "response"),
                contexts=(row["context"],),
                user_input=row["question"],
            )
            yield Item(row["id"], row["dataset"], _digest(row["context"])[:16], int(row["label"]), task)


def _sentences(folder: Path) -> Iterable[Item]:
    """Of questions that have a sentence of each label."""
    questions: dict[str, list[Example]] = defaultdict(list)
    for example in labelled.examples(folder, "relevance"):
        questions[example.group].append(example)
    for group, examples in questions.items():
        both_labels = {0, 1} <= {example.label for example in examples}
        if sum(map(len, examples[0].beside)) > LONGEST["relevance_sentence"] or not both_labels:
            continue
        for place, example in enumerate(examples):
            unit = _unit("sentence", example.judged, "retrieved_contexts")
            task = Relevance(unit=unit, user_input=example.given, contexts=example.beside)
            yield Item(f"{group}/{place}", example.dataset, group, example.label, task)


def _chunks(folder: Path) -> Iterable[Item]:
    """Every relevant passage; of the others of the same question as many, or one."""
    others: Counter[str] = Counter()
    examples = [e for e in labelled.examples(folder, "chunk") if len(e.judged) <= LONGEST["relevance_chunk"]]
    relevant = Counter(example.group for example in examples if example.label)
    for place, example in enumerate(examples):
        others[example.group] += 1 - example.label
        if not example.label and others[example.group] > max(relevant[example.group], 1):
            continue
        task = Relevance(unit=_unit("chunk", example.judged, "retrieved_contexts"), user_input=example.given)
        yield Item(f"{example.group}/{place}", example.dataset, example.group, example.label, task)


def _useful(folder: Path) -> Iterable[Item]:
    """Every supporting passage, and as many others of the same question."""
    for row in _rows(folder / "rag_hotpotqa.dev.jsonl"):
        supporting = row["reference_contexts"]
        by_label: dict[int, list[tuple[str, str]]] = {1: [], 0: []}
        for place, text in enumerate(row["retrieved_contexts"]):
            if len(text) <= LONGEST["usefulness"]:
                by_label[int(text in supporting)].append((f"{row['id']}/{place}", text))
        for label, passages in by_label.items():
            for name, text in passages[: len(by_label[1])]:
                unit = _unit("chunk", text, "retrieved_contexts")
                task = Usefulness(unit=unit, user_input=row["user_input"], reference=row["reference"])
                yield Item(name, row["dataset"], row["id"], label, task)


_MAKERS: dict[str, Callable[[Path], Iterable[Item]]] = {
    "attribution": _attribution,
    "relevance_sentence": _sentences,
    "relevance_chunk": _chunks,
    "usefulness": _useful,
}
TASKS = tuple(_MAKERS)


def _unit(kind: UnitKind, text: str, source: UnitSource) -> Unit:
    place = 0 if source == "retrieved_contexts" else None
    return Unit(kind=kind, index=0, source=source, source_index=place, span=Span.whole(text))


def _rows(path: Path) -> Iterable[dict[str, Any]]:
    return map(json.loads, path.read_text(encoding="utf-8").splitlines())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
