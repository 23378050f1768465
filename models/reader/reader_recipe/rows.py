"""Generate the training rows: a statement or question, the parts of its window, a label."""

import gzip
import json
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from reader_recipe import answers, edits
from reader_recipe.replies import Asked, Places, Reply, squad_replies, yes_no_replies
from reader_recipe.rules import LANGUAGES, Fact, RuleText, capitalised
from reader_recipe.tokens import ANSWER, ATTRIBUTION, RELEVANCE

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
LEFT_OUT = {"mtrag_human"}  # its ratings measure the judge
RULE_TEXTS = 3000
LANGUAGE_WEIGHTS = (4, 3, 2, 2)
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
ASKED_SHARE = 0.2  # of SQuAD's questions: replies to them
YES_NO_SETS = {"boolq_val", "condaqa_yesno", "pubmedqa_yesno"}
YES_NO_SHARE = 0.35
SURE_STATEMENT = 0.7  # share of the words of a question in the statement made of it
RULE_ANSWER_TEXTS = 5000
PLACE_QUESTIONS = 6000
PLACE_WEIGHTS = (2, 3, 3, 3)
LENGTH_STEPS = 2  # groups of length while the length doubles
OVERLAP_STEPS = 4
MOST_NEGATIVE = 1.3  # negatives for each positive that looks alike
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

    def __init__(
        self,
        data: Path,
        seed: int,
        joined_rows: int = JOINED_ROWS,
        shares: Mapping[str, float] | None = None,
    ) -> None:
        """Read the data.

        Args:
            data: the folder.
            seed: of all draws.
            joined_rows: how many rows of two statements.
            shares: the share of a kind's sources to use, by the name of its method; default all.

        """
        self._shares = shares or {}
        self._joined_rows = round(joined_rows * self._share("joined"))
        self._summary_rows = round(SUMMARY_ROWS * self._share("summaries"))
        self._rng = random.Random(seed)
        self._short = self._read_nli(data / "nli" / "sentences.jsonl.gz")
        self._passages = self._read_nli(data / "nli" / "passages.jsonl.gz")
        self._questions = list(read_rows(data / "train_qa.jsonl.gz"))
        self._prose = self._read_prose(data / "train_prose.jsonl.gz")

    @cached_property
    def _neighbours(self) -> Neighbours:
        contexts = {
            row["context"] for row in self._passages if len(row["context"]) in NEIGHBOUR_LENGTHS
        }
        return Neighbours(sorted(contexts | set(self._prose)))

    def _chance(self, share: float) -> bool:
        return self._rng.random() < share

    def _share(self, kind: str) -> float:
        return self._shares.get(kind, 1.0)

    def _read_nli(self, path: Path) -> list[dict[str, Any]]:
        rows = list(read_rows(path))
        self._rng.shuffle(rows)
        counts: Counter[str] = Counter()
        chosen: list[dict[str, Any]] = []
        for row in rows:
            if row["dataset"] in LEFT_OUT:
                continue
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
            self.summaries, self.twins, self.negated, self.rules, self.answer_sentences,
            self.answer_passages, self.statement_queries, self.answers, self.rule_answers,
            self.place_answers,
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
            if self._chance(SHORT_SHARE * self._share("short_pairs")):
                yield Row(ATTRIBUTION, "short", row["statement"], (row["context"],), row["label"])

    def passages(self) -> Iterator[Row]:
        for row in self._passages:
            if not self._chance(self._share("passages")):
                continue
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
            if not self._chance(0.45 * self._share("among_passages")):
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
            if not self._chance(self._share("edited")):
                continue
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

    # Errors that people meet: each with an untouched twin

    def twins(self) -> Iterator[Row]:
        """A sentence of a text as it is, and with values or roles swapped, or negated.

        In half of the pairs the text is changed in place of the statement.
        """
        for paragraph in self._prose:
            sentences = [s for s in edits.split_sentences(paragraph) if len(s) in EDITED_LENGTHS]
            if not sentences or not self._chance(self._share("twins")):
                continue
            sentence = self._rng.choice(sentences)
            changed = edits.change_precisely(sentence, paragraph, self._rng)
            if changed is None:
                continue
            other_text = paragraph.replace(sentence, changed)
            said = [edits.reword(s, self._rng) for s in (sentence, changed)]
            right, wrong = said
            texts = (paragraph, paragraph)
            if self._chance(0.5):
                texts = (paragraph, other_text)
                wrong = right
            yield Row(ATTRIBUTION, "twins", right, (texts[0],), 1)
            yield Row(ATTRIBUTION, "twins", wrong, (texts[1],), 0)

    def negated(self) -> Iterator[Row]:
        """Supported statements about a passage, negated in the statement, the text, or in both."""
        for row in self._passages:
            if row["dataset"] != "squad_train_statements" or row["label"] == 0:
                continue
            if not self._chance(self._share("negated")):
                continue
            sentences = edits.split_sentences(row["context"])
            words = set(re.findall(r"\w{3,}", row["statement"].lower()))
            scores = [len(words & set(re.findall(r"\w{3,}", s.lower()))) for s in sentences]
            nearest = sentences[scores.index(max(scores))]
            statement = edits.negate(row["statement"], "", self._rng)
            sentence = edits.negate(nearest, "", self._rng)
            if statement is None:
                continue
            yield Row(ATTRIBUTION, "negated", row["statement"], (row["context"],), 1)
            yield Row(ATTRIBUTION, "negated", statement, (row["context"],), 0)
            if sentence is not None and self._chance(0.5):
                text = row["context"].replace(nearest, sentence)
                yield Row(ATTRIBUTION, "negated", row["statement"], (text,), 0)
                yield Row(ATTRIBUTION, "negated", statement, (text,), 1)

    def _rule_text(self) -> RuleText:
        language = self._rng.choices(LANGUAGES, LANGUAGE_WEIGHTS)[0]
        return RuleText(self._rng, language)

    def rules(self) -> Iterator[Row]:
        """Claims about rules in four languages, right and wrong in one thing."""
        for _ in range(round(RULE_TEXTS * self._share("rules"))):
            text = self._rule_text()
            for fact in self._rng.sample(text.facts, 2):
                yield from self._rule_rows(text, fact)

    def _rule_rows(self, text: RuleText, fact: Fact) -> Iterator[Row]:
        """One pair of rows about a fact: a right claim, and a wrong one or a text without it."""
        whole = (text.text(),)
        kinds = ["missing", "half", "changed", "changed", "copied"]
        if fact.forms.limits:
            kinds.append("limit")
        kind = self._rng.choice(kinds)
        wrong = self._wrong_fact(text, fact)
        if kind == "missing":
            claim = text.claim([fact])
            yield Row(ATTRIBUTION, "rules", claim, whole, 1)
            yield Row(ATTRIBUTION, "rules", claim, (text.text(without=fact),), 0)
        elif kind == "half":
            other = self._rng.choice([f for f in text.facts if f is not fact])
            for right, label in ((fact, 1), (wrong, 0)):
                pair = [right, other]
                self._rng.shuffle(pair)
                yield Row(ATTRIBUTION, "rules", text.claim(pair), whole, label)
        elif kind == "limit":
            for turned in (False, True):
                claim = fact.say_limit(self._rng, turned=turned)
                yield Row(ATTRIBUTION, "rules", claim, whole, int(not turned))
        elif kind == "copied" and fact.value:
            sentence = text.sentence(fact)
            yield Row(ATTRIBUTION, "rules", sentence, whole, 1)
            changed = sentence.replace(fact.value, str(wrong.value))
            changed = changed.replace(capitalised(fact.value), capitalised(str(wrong.value)))
            yield Row(ATTRIBUTION, "rules", changed, whole, int(changed == sentence))
        else:
            yield Row(ATTRIBUTION, "rules", text.claim([fact]), whole, 1)
            yield Row(ATTRIBUTION, "rules", text.claim([wrong]), whole, 0)

    def _wrong_fact(self, text: RuleText, fact: Fact) -> Fact:
        """The fact with a neighbour's value, a strange one, or turned round."""
        if fact.value is None:
            return replace(fact, is_yes=not fact.is_yes)
        neighbours = text.neighbours(fact)
        if neighbours and self._chance(0.65):
            return replace(fact, value=self._rng.choice(neighbours).value)
        return replace(fact, value=text.strange_value(fact))

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
                if self._chance(0.6 * self._share("answer_sentences")):
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
            if not self._chance(self._share("answer_passages")):
                continue
            item = self._rng.choice(paragraph["qas"])
            yield from self._passage_row(paragraph["context"], item["question"], item["answer"])
        for row in self._passages:
            if row["dataset"] != "boolq_val" or not self._chance(self._share("answer_passages")):
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
            if not self._chance(self._share("statement_queries")):
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

    # Answers: does a sentence of an answer answer the question?

    def answers(self) -> Iterator[Row]:
        """Replies to SQuAD's questions and to yes-no questions of other data sets."""
        statements = self._statements_of_questions()
        strangers: dict[tuple[str, str], list[str]] = defaultdict(list)
        for paragraph in self._questions:
            for item in paragraph["qas"]:
                kind = answers.wanted(item["question"], item["answer"])
                strangers[kind].append(item["answer"])
        rows: list[Row] = []
        before: dict[str, Any] = {"context": ""}
        for paragraph in self._questions:
            elsewhere: list[str] = []
            if paragraph.get("title") == before.get("title", ""):
                elsewhere = self._sentences(before["context"])
            before = paragraph
            context = paragraph["context"]
            sentences = self._sentences(context)
            items = [(item["question"], item["answer"]) for item in paragraph["qas"]]
            for item in items:
                if not self._chance(ASKED_SHARE * self._share("answers")):
                    continue
                others = [other for other in items if other != item]
                made = statements.get(context, ())
                asked = Asked(*item, sentences, others, made, elsewhere, strangers)
                query = self._query(item[0])
                rows += self._reply_rows(query, squad_replies(asked, self._rng))
        for row in self._passages:
            if row["dataset"] not in YES_NO_SETS or "?" not in row["statement"]:
                continue
            if self._chance(self._share("answers") * YES_NO_SHARE):
                question = row["statement"].split("?")[0] + "?"
                sentences = edits.split_sentences(row["context"])
                replies = yes_no_replies(capitalised(question), sentences, "en", self._rng)
                rows += self._reply_rows(self._query(question), replies)
        yield from balanced(rows, self._rng)

    @staticmethod
    def _sentences(context: str) -> list[str]:
        return [s for s in edits.split_sentences(context) if len(s) > SHORTEST_SENTENCE]

    def _statements_of_questions(self) -> dict[str, list[tuple[str, str]]]:
        """Statements made of SQuAD's questions, by paragraph, each with its question."""
        questions = {
            paragraph["context"]: [item["question"] for item in paragraph["qas"]]
            for paragraph in self._questions
        }
        statements: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for row in self._passages:
            if row["dataset"] != "squad_train_statements" or row["context"] not in questions:
                continue
            words = answers.content_words(row["statement"])
            scores = [
                len(words & answers.content_words(question))
                / max(1, len(answers.content_words(question)))
                for question in questions[row["context"]]
            ]
            best = max(scores)
            if best >= SURE_STATEMENT and scores.count(best) == 1:
                question = questions[row["context"]][scores.index(best)]
                statements[row["context"]].append((row["statement"], question))
        return statements

    @staticmethod
    def _reply_rows(question: str, replies: Iterable[Reply]) -> list[Row]:
        """Rows of the replies, each text once."""
        texts = {reply.text: reply for reply in replies}
        return [
            Row(ANSWER, reply.kind, question, (text,), reply.label) for text, reply in texts.items()
        ]

    def rule_answers(self) -> Iterator[Row]:
        """Questions about rules in four languages, with answers, true or not, and with none."""
        rows: list[Row] = []
        for _ in range(round(RULE_ANSWER_TEXTS * self._share("rule_answers"))):
            text = self._rule_text()
            fact, other = self._rng.sample(text.facts, 2)
            question = fact.ask(self._rng)
            rows += self._reply_rows(question, self._rule_replies(question, text, fact, other))
        yield from balanced(rows, self._rng)

    def _rule_replies(
        self, question: str, text: RuleText, fact: Fact, other: Fact
    ) -> Iterator[Reply]:
        rng, language = self._rng, text.language
        about = fact.object
        kind = ""
        if fact.value is None:
            kind = answers.YES_OR_NO
        for said in (fact, self._wrong_fact(text, fact)):
            answer = text.claim([said])
            if said.value is not None and self._chance(0.3):
                answer = capitalised(said.value) + "."
            if said.value is None and self._chance(0.3):
                pattern = rng.choice(rng.choice(answers.YES_NO[language]))
                answer = capitalised(pattern.format(t=about))
            framed = answers.framed(answer, question, about, rng, language)
            yield Reply("answer_rules", framed, 1)
        evasion = answers.evasion(question, about, language, rng, kind)
        yield Reply("answer_rules", evasion, 0)
        beside = text.claim([other])
        if self._chance(0.2):
            refusing = answers.refusing(beside, question, about, rng, language)
            yield Reply("answer_rules", refusing, 0)
        else:
            framed = answers.framed(beside, question, about, rng, language)
            yield Reply("answer_rules", framed, 0)
        if fact.value is not None:
            unit = {"days": "time", "months": "time"}.get(fact.family.unit, fact.family.unit)
            vague = rng.choice(answers.VAGUE_VALUES[language][unit])
            said_vaguely = text.claim([replace(fact, value=vague)])
            framed = answers.framed(said_vaguely, question, about, rng, language)
            yield Reply("answer_rules", framed, 0)

    def place_answers(self) -> Iterator[Row]:
        """Questions about places in four languages, with replies about the same place."""
        rows: list[Row] = []
        for _ in range(round(PLACE_QUESTIONS * self._share("place_answers"))):
            language = self._rng.choices(LANGUAGES, PLACE_WEIGHTS)[0]
            question, replies = Places(language, self._rng).replies()
            rows += self._reply_rows(question, replies)
        yield from balanced(rows, self._rng)


def balanced(rows: Sequence[Row], rng: random.Random) -> list[Row]:
    """Rows of answers without the surplus of a label among those that look alike.

    Rows look alike if their sentences are about as long and have about as many words of their
    questions. So neither tells the label.
    """
    groups: dict[tuple[int, int], tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
    for row in rows:
        length = round(LENGTH_STEPS * math.log2(len(row.parts[0])))
        shared = int(OVERLAP_STEPS * answers.overlap(row.statement, row.parts[0]))
        groups[length, shared][row.label].append(row)
    chosen: list[Row] = []
    for _, (negative, positive) in sorted(groups.items()):
        rng.shuffle(negative)
        rng.shuffle(positive)
        chosen += negative[: round(MOST_NEGATIVE * len(positive))]
        chosen += positive[: len(negative)]
    return chosen
