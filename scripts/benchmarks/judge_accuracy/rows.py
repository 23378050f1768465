"""Labelled rows as samples.

    attribution.dev.jsonl   dataset, context, statement, label          a statement is one row
                            (or contexts, a list)
    relevance.dev.jsonl     dataset, question, sentences[], relevant[]  a sentence is one row

A subset takes turns between the data sets, and between labels, so that each has about the same
number of rows. It depends on the number of rows only, and a smaller subset is part of a larger one.
"""

import json
import random
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

STATEMENTS = "attribution.dev.jsonl"
SEED = 0
LONG_CONTEXT = 1000  # characters
_Entry = TypeVar("_Entry")
_Json = dict[str, Any]


class LabelledRow(NamedTuple):
    """A sample with one judged text, and its human label. Rows of a `cluster` share a context."""

    sample: _Json
    label: int
    dataset: str
    cluster: str
    is_long: bool


def read_statements(
    folder: Path, count: int, longest: int, file: str = STATEMENTS
) -> list[LabelledRow]:
    """Return `count` statements, or all if it is 0, with contexts of at most `longest` characters.

    There is no limit if `longest` is 0.
    """
    entries = list(enumerate(_read(folder / file)))
    if longest:
        entries = [entry for entry in entries if _length(_contexts(entry[1])) <= longest]
    chosen = take_turns(entries, count, lambda entry: (entry[1]["dataset"], int(entry[1]["label"])))
    return [_statement(number, entry) for number, entry in chosen]


def _statement(number: int, entry: _Json) -> LabelledRow:
    contexts = _contexts(entry)
    sample = {
        "id": str(number),
        "response": entry["statement"],
        "retrieved_contexts": contexts,
    }
    is_long = _length(contexts) > LONG_CONTEXT
    cluster = "\n".join(contexts)
    return LabelledRow(sample, int(entry["label"]), entry["dataset"], cluster, is_long)


def _contexts(entry: _Json) -> list[str]:
    return list(entry.get("contexts") or [entry["context"]])


def _length(contexts: Sequence[str]) -> int:
    return sum(map(len, contexts))


def read_sentences(folder: Path, questions: int, longest: int) -> list[LabelledRow]:
    """Return a relevant and another sentence of `questions` questions, or all sentences if it is 0.

    All sentences of a question have at most `longest` characters; there is no limit if it is 0.
    """
    entries = list(enumerate(_read(folder / "relevance.dev.jsonl")))
    if longest:
        entries = [entry for entry in entries if sum(map(len, entry[1]["sentences"])) <= longest]
    rows: list[LabelledRow] = []
    if not questions:
        for number, entry in entries:
            rows += _sentences(number, entry)
        return rows
    with_both = [(number, entry) for number, entry in entries if len(set(entry["relevant"])) > 1]
    chosen = take_turns(with_both, questions, lambda entry: entry[1]["dataset"])
    for number, entry in chosen:
        rows += _one_of_each_label(number, entry)
    return rows


def _one_of_each_label(number: int, entry: _Json) -> list[LabelledRow]:
    rows = _sentences(number, entry)
    random.Random(f"{SEED}/{number}").shuffle(rows)
    return [next(row for row in rows if row.label == label) for label in (1, 0)]


def _sentences(number: int, entry: _Json) -> list[LabelledRow]:
    contexts = list(_passages(entry))
    is_long = sum(map(len, contexts)) > LONG_CONTEXT
    rows: list[LabelledRow] = []
    labelled = zip(entry["sentences"], entry["relevant"], strict=True)
    for place, (sentence, label) in enumerate(labelled):
        sample = {
            "id": f"{number}/{place}",
            "user_input": entry["question"],
            "response": sentence,
            "retrieved_contexts": contexts,
        }
        rows.append(LabelledRow(sample, int(label), entry["dataset"], str(number), is_long))
    return rows


def _passages(entry: _Json) -> Iterator[str]:
    """Yield the passages. Each sentence of HotpotQA starts with the title of its passage."""

    def title(sentence: str) -> str:
        if entry["dataset"] != "hotpotqa":
            return ""
        return sentence.partition(": ")[0]

    for _, sentences in groupby(entry["sentences"], key=title):
        yield " ".join(sentences)


def take_turns(
    entries: Sequence[_Entry],
    count: int,
    group: Callable[[_Entry], Hashable],
) -> list[_Entry]:
    """Return `count` entries in random order, in turn from each group, or all if it is 0."""
    if not count:
        return list(entries)
    groups: dict[Hashable, list[_Entry]] = defaultdict(list)
    for entry in random.Random(SEED).sample(entries, len(entries)):
        groups[group(entry)].append(entry)
    in_turn: list[_Entry] = []
    for turn in zip_longest(*groups.values()):
        in_turn += [entry for entry in turn if entry is not None]
    return in_turn[:count]


def _read(path: Path) -> Iterator[_Json]:
    for line in path.read_bytes().splitlines():
        yield json.loads(line)
