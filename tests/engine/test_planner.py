"""The walk over the tree of requests: every distinct node is evaluated once, and nothing is left out."""

import random
from collections.abc import Sequence
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge.engine.decoding import TokenPath, depth_first, distinct_tokens, shared_nodes
from localjudge.judge import profile as prompts
from localjudge.judge.wording import PromptWriter
from localjudge.types import Attribution, Relevance, Span, Unit, VerdictRequest
from tests.engine.conftest import ModelMaker, Opener

pytestmark = pytest.mark.engine

nodes = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple)
paths = st.lists(nodes, min_size=1, max_size=4).map(tuple)
trees = st.lists(paths, max_size=8)


def evaluated(order: Sequence[TokenPath]) -> int:
    """Tokens that are evaluated when the paths follow each other, one resident at a time."""
    resident: TokenPath = ()
    total = 0
    for path in order:
        total += sum(map(len, path[shared_nodes(resident, path) :]))
        resident = path
    return total


@settings(deadline=None)
@given(trees, st.randoms())
def test_the_walk_evaluates_every_distinct_node_once(tree: list[TokenPath], chance: random.Random) -> None:
    """Every request is visited; one that is the beginning of another before it, so neither is paid for twice."""
    assert sorted(depth_first(tree)) == list(range(len(tree)))
    assert evaluated([tree[index] for index in depth_first(tree)]) == distinct_tokens(tree)
    shuffled = chance.sample(tree, len(tree))
    assert distinct_tokens(shuffled) == distinct_tokens(tree) == distinct_tokens(tree + tree)


@settings(deadline=None, max_examples=50)
@given(st.lists(paths, max_size=5))
def test_no_order_is_cheaper(tree: list[TokenPath]) -> None:
    assert all(evaluated(order) >= distinct_tokens(tree) for order in permutations(tree))


def test_branches_are_visited_in_the_order_in_which_they_first_appear() -> None:
    """Answers of the first sample come first: a run that is stopped has finished the beginning of its data."""
    a, b, c = (1,), (2,), (3,)
    assert depth_first([(b, a), (a, b), (b, c), (a, c), (c,), (b, a)]) == [0, 5, 2, 1, 3, 4]


@given(paths, paths)
def test_shared_nodes_are_whole_nodes_from_the_beginning(left: TokenPath, right: TokenPath) -> None:
    count = shared_nodes(left, right)
    assert left[:count] == right[:count]
    assert count == min(len(left), len(right)) or left[count] != right[count]


@pytest.fixture
def sample() -> list[VerdictRequest]:
    """One sample under four metrics: recall and faithfulness share their contexts, relevancy its instructions."""
    judge = PromptWriter(prompts.load_profile("instruct"))
    contexts = ("The bridge opened in 1936.", "A toll of 50 cents was charged.")

    def unit(kind: str, text: str, source: str) -> Unit:
        span = Span.whole(text)
        return Unit.model_validate({"kind": kind, "index": 0, "source": source, "span": span})

    statements = [unit("statement", text, "reference") for text in ("It opened in 1936.", "A toll was charged.")]
    statements += [unit("statement", text, "response") for text in ("It is old.", "It costs 50 cents.")]
    sentences = [unit("sentence", text, "retrieved_contexts") for text in contexts]
    chunks = [unit("chunk", text, "retrieved_contexts") for text in contexts]
    return [
        *(judge.request(Attribution(unit=each, contexts=contexts, user_input="When?")) for each in statements),
        *(judge.request(Relevance(unit=each, user_input="When?")) for each in (*sentences, *chunks)),
    ]


@pytest.mark.parametrize("architecture", ["llama", "gemma2", "mamba", "lfm2"])
def test_several_metrics_on_one_sample_evaluate_each_distinct_token_once(
    make_model: ModelMaker, open_engine: Opener, sample: list[VerdictRequest], architecture: str
) -> None:
    """However the requests of the metrics are mixed: evaluated / unique is exactly 1. Apart, they take twice that."""
    engine = open_engine(make_model(architecture))
    list(engine.answers(sample[::2] + sample[1::2]))
    assert engine.stats.evaluated_tokens == engine.stats.unique_tokens > 0
    assert sum(map(engine.length, sample)) > 2 * engine.stats.unique_tokens
    assert engine.stats.generated_tokens == 0
    assert 0 < engine.stats.seconds_inside <= engine.stats.seconds_total
