"""Generate the training rows: a statement or question, the parts of its window, a label."""

import gzip
import json
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reader_recipe import edits
from reader_recipe.tokens import ATTRIBUTION, RELEVANCE

# Rows of a data set at most, for sets that are large, synthetic, or of one label.
CAPS = {
    "breaking_nli": 1200, "wikifactcheck_refuted": 800, "help_conj": 800, "med_monotonicity": 1200,
    "hans_generated": 1200, "scone_nli": 1500, "snli_devtest": 6000, "cad_nli": 5000,
    "newprotocols_nli": 14000, "mnli_dev_binary": 14000, "infotabs": 7000,
    "squad_train_statements": 12000, "entailmentbank_steps": 3500, "evidence_inference": 2500,
    "condaqa_yesno": 5000,
}  # fmt: skip
SHORT_SHARE = 0.5  # of the short pairs: the warm start has seen all of them
LEFT_OUT_PROSE = {"expertqa_lfqa_train"}
WINDOW_CHARACTERS = 1750  # about 420 tokens
FEWEST_CHARACTERS = 700  # of a window with several passages
NEIGHBOUR_LENGTHS = range(151, 1300)  # characters of a passage that may stand beside another
MOST_IN_CROWD = 900  # characters of a passage that gets company
JOINED_ROWS = 9000
JOINED_LENGTHS = range(61, 800)
LONGEST_JOINED_STATEMENT = 200
EDITED_LENGTHS = range(41, 350)
SUMMARY_ROWS = 14000
SUMMARISED_LENGTHS = range(500, 1700)
SUMMARY_SENTENCES = (2, 2, 3, 4)
LONGEST_SUMMARY = 440  # characters, about 110 tokens
SHORTEST_SENTENCE = 20
SHORTEST_REST = 60
CLAIM_LENGTHS = range(201, 1500)
FEWEST_SHARED_WORDS = 3
WHOLE, PART, WITHOUT = range(3)  # what a row of relevance shows of a passage; else a near one


@dataclass(frozen=True)
class Row:
    """One example. `parts` are joined by a line break to make the window."""

    task: int
    kind: str
    statement: str
    parts: tuple[str, ...]
    label: int


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


class Neighbours:
    """The nearest passages of a text by TF-IDF, over words that occur in few passages."""

    MOST_PASSAGES = 150

    def __init__(self, passages: list[str]) -> None:
        self.passages = passages
        self._postings: dict[str, list[int]] = defaultdict(list)
        for number, passage in enumerate(passages):
            for word in self._words(passage):
                self._postings[word].append(number)

    @staticmethod
    def _words(text: str) -> list[str]:
        """Sorted, because sums and ties depend on the order."""
        return sorted(set(re.findall(r"\w{3,}", text.lower())))

    def nearest(self, text: str, count: int) -> list[str]:
        """The `count` nearest passages that neither contain `text` nor are contained in it."""
        scores: dict[int, float] = defaultdict(float)
        for word in self._words(text):
            numbers = self._postings.get(word, ())
            if len(numbers) > self.MOST_PASSAGES:
                continue
            weight = math.log(len(self.passages) / (1 + len(numbers)))
            for number in numbers:
                scores[number] += weight / math.sqrt(60 + len(self.passages[number]))
        order = sorted(scores, key=lambda number: -scores[number])
        nearest: list[str] = []
        for number in order[: count + 3]:
            passage = self.passages[number]
            if passage[:150] in text or text[:150] in passage:
                continue
            nearest.append(passage)
        return nearest[:count]


class Generator:
    """All rows, in an order that depends on the seed only."""

    def __init__(self, data: Path, seed: int, joined_rows: int = JOINED_ROWS) -> None:
        self._joined_rows = joined_rows
        self._summary_rows = SUMMARY_ROWS
        self._rng = random.Random(seed)
        self._short = self._read_nli(data / "nli" / "sentences.jsonl.gz")
        self._passages = self._read_nli(data / "nli" / "passages.jsonl.gz")
        self._questions = list(read_rows(data / "train_qa.jsonl.gz"))
        self._prose = self._read_prose(data / "train_prose.jsonl.gz")
        contexts = {
            row["context"] for row in self._passages if len(row["context"]) in NEIGHBOUR_LENGTHS
        }
        pool = sorted(contexts | set(self._prose))
        self._neighbours = Neighbours(pool)

    def _chance(self, share: float) -> bool:
        return self._rng.random() < share

    def _read_nli(self, path: Path) -> list[dict[str, Any]]:
        rows = list(read_rows(path))
        self._rng.shuffle(rows)
        counts: Counter[str] = Counter()
        chosen: list[dict[str, Any]] = []
        for row in rows:
            counts[row["dataset"]] += 1
            if counts[row["dataset"]] <= CAPS.get(row["dataset"], 10**9):
                chosen.append(row)
        return chosen

    def _read_prose(self, path: Path) -> list[str]:
        """Paragraphs, and pairs or triples of neighbouring ones as one longer text."""
        rows = [row for row in read_rows(path) if row["dataset"] not in LEFT_OUT_PROSE]
        return [row["text"] for row in rows if len(row["text"]) >= NEIGHBOUR_LENGTHS.start]

    def rows(self, kinds: Collection[str] = ()) -> list[Row]:
        """The kinds of rows, all by default, shuffled so that any first part is a fair sample.

        A kind is the name of a method below.
        """
        makers: list[Callable[[], Iterator[Row]]] = [
            self.short_pairs, self.passages, self.among_passages, self.joined, self.edited,
            self.summaries, self.answer_sentences, self.answer_passages, self.statement_queries,
        ]  # fmt: skip
        rows: list[Row] = []
        for maker in makers:
            if not kinds or maker.__name__ in kinds:
                rows.extend(maker())
        self._rng.shuffle(rows)
        return rows

    # Attribution

    def short_pairs(self) -> Iterator[Row]:
        for row in self._short:
            if self._chance(SHORT_SHARE):
                yield Row(ATTRIBUTION, "short", row["statement"], (row["context"],), row["label"])

    def passages(self) -> Iterator[Row]:
        for row in self._passages:
            kind = "articles" if row["dataset"] == "defacto_xsum" else "passages"
            yield Row(ATTRIBUTION, kind, row["statement"], (row["context"],), row["label"])

    def _crowd(self, right: list[str], near: list[str]) -> tuple[str, ...]:
        """The right passages among near ones, in random order, as many as a window takes."""
        room = self._rng.randint(FEWEST_CHARACTERS, WINDOW_CHARACTERS) - sum(map(len, right))
        crowd = list(right)
        for passage in near:
            if len(passage) <= room:
                crowd.append(passage)
                room -= len(passage)
        self._rng.shuffle(crowd)
        return tuple(crowd)

    def among_passages(self) -> Iterator[Row]:
        """A statement with its passage among near ones, or with the near ones alone."""
        for row in self._passages:
            context = row["context"]
            statement = row["statement"]
            if len(context) > MOST_IN_CROWD or row["dataset"] in {
                "entailmentbank_steps",
                "evidence_inference",
            }:
                continue
            if not self._chance(0.45):
                continue
            near = self._neighbours.nearest(f"{statement} {context}", 6)
            if not near:
                continue
            self._rng.shuffle(near)
            yield Row(ATTRIBUTION, "among", statement, self._crowd([context], near), row["label"])
            if row["label"] == 1 and self._chance(0.3):
                yield Row(ATTRIBUTION, "among", statement, self._crowd([], near), 0)

    def joined(self) -> Iterator[Row]:
        """Two statements in one: supported only if each is, by its own passage."""
        usable = [row for row in self._passages if len(row["context"]) in JOINED_LENGTHS]
        usable = [
            row
            for row in usable
            if row["statement"].endswith(".") and len(row["statement"]) < LONGEST_JOINED_STATEMENT
        ]
        positive = [row for row in usable if row["label"] == 1]
        negative = [row for row in usable if row["label"] == 0]
        for _ in range(self._joined_rows):
            kind = self._rng.choice(("both", "both", "one", "missing"))
            first = self._rng.choice(positive)
            second = self._rng.choice(negative if kind == "one" else positive)
            right = [first["context"], second["context"]]
            if kind == "missing":
                right = [first["context"]]
            near = self._neighbours.nearest(second["statement"] + " " + second["context"], 3)
            statements = [first["statement"], second["statement"]]
            self._rng.shuffle(statements)
            statement = self._join(statements)
            yield Row(
                ATTRIBUTION, "joined", statement, self._crowd(right, near), int(kind == "both")
            )

    def _join(self, statements: list[str]) -> str:
        if self._chance(0.5):
            return " ".join(statements)
        first = statements[0].rstrip(".")
        return f"{first}, and {statements[1]}"

    def edited(self) -> Iterator[Row]:
        """Sentences copied from a long text, reworded or not, changed or not.

        The change is made in the statement, in the text, or in both: neither the statement nor the
        text alone tells the label.
        """
        for paragraph in self._prose:
            near = self._neighbours.nearest(paragraph, 4)
            for _ in range(2):
                row = self._edited_row(paragraph, near)
                if row:
                    yield row

    def _edited_row(self, paragraph: str, near: list[str]) -> Row | None:
        sentences = [s for s in edits.split_sentences(paragraph) if len(s) in EDITED_LENGTHS]
        if not sentences:
            return None
        sentence = self._rng.choice(sentences)
        context = " ".join([paragraph, *near[:1]])
        pattern = self._rng.choice(("same", "same", "statement", "text", "both", "absent"))
        statement = sentence
        if pattern == "absent":
            paragraph = paragraph.replace(sentence, "")
        elif pattern != "same":
            changed = edits.change(sentence, context, self._rng)
            if changed is None:
                return None
            if pattern in {"statement", "both"}:
                statement = changed
            if pattern in {"text", "both"}:
                paragraph = paragraph.replace(sentence, changed)
        others = [s for s in sentences if s != sentence and s in paragraph]
        if self._chance(0.6):
            statement = edits.reword(statement, self._rng)
        if others and self._chance(0.3):
            pair = [statement, self._rng.choice(others)]
            self._rng.shuffle(pair)
            statement = " ".join(pair)
        crowd = near if self._chance(0.7) else []
        parts = self._crowd([paragraph.strip()], crowd)
        return Row(ATTRIBUTION, "edited", statement, parts, int(pattern in {"same", "both"}))

    def summaries(self) -> Iterator[Row]:
        """Two to four sentences of a longer text in one statement, at most one of them unsupported.

        As in `edited`, the change is made in the statement, in the text, or in both.
        """
        long_enough = [text for text in self._prose if len(text) in SUMMARISED_LENGTHS]
        count = min(self._summary_rows, len(long_enough))
        for paragraph in self._rng.sample(long_enough, count):
            near = self._neighbours.nearest(paragraph, 3)
            row = self._summary_row(paragraph, near)
            if row:
                yield row

    def _summary_row(self, paragraph: str, near: list[str]) -> Row | None:
        sentences = [s for s in edits.split_sentences(paragraph) if len(s) in EDITED_LENGTHS]
        count = self._rng.choice(SUMMARY_SENTENCES)
        if len(sentences) <= count:
            return None
        places = sorted(self._rng.sample(range(len(sentences)), count))
        summary = [sentences[place] for place in places]
        target = self._rng.randrange(count)
        original = summary[target]
        pattern = self._rng.choice(("same", "same", "statement", "text", "both", "absent"))
        if pattern == "absent":
            paragraph = paragraph.replace(original, "")
        elif pattern != "same":
            changed = edits.change(original, " ".join([paragraph, *near[:1]]), self._rng)
            if changed is None:
                return None
            if pattern in {"statement", "both"}:
                summary[target] = changed
            if pattern in {"text", "both"}:
                paragraph = paragraph.replace(original, changed)
        reworded = [edits.reword(sentence, self._rng) for sentence in summary]
        statement = " ".join(reworded)
        if len(statement) > LONGEST_SUMMARY:
            return None
        crowd = near if self._chance(0.5) else []
        parts = self._crowd([paragraph.strip()], crowd)
        return Row(ATTRIBUTION, "summary", statement, parts, int(pattern in {"same", "both"}))

    # Relevance

    def _query(self, question: str) -> str:
        """A question as people type it: as it stands, or in lower case without its mark."""
        if self._chance(0.35):
            return question.lower().rstrip("?").strip()
        return question

    def answer_sentences(self) -> Iterator[Row]:
        """The sentence that contains the answer, and the nearest ones that do not."""
        for paragraph in self._questions:
            sentences = [
                s for s in edits.split_sentences(paragraph["context"]) if len(s) > SHORTEST_SENTENCE
            ]
            for item in paragraph["qas"]:
                if self._chance(0.6):
                    yield from self._answer_rows(item["question"], item["answer"], sentences)

    def _answer_rows(self, question: str, answer: str, sentences: list[str]) -> Iterator[Row]:
        words = set(re.findall(r"\w{4,}", question.lower()))

        def overlap(sentence: str) -> int:
            return len(words & set(re.findall(r"\w{4,}", sentence.lower())))

        right = sorted((s for s in sentences if answer in s), key=overlap, reverse=True)
        wrong = sorted((s for s in sentences if answer not in s), key=overlap, reverse=True)
        if not right:
            return
        query = self._query(question)
        yield Row(RELEVANCE, "sentence", query, (right[0],), 1)
        if wrong:
            yield Row(RELEVANCE, "sentence", query, (wrong[0],), 0)
        if len(wrong) > 1 and self._chance(0.4):
            yield Row(RELEVANCE, "sentence", query, (self._rng.choice(wrong[1:]),), 0)
        if self._chance(0.12):
            for passage in self._neighbours.nearest(question, 1):
                if answer not in passage:
                    near = max(edits.split_sentences(passage), key=overlap)
                    yield Row(RELEVANCE, "sentence", query, (near,), 0)

    def answer_passages(self) -> Iterator[Row]:
        """The passage with the answer, whole or in part; near passages; the passage without it."""
        for paragraph in self._questions:
            item = self._rng.choice(paragraph["qas"])
            yield from self._passage_row(paragraph["context"], item["question"], item["answer"])
        for row in self._passages:
            if row["dataset"] != "boolq_val":
                continue
            question = row["statement"].split("?")[0]
            yield Row(RELEVANCE, "passage", question, (row["context"],), 1)
            for passage in self._neighbours.nearest(question, 1):
                yield Row(RELEVANCE, "passage", question, (passage,), 0)

    def _passage_row(self, context: str, question: str, answer: str) -> Iterator[Row]:
        sentences = edits.split_sentences(context)
        position = next((n for n, s in enumerate(sentences) if answer in s), None)
        if position is None:
            return
        query = self._query(question)
        start = max(0, position - self._rng.randint(0, 3))
        part = " ".join(sentences[start : position + self._rng.randint(1, 4)])
        rest = " ".join(sentence for sentence in sentences if answer not in sentence)
        quarter = int(4 * self._rng.random())
        if quarter == WHOLE:
            yield Row(RELEVANCE, "passage", query, (context,), 1)
        elif quarter == PART:
            yield Row(RELEVANCE, "passage", query, (part,), 1)
        elif quarter == WITHOUT and len(rest) > SHORTEST_REST:
            yield Row(RELEVANCE, "passage", query, (rest,), 0)
        else:
            for passage in self._neighbours.nearest(question + " " + answer, 1):
                if answer not in passage:
                    yield Row(RELEVANCE, "passage", query, (passage,), 0)

    def statement_queries(self) -> Iterator[Row]:
        """Statements as queries: which sentence of a text supports them?"""
        for row in self._passages:
            if row["label"] == 0 or len(row["context"]) not in CLAIM_LENGTHS:
                continue
            if row["dataset"] not in {"squad_train_statements", "fever_nli_binary", "foolmetwice"}:
                continue
            sentences = [
                s for s in edits.split_sentences(row["context"]) if len(s) > SHORTEST_SENTENCE
            ]
            words = set(re.findall(r"\w{3,}", row["statement"].lower()))
            scores = [len(words & set(re.findall(r"\w{3,}", s.lower()))) for s in sentences]
            best = max(scores, default=0)
            if scores.count(best) != 1 or best < FEWEST_SHARED_WORDS:
                continue
            right = sentences[scores.index(best)]
            wrong = [s for s, score in zip(sentences, scores, strict=True) if score < best / 2]
            yield Row(RELEVANCE, "claim", row["statement"], (right,), 1)
            if wrong:
                yield Row(RELEVANCE, "claim", row["statement"], (self._rng.choice(wrong),), 0)
