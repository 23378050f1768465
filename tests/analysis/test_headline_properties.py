"""Whatever the labels: no gate passes by the judge where labels do not suffice, and all labels give
their mean.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from command_line import printed_lines, printed_slices
from human_labels import draw
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localjudge import Run, ScriptedEngine, evaluate
from localjudge.metrics import Label
from tests.analysis.conftest import labels_of, written

METRIC = "faithfulness"
SAMPLES = 24
STATEMENTS = 30
"""Samples 0, 4, 8, ... have two statements, others one."""
OFTEN = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
PERCENT = st.integers(0, 100).map(lambda number: number / 100)
HUMANS = st.lists(st.sampled_from([0, 1, None]), min_size=STATEMENTS, max_size=STATEMENTS)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Create a run in which the judge supports every statement, with a slice of 9 samples."""
    rows = [
        {
            "id": f"s{n}",
            "user_input": "?",
            "unit": "ward" if n < 9 else "lab",
            "retrieved_contexts": ["Text."],
            "response": f"Fact {n} is red." + (f" Fact {n} is blue." if n % 4 == 0 else ""),
        }
        for n in range(SAMPLES)
    ]
    engine = ScriptedEngine({}, default=0.9)
    return evaluate(
        rows, metrics=[METRIC], engine=engine, out=tmp_path_factory.mktemp("runs") / "run"
    )


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with TemporaryDirectory() as name:
        yield Path(name)


def labelled(
    template: Run, folder: Path, humans: list[Label | None]
) -> tuple[Run, dict[tuple[str, int], Label]]:
    """Return a copy of the run with these labels in the order of a sheet, None for no label."""
    directory = folder / "run"
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(template.directory, directory)
    run = Run.open(directory)
    rows = draw(run, "ann", STATEMENTS).rows_to_send()
    assert len(rows) == STATEMENTS
    filled = [
        {**row, "human": human, "source_text": None}
        for row, human in zip(rows, humans, strict=True)
    ]
    if any(human is not None for human in humans):
        run.read_labels(written(folder / "sheet.jsonl", *filled), "ann")
    labels = {
        (row["sample_id"], row["position"]): row["human"]
        for row in filled
        if row["human"] is not None
    }
    return run, labels


@OFTEN
@given(
    humans=HUMANS,
    threshold=PERCENT,
    slice_name=st.sampled_from(["", "[unit=ward]", "[unit=lab]"]),
)
def test_a_gate_passes_only_by_the_interval_of_labels_that_suffice(
    template: Run, folder: Path, humans: list[Label | None], threshold: float, slice_name: str
) -> None:
    run, labels = labelled(template, folder, humans)
    [decision] = run.check([f"{METRIC}{slice_name}>={threshold}"]).decisions
    if not labels:
        assert not decision.corrected
        return
    if decision.outcome == "undecided":
        assert not decision.passed
        return
    assert decision.corrected
    assert decision.ci95 is not None
    low, high = decision.ci95
    assert (low >= threshold) if decision.passed else (high < threshold)


@OFTEN
@given(humans=HUMANS)
def test_too_few_labels_leave_no_mean_in_any_view(
    template: Run, folder: Path, humans: list[Label | None]
) -> None:
    """Twenty labels in ten samples, or labels of all statements, suffice; the judge's mean is never
    the headline.
    """
    run, labels = labelled(template, folder, humans)
    stored = run.labels
    if stored is None:
        assert not labels
        return
    headline = run[METRIC].headline
    suffices = len(labels) == STATEMENTS or (
        len(labels) >= 20 and len({sample for sample, _ in labels}) >= 10
    )
    assert headline.basis == ("labels" if suffices else "too few labels")
    assert (headline.mean is not None) == suffices
    table = printed_lines("show", run, "--by", "unit", width=200)
    for value in ("ward", "lab"):
        wards = {place for place in labels if (int(place[0][1:]) < 9) == (value == "ward")}
        row_of_value = re.compile(rf"\b{value} +\d+ +[\d.-]+ +[\d.-]")
        [row] = filter(row_of_value.search, table)
        assert row.endswith(("judge", "judge only", "labels", "label", "needed")), row
        assert wards or not re.search(r"\d labels?$", row)
        assert not wards or "judge" not in row


@OFTEN
@given(humans=st.lists(st.sampled_from([0, 1]), min_size=STATEMENTS, max_size=STATEMENTS))
def test_labels_of_all_statements_give_their_mean(
    template: Run, folder: Path, humans: list[Label | None]
) -> None:
    """The mean over samples of the share of 1, for the run and each slice, for any verdicts."""
    run, labels = labelled(template, folder, humans)
    stored = labels_of(run)

    def compute_mean(numbers: range) -> float:
        shares = []
        for number in numbers:
            own = [human for (sample, _), human in labels.items() if sample == f"s{number}"]
            shares.append(sum(own) / len(own))
        return sum(shares) / len(shares)

    assert stored.corrected[METRIC].mean == pytest.approx(compute_mean(range(SAMPLES)))
    parts = printed_slices(run, "unit")
    means = {part["value"]: part["corrected"][METRIC]["mean"] for part in parts}
    assert means == pytest.approx(
        {"ward": compute_mean(range(9)), "lab": compute_mean(range(9, SAMPLES))}
    )
