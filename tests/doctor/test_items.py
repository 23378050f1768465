import re
from collections import Counter

import pytest

from localjudge import Sample
from localjudge.judge.probes import (
    Probe,
    answer_probes,
    answered_questions,
    passages,
    probe_tasks,
    probes,
    rearranged,
)
from localjudge.metrics import Attribution, Relevance, Task, catalog
from localjudge.stats.agreement import roc_auc
from localjudge.text import Segmenter

sentences = Segmenter()

CHANGED = ("number", "name", "negation")


def attribution(items: list[Probe]) -> list[Probe]:
    return [item for item in items if isinstance(item.task, Attribution)]


def covered(task: Task) -> float:
    """Share of the words of the unit (or of the question, for a chunk) that the text contains."""
    if isinstance(task, Attribution):
        asked = task.unit.span.text
        shown = task.contexts[0]
    else:
        assert isinstance(task, Relevance)
        asked = task.user_input
        shown = task.unit.span.text
    words, known = (re.findall(r"\w+", text.casefold()) for text in (asked, shown))
    return sum(word in set(known) for word in words) / len(words)


def test_half_of_the_items_of_a_passage_have_each_label() -> None:
    """32 x (4 + 4) statements and 32 x (2 + 2) of relevance: 384. 48 x (1 + 1) are answers."""
    assert (len(passages()), len(probes()), len(answer_probes())) == (32, 384, 96)
    assert len(set(probe_tasks())) == 384 + 128 + 96
    for passage in passages():
        own = [item for item in probes() if item.passage == passage.title]
        expected = {(Attribution, 1): 4, (Attribution, 0): 4, (Relevance, 1): 2, (Relevance, 0): 2}
        assert Counter((type(item.task), item.answer) for item in own) == expected


@pytest.mark.parametrize("count", [8, 16, 24, 32])
def test_the_first_passages_have_the_same_mix_of_kinds_as_all(count: int) -> None:
    every, few = (Counter(item.kind for item in probes(number)) for number in (None, count))
    assert all(abs(few[kind] - every[kind] * count / 32) <= 2 * count / 8 for kind in every)
    assert set(few) == set(every)


def test_a_minimal_pair_differs_in_one_place() -> None:
    """The unsupported statement replaces one piece of at most twelve words."""
    texts = {(item.passage, item.kind): item.task.unit.span.text for item in probes()}
    pairs = [item for item in probes() if item.changed_from]
    assert {item.kind for item in pairs} == set(CHANGED)
    for item in pairs:
        passage = next(passage for passage in passages() if passage.title == item.passage)
        base, old, new = getattr(passage, item.kind)
        assert base == item.changed_from
        assert texts[item.passage, base].count(old) == 1
        assert (
            texts[item.passage, base]
            != item.task.unit.span.text
            == texts[item.passage, base].replace(old, new)
        )
        assert len(new.split()) <= 12


def test_shared_words_and_length_do_not_predict_the_label() -> None:
    """Shared words have an AUC near .5; 25 to 75 % of the denials are supported."""
    for kind in ("statement", "chunk"):
        items = [item for item in probes() if item.task.unit.kind == kind]
        assert (
            0.35
            < roc_auc([item.answer for item in items], [covered(item.task) for item in items])
            < 0.62
        ), kind
    items = attribution(probes())
    assert (
        0.35
        < roc_auc(
            [item.answer for item in items], [len(item.task.unit.span.text) for item in items]
        )
        < 0.65
    )
    with_no = [
        item.answer for item in items if re.search(r"\b(not|no|cannot)\b", item.task.unit.span.text)
    ]
    assert 0.25 <= sum(with_no) / len(with_no) <= 0.75


def test_arrangements_have_the_same_evidence_and_balanced_labels() -> None:
    """8 passages x 4 statements: needed chunk last, others swapped, needed chunk twice.

    No chunk is new.
    """
    labels = {
        (item.passage, item.task.unit.span.text): item.answer for item in attribution(probes())
    }
    for place, (before, after) in enumerate(rearranged()):
        assert before.unit == after.unit
        assert set(before.contexts) == set(after.contexts)
        assert before.contexts != after.contexts
        assert before.contexts[0] == after.contexts[-1 if place % 3 == 0 else 0]
    titles = {passage.whole: passage.title for passage in passages()}
    arranged = [
        labels[titles[before.contexts[0]], before.unit.span.text] for before, _ in rearranged()
    ]
    assert sum(arranged) == len(arranged) / 2 == 48


GOOD = ("short", "full", "long", "restated", "no")
POOR = ("refusal", "evasion", "question_again", "off_point", "other_part", "vague")


@pytest.mark.parametrize(("passage_count", "questions"), [(1, 1), (7, 10), (8, 12), (32, 48)])
def test_questions_with_answers_have_each_kind_and_language_equally_often(
    passage_count: int, questions: int
) -> None:
    """Poor kinds are 8 of 48 questions each, in each language once; good kinds are 9 or 10."""
    items = answer_probes(passage_count)
    assert Counter(item.answer for item in items) == {1: questions, 0: questions}
    kinds: Counter[str] = Counter(item.kind for item in items)
    if questions >= 12:
        assert {kinds[kind] for kind in POOR} == {questions // 6}
        assert {kinds[kind] for kind in GOOD} <= {questions // 5, questions // 5 + 1}
    if questions == 48:
        others: Counter[tuple[str, str]] = Counter(
            (each.language, each.poor[0]) for each in answered_questions()
        )
        assert {others[language, kind] for language in ("de", "fr", "es") for kind in POOR} == {1}
        assert {others["en", kind] for kind in POOR} == {5}


def test_shared_words_and_length_do_not_predict_whether_a_sentence_answers() -> None:
    """Counting the question's words in the sentence puts about half of the pairs right."""
    items = answer_probes()
    labels = [item.answer for item in items]
    counted = []
    for item in items:
        words = set(re.findall(r"\w+", item.task.unit.text.casefold()))
        asked = re.findall(r"\w+", item.passage.casefold())
        counted.append(sum(word in words for word in asked) / len(asked))
    assert 0.4 < roc_auc(labels, counted) < 0.6
    assert 0.4 < roc_auc(labels, [len(item.task.unit.text) for item in items]) < 0.6


def test_answers_are_asked_exactly_as_by_answer_relevancy() -> None:
    metric = catalog.get("answer_relevancy")
    for item in answer_probes():
        response = item.task.unit.text
        sample = Sample(id="a", user_input=item.passage, response=response)
        assert next(metric.steps(sample, sentences)) == [item.task]
