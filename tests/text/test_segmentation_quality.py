"""Boundary F1 against human annotation, and the arithmetic of the benchmark itself."""

import runpy
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def benchmark() -> dict[str, Any]:
    return runpy.run_path(str(REPOSITORY / "scripts" / "bench-segmentation"))


@pytest.fixture(scope="module")
def documents(benchmark: dict[str, Any], labelled_data: Path) -> list[Any]:
    return list(benchmark["read"](labelled_data))


def test_a_boundary_does_not_depend_on_white_space(benchmark: dict[str, Any]) -> None:
    """In "Ab. Cd. E", 3 characters stand before the first boundary and 6 before the second; the last ends the text."""
    assert benchmark["boundaries"]("Ab. Cd. E", [3, 7, 9]) == benchmark["boundaries"]("Ab. Cd. E", [4, 8, 9]) == {3, 6}
    assert benchmark["boundaries"]("Ab. Cd. E", [3, 7, 9], count_last=True) == {3, 6, 7}


def test_quality_pools_documents(benchmark: dict[str, Any]) -> None:
    """Of 2 given boundaries 1 is annotated, of 3 annotated ones 1 is given: 1/2, 1/3, 2 * 1 / (2 + 3)."""
    document = benchmark["Document"]
    given = {"a b c": [1, 5], "d e f g": [3, 7]}
    annotated = [document("x", "a b c", [1, 3, 5]), document("x", "d e f g", [1, 7])]
    assert benchmark["quality"](annotated, given.__getitem__) == (1 / 2, 1 / 3, 2 / 5)


@pytest.mark.parametrize("dataset", ["UD_English-EWT", "UD_English-GUM"])
def test_the_rules_beat_the_sentencizer_by_a_hundredth(
    benchmark: dict[str, Any], documents: list[Any], dataset: str
) -> None:
    part = [document for document in documents if document.dataset == dataset]
    lines = benchmark["by_line"](benchmark["sentencizer"]())
    assert benchmark["quality"](part, benchmark["localjudge"]()).f1 > benchmark["quality"](part, lines).f1 + 0.01
