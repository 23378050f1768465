import random

from smollm2_judge.batches import (
    BEGIN,
    END,
    Branch,
    Group,
    branch_tokens,
    context_tokens,
    group_rows,
    mix,
    packs,
    short_first,
    steps,
)
from smollm2_judge.rows import Row


def letters(text: str) -> list[int]:
    """Return a token for each letter."""
    return [ord(letter) for letter in text]


def group(dataset: str, context: int, *branches: int) -> Group:
    """Return a group with lengths alone."""
    return Group(dataset, [0] * context, [Branch([0] * branch, 1) for branch in branches])


def test_a_prompt_is_the_context_then_the_question_then_the_statement() -> None:
    asked = [*context_tokens("C", letters), *branch_tokens("Q", "S", letters)]
    text = "".join({BEGIN: "<", END: ">"}.get(token) or chr(token) for token in asked)
    assert text == "<C<Question: Q<Statement: S>Supported?\n"


def test_without_a_question_its_part_is_left_out() -> None:
    assert branch_tokens(None, "S", letters) == [BEGIN, *letters("Statement: S"), END, *letters("Supported?\n")]


def test_statements_about_one_context_are_a_group() -> None:
    rows = [Row("rte", context, None, f"statement {i}", i % 2) for context in ("a", "b") for i in range(5)]
    groups = group_rows(rows, letters, random.Random(0), branches=4)
    assert sorted(len(each.branches) for each in groups) == [1, 1, 4, 4]
    assert sum(branch.label for each in groups for branch in each.branches) == 4


def test_every_part_of_the_order_has_the_shares_of_the_whole() -> None:
    groups = [group("a", 9, 1, 1)] * 600 + [group("b", 9, 1, 1)] * 600
    order = mix(groups, {"a": 0.75, "b": 0.25}, random.Random(0))
    assert len(order) == 1200
    for start in (0, 200, 400):
        assert 145 <= sum(each.dataset == "a" for each in order[start : start + 200]) <= 155


def test_short_rows_come_first_and_none_is_lost() -> None:
    groups = [group("a", 500, 1), group("a", 10, 1), group("a", 20, 1), group("a", 30, 1)]
    assert short_first(groups, limit=100, rows=2) == [groups[1], groups[2], groups[0], groups[3]]


def test_steps_have_enough_rows_and_packs_few_enough_tokens() -> None:
    groups = [group("a", 100, 10, 10)] * 10
    assert [sum(len(each.branches) for each in step) for step in steps(groups, 6)] == [6, 6, 6]
    made = packs(groups, 300)
    assert [len(pack) for pack in made] == [2] * 5
    assert len(packs([group("a", 500, 1)], 300)) == 1
