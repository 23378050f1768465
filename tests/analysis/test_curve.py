"""How mean and interval closed in: in the order of the draws, whole groups at once, up to the numbers of the run."""

import hashlib
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from localjudge import Run, ScriptedEngine, evaluate
from localjudge.analysis.curve import curves
from localjudge.stats.sequence import sequence_interval

NEVER = 0.001
"""A width that no interval of so few samples has: the run ends with the last of them."""


def scored(out: Path, shares: Mapping[str, float | None], groups: Mapping[str, str] | None = None, **more: Any) -> Run:
    """A run whose samples have these scores, 0, 1/2 or 1; None for one without a reference, which is undefined."""
    sentences = {0.0: "No. No.", 0.5: "Yes. No.", 1.0: "Yes. Yes.", None: None}
    rows = [
        {"id": name, "retrieved_contexts": ["A."], "reference": sentences[share], "group": groups and groups[name]}
        for name, share in shares.items()
    ]
    engine = ScriptedEngine({"No.": 0.1}, default=0.9)
    options: dict[str, Any] = {"cluster_by": "group"} if groups else {}
    return evaluate(rows, metrics=["context_recall"], engine=engine, out=out / "run", width=NEVER, **options, **more)


def drawn(names: list[str], seed: int) -> list[str]:
    return sorted(names, key=lambda name: hashlib.sha256(f"{seed}|{name}".encode()).hexdigest())


@pytest.mark.parametrize("seed", [0, 7])
def test_the_means_are_those_of_the_first_samples_drawn(tmp_path: Path, seed: int) -> None:
    """Six samples: a point at each, since six times (k / 40) squared, rounded up, passes all numbers."""
    shares: dict[str, float] = {"a": 1.0, "b": 0.0, "c": 0.5, "d": 1.0, "e": 0.5, "f": 0.0}
    run = scored(tmp_path, shares, seed=seed)
    (points,) = curves(run).values()
    values = [shares[name] for name in drawn(list(shares), seed)]
    assert [point.samples for point in points] == [1, 2, 3, 4, 5, 6]
    means = [total / (place + 1) for place, total in enumerate(accumulate(values))]
    assert [point.interval.mean for point in points] == pytest.approx(means)
    assert points[2].interval == sequence_interval(values[:3])
    assert points[-1].interval == run["context_recall"].interval


def test_groups_come_whole_and_the_last_point_is_the_run(tmp_path: Path) -> None:
    """Three groups of 3, 2 and 1 samples: three points, each bet at most a third of what the largest could lose."""
    groups = {"a": "x", "b": "x", "c": "x", "d": "y", "e": "y", "f": "z"}
    shares = {"a": 1.0, "b": 0.0, "c": 0.5, "d": 1.0, "e": 0.5, "f": 0.0}
    run = scored(tmp_path, shares, groups)
    (points,) = curves(run).values()
    order = drawn(["x", "y", "z"], 0)
    sizes = {"x": 3, "y": 2, "z": 1}
    assert [point.samples for point in points] == list(accumulate(sizes[name] for name in order))
    first = [share for name, share in shares.items() if groups[name] == order[0]]
    assert points[0].interval == sequence_interval(first, clusters=[0] * len(first), largest=3)
    assert points[-1].interval == run["context_recall"].interval


def test_a_sample_without_a_score_moves_no_mean(tmp_path: Path) -> None:
    """It was judged, and counts on the axis; before the first score there is no point."""
    first, second, third = drawn(["a", "b", "c"], 0)
    run = scored(tmp_path, {first: None, second: 1.0, third: None})
    assert [(point.samples, point.interval.mean) for point in curves(run)["context_recall"]] == [(2, 1.0), (3, 1.0)]


def test_of_many_samples_there_are_forty_points_at_most(tmp_path: Path) -> None:
    run = scored(tmp_path, {f"s{number}": float(number % 2) for number in range(500)})
    points = curves(run)["context_recall"]
    assert len(points) <= 40
    assert (points[0].samples, points[-1].samples) == (1, 500)
    assert points[-1].interval == run["context_recall"].interval


def test_where_no_score_says_when_to_stop_there_is_no_curve(tmp_path: Path) -> None:
    rows = [{"id": "a", "retrieved_contexts": ["A."], "reference": "Yes."}]
    run = evaluate(rows, metrics=["context_recall"], engine=ScriptedEngine({}, default=0.9), out=tmp_path / "run")
    assert curves(run) == {}
