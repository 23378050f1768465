"""Verdicts on a sentence against each context alone are shown as a matrix."""

import io
from pathlib import Path
from typing import Any

from rich.console import Console

from localjudge import Run, ScriptedEngine, evaluate
from localjudge.report.sample import verdicts_view
from localjudge.types import VerdictRequest

ROW = {"id": "a", "reference": "It rains. It is red.", "response": "It snows.", "retrieved_contexts": ["wet", "cold"]}


def _wet_is_sure(request: VerdictRequest) -> float:
    """A context that says `wet` supports what rains."""
    text = "".join(piece.text for node in request.path for piece in node)
    return 0.9 if "wet" in text and "It rains." in text else 0.2


def run_of(out: Path, *metrics: str, rows: list[dict[str, Any]] | None = None) -> Run:
    return evaluate(rows or [ROW], metrics=list(metrics), engine=ScriptedEngine(_wet_is_sure), out=out)


def lines_of(run: Run, width: int = 80) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=width).print(verdicts_view(run))
    return [line.strip() for line in stream.getvalue().splitlines()]


def test_a_matrix_is_shown_once_for_all_metrics_that_are_read_off_it(tmp_path: Path) -> None:
    """One of two sentences is supported, by the first of two contexts."""
    assert lines_of(run_of(tmp_path, "matrix_recall", "matrix_recall@1", "matrix_precision")) == [
        "a: matrix_recall 1/2 = 0.500 (marginal value by chunk: 0.500, 0.000)",
        "a: matrix_precision 1/2 = 0.500",
        "a: matrix_recall@1 1/2 = 0.500",
        "[0]      [1]",
        "1 0.900  0 0.200  It rains.",
        "0 0.200  0 0.200  It is red.",
    ]


def test_sentences_of_response_and_reference_are_matrices_of_their_own(tmp_path: Path) -> None:
    assert lines_of(run_of(tmp_path, "noise_sensitivity"))[1:] == [
        "ref.     [0]      [1]",
        "0 0.200  0 0.200  0 0.200  It snows.",
        "",
        "[0]      [1]",
        "1 0.900  0 0.200  It rains.",
        "0 0.200  0 0.200  It is red.",
    ]


def test_metrics_with_lists_of_units_are_not_put_together(tmp_path: Path) -> None:
    """Both ask about the same sentences, in other words."""
    text = "\n".join(lines_of(run_of(tmp_path, "context_recall", "matrix_recall")))
    assert text.count("It rains.") == 2


def test_a_matrix_that_is_too_wide_keeps_its_labels(tmp_path: Path) -> None:
    """Twelve contexts of nine columns each do not fit 80; twelve labels of three columns each do."""
    contexts = ["wet", *(f"dry {number}" for number in range(11))]
    lines = lines_of(run_of(tmp_path, "matrix_recall", rows=[{**ROW, "retrieved_contexts": contexts}]))
    assert lines[-3].split() == [str(number) for number in range(12)]
    assert lines[-2].split() == ["1", *["0"] * 11, "It", "rains."]
