import random
from collections.abc import Sequence
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge.engine.protocol import (
    TokenPath,
    depth_first,
    distinct_tokens,
    require_room,
    shared_nodes,
)
from localjudge.metrics import SampleError
from tests.engine.conftest import Asker, ModelMaker, Opener

pytestmark = pytest.mark.engine

nodes = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple)
paths = st.lists(nodes, min_size=1, max_size=4).map(tuple)
trees = st.lists(paths, max_size=8)


def evaluated(order: Sequence[TokenPath]) -> int:
    resident: TokenPath = ()
    total = 0
    for path in order:
        total += sum(map(len, path[shared_nodes(resident, path) :]))
        resident = path
    return total


@given(trees, st.randoms())
def test_the_walk_evaluates_every_distinct_node_once(
    tree: list[TokenPath], chance: random.Random
) -> None:
    assert sorted(depth_first(tree)) == list(range(len(tree)))
    assert evaluated([tree[index] for index in depth_first(tree)]) == distinct_tokens(tree)
    shuffled = chance.sample(tree, len(tree))
    assert distinct_tokens(shuffled) == distinct_tokens(tree) == distinct_tokens(tree + tree)


@settings(max_examples=50)
@given(st.lists(paths, max_size=5))
def test_no_other_order_evaluates_fewer_tokens(tree: list[TokenPath]) -> None:
    assert all(evaluated(order) >= distinct_tokens(tree) for order in permutations(tree))


def test_branches_are_visited_in_the_order_in_which_they_first_appear() -> None:
    """A stopped run has finished the beginning of its data."""
    a = (1,)
    b = (2,)
    c = (3,)
    assert depth_first([(b, a), (a, b), (b, c), (a, c), (c,), (b, a)]) == [0, 5, 2, 1, 3, 4]


@given(paths, paths)
def test_shared_nodes_are_a_prefix_of_whole_nodes(left: TokenPath, right: TokenPath) -> None:
    count = shared_nodes(left, right)
    assert left[:count] == right[:count]
    assert count == min(len(left), len(right)) or left[count] != right[count]


@pytest.mark.parametrize("architecture", ["llama", "gemma2", "mamba", "lfm2"])
def test_several_metrics_on_one_sample_evaluate_each_distinct_token_once(
    make_model: ModelMaker, open_engine: Opener, ask: Asker, architecture: str
) -> None:
    """Evaluated / unique is 1 for any order of the requests; separate calls need twice that."""
    contexts = ["The bridge opened in 1936. " * 9, "A toll of 50 cents was charged. " * 9]
    sample = [
        ask(text, contexts) for text in ("It opened in 1936.", "It is old.", "It costs 50 cents.")
    ]
    sample += [
        ask(text, [context], grammar="relevant")
        for context in contexts
        for text in ("When?", "Where?")
    ]
    engine = open_engine(make_model(architecture))
    list(engine.answers(sample[::2] + sample[1::2]))
    assert engine.stats.evaluated_tokens == engine.stats.unique_tokens > 0
    assert sum(map(engine.length, sample)) > 2 * engine.stats.unique_tokens
    assert engine.stats.generated_tokens == 0
    assert 0 < engine.stats.seconds_inside <= engine.stats.seconds_total


@pytest.mark.parametrize(
    ("tokens", "capacity", "trained", "asks_for_more"),
    [(600, 512, 4096, True), (4096, 512, 4096, True), (600, 512, 512, False), (9, 4, 8, False)],
)
def test_a_larger_context_is_advised_only_if_the_model_has_it(
    tokens: int, capacity: int, trained: int, asks_for_more: bool
) -> None:
    """A model that was trained with 512 tokens ignores a larger n_ctx."""
    with pytest.raises(SampleError, match=f"{tokens} tokens.* holds {capacity}") as caught:
        require_room(tokens, capacity, trained, "the prompt has")
    hint = caught.value.hint or ""
    assert ("n_ctx" in hint) == asks_for_more
    assert str(trained) in hint


def test_what_fits_is_not_refused() -> None:
    require_room(512, 512, 512, "the prompt has")
