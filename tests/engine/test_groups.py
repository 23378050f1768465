"""Groups of requests, a cluster that is missing, and what may name one; without Ray."""

import subprocess
import sys
from collections import Counter, deque
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge import InputError, OutOfResource
from localjudge.engine.cluster import joined
from localjudge.engine.ray_engine import ask_again, group_by_prefix
from localjudge.judge.profile import load_grammar
from localjudge.types import Piece, VerdictRequest

MAX_REPEATS = 3

GRAMMAR = load_grammar("attributed")


def node(text: str) -> Any:
    return (Piece(text=text, trusted=True),)


def requests_with(paths: Sequence[Sequence[str]]) -> list[VerdictRequest]:
    return [VerdictRequest(tuple(map(node, path)), GRAMMAR) for path in paths]


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3), max_size=60))
def test_each_request_is_in_one_group_whose_requests_share_a_prefix(paths: list[list[str]]) -> None:
    requests = requests_with(paths)
    groups = group_by_prefix(requests)
    assert sorted(chain.from_iterable(groups)) == list(range(len(requests)))
    for group in groups:
        assert len({requests[index].path[:-1] for index in group}) == 1


def test_a_prefix_with_many_requests_is_for_several_workers() -> None:
    """70 = 32 + 32 + 6."""
    groups = group_by_prefix(requests_with([["context", str(number)] for number in range(70)]))
    assert [len(group) for group in groups] == [32, 32, 6]


def test_the_groups_of_a_metric_come_together() -> None:
    """Two metrics ask by turns; a worker evaluates the instructions of each once."""
    paths = [[metric, sample, "unit"] for sample in "xyz" for metric in "ab"]
    assert group_by_prefix(requests_with(paths)) == [(0,), (2,), (4,), (1,), (3,), (5,)]


def test_a_lost_group_is_asked_again_before_others_and_three_times_at_most() -> None:
    waiting = deque(group_by_prefix(requests_with([["a", "1"], ["b", "1"]])))
    losses: Counter[Any] = Counter()
    lost = waiting.popleft()
    for _ in range(MAX_REPEATS):
        ask_again(lost, waiting, losses)
        assert waiting.popleft() == lost
    with pytest.raises(OutOfResource, match="4 workers were lost"):
        ask_again(lost, waiting, losses)
    assert list(waiting) == [(1,)]


def test_an_address_of_a_server_is_refused_without_a_connection() -> None:
    with pytest.raises(InputError, match="is not the address of a Ray cluster"), joined("ray://a"):
        pytest.fail("joined")


def test_without_ray_the_error_says_how_to_install_it(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text('{"retrieved_contexts": ["x"], "response": "y"}\n')
    program = (
        "import sys\n"
        "sys.modules['ray'] = None\n"
        "from localjudge.cli.main import main\n"
        "main(['run', 'data.jsonl', '--ray', 'auto', '--out', 'run'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "--ray needs a package that is not installed" in done.stderr
    assert "pip install '.[ray]'" in done.stderr
    assert not (tmp_path / "run").exists()
