import csv
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import printed_lines, printed_slices
from human_labels import draw

from localjudge import InputError, Run
from localjudge.analysis.gates import parse_gate
from localjudge.labels.drawing import draw_again
from localjudge.labels.units import unit_frames
from localjudge.run_directory.label_rows import stored_labels
from tests.analysis.conftest import expect, label, labels_of
from tests.cli.conftest import called
from tests.conftest import ScriptedRun

METRIC = "faithfulness"
SIZES = {"big": 60, "mid": 30, "small": 24}
SAYS = (0.7, 0.3)
"""The judge's probabilities for even and odd samples of a slice: labels 1 and 0 of equal
uncertainty.
"""


def sentence(number: int, value: str) -> str:
    return f"Fact {number} of {value} is so."


def label_text(text: str) -> int:
    """The judge is wrong about every fifth sentence."""
    number = int(text.split()[1])
    return (number + 1) % 2 if number % 5 else number % 2


@pytest.fixture
def departments(scripted_run: ScriptedRun) -> Callable[..., Run]:
    """Create a run of one sentence per sample in slices of these sizes, filled in turn."""

    def run(name: str = "run", sizes: dict[str, int] = SIZES, **options: Any) -> Run:
        places = [
            (turn, value)
            for turn in range(max(sizes.values()))
            for value, size in sizes.items()
            if turn < size
        ]
        rows = [
            {
                "id": f"{value}{number}",
                "user_input": "Why?",
                "retrieved_contexts": [f"All of {number}."],
                "response": sentence(number, value),
                "department": value,
            }
            for number, value in places
        ]
        script = {sentence(number, value): SAYS[number % 2] for number, value in places}
        return scripted_run(name, rows, script, metrics=[METRIC], **options)

    return run


def correct_slices(run: Run, column: str = "department") -> dict[str | None, dict[str, Any]]:
    """Return the corrected mean of each slice."""
    return {part["value"]: part["corrected"][METRIC] for part in printed_slices(run, column)}


def test_a_drawing_by_a_column_gives_each_slice_the_same_share(
    departments: Callable[..., Run],
) -> None:
    """Slices of 60, 30, 24 and 3 + 3 samples.

    Those of 3 cannot have an interval and are one part: four parts of 1/4.

    All uncertainties are equal, so a statement has 1/4 of 1/60, 1/30, 1/24 or 1/6.
    """
    run = departments(sizes={**SIZES, "one": 3, "two": 3})
    rows = stored_labels(label(run, label_text, 120, by="department").directory)
    value_of = read_values(run)
    shares = {value_of[row.sample_id]: row.size_share for row in rows}
    sizes = {"big": 60, "mid": 30, "small": 24, "one": 6, "two": 6}
    assert shares == {value: pytest.approx(1 / (4 * size)) for value, size in sizes.items()}
    counts = Counter(value_of[row.sample_id] for row in rows[:24])
    assert all(5 <= counts[value] <= 7 for value in SIZES)


def read_values(run: Run) -> dict[str, str]:
    return {name: str(extras["department"]) for name, extras in run.iter_extras()}


def test_statements_that_a_second_annotator_was_not_shown_are_no_warning(
    departments: Callable[..., Run],
) -> None:
    """Bob labels 25 of the 40 statements that Ann labelled."""
    run = label(departments(), label_text, 40, by="department")
    label(run, label_text, 25, "bob", again=True, by="department")
    found = labels_of(run)
    assert found.annotators["bob"] == 25
    assert found.passed_over == 0
    skipping = draw(run, "cy", 90, seed=6)
    skipping.skip()
    for _ in range(5):
        skipping.answer(0)
    assert getattr(run.labels, "passed_over", None) == 1


def test_a_drawing_by_a_column_is_reproduced_from_its_name(departments: Callable[..., Run]) -> None:
    run = departments()
    label(run, label_text, 60, by="department")
    rows = stored_labels(run.directory)
    frames = unit_frames(run)
    name = rows[0].draw
    assert name is not None
    assert name.endswith(' by "department"')
    drawing = draw_again(name, frames, 60)
    assert drawing is not None
    drawn = [(row.key, row.size_share, row.draw_index) for row in rows]
    assert drawn == [(each.key, each.size_share, each.draw_index) for each in drawing.statements]
    for other in (
        name.replace("department", "ward"),
        name.removesuffix(' by "department"'),
        f'{name} "',
    ):
        assert draw_again(other, frames, 60) is None
    with pytest.raises(InputError, match="no column ward"):
        label(run, by="ward")


def test_a_slice_is_corrected_by_its_own_labels(departments: Callable[..., Run]) -> None:
    """Weights and chances are equal within a slice; the strata are the judge's 1 and 0, half each.

    corrected = 1/2 (human mean of the labelled 1) + 1/2 (human mean of the labelled 0), for any
    lambda
    """
    run = label(departments(), label_text, 75, by="department")
    texts = {row.text: row.sample_id for row in stored_labels(run.directory)}
    value_of = read_values(run)
    for value, mean in correct_slices(run).items():
        order = [text for text, sample in texts.items() if value_of[sample] == value][:20]
        assert (len(order), mean["labels"], mean["statements"]) == (20, 20, SIZES[str(value)])
        halves: list[list[int]] = [[], []]
        for text in order:
            halves[int(text.split()[1]) % 2].append(label_text(text))
        assert mean["mean"] == pytest.approx(sum(sum(half) / len(half) / 2 for half in halves))
        assert mean["ci95"] is not None


def test_a_statement_of_two_slices_counts_in_both(scripted_run: ScriptedRun) -> None:
    """Twelve samples of x and all twelve of y have the same unsupported sentence, twelve of x have
    supported ones.
    """
    kinds = [("x", True)] * 12 + [("y", True)] * 12 + [("x", False)] * 12
    rows = [
        {
            "id": str(number),
            "retrieved_contexts": ["All."],
            "response": "Shared." if is_shared else f"Fact {number}.",
            "slice": value,
        }
        for number, (value, is_shared) in enumerate(kinds)
    ]
    run = label(
        scripted_run("run", rows, {}, metrics=[METRIC]), lambda text: int(text != "Shared.")
    )
    parts = correct_slices(run, "slice")
    assert {value: (mean["mean"], mean["statements"]) for value, mean in parts.items()} == {
        "x": (0.5, 13),
        "y": (0.0, 1),
    }


def test_too_low_agreement_settles_no_slice(departments: Callable[..., Run]) -> None:
    run = label(departments(), label_text, 75, by="department")
    label(run, lambda text: 1 - label_text(text), 15, "bob", again=True, by="department")
    means = correct_slices(run)
    assert all(mean["mean"] is None and mean["unsettled"] == 15 for mean in means.values())


def test_slices_of_a_comparison_are_corrected(departments: Callable[..., Run]) -> None:
    """With all labels equal in both runs, the corrected difference is 0, and the judge's is not."""
    before = departments("before")
    after = departments("after", threshold=0.8)
    label(before, label_text)
    label(after, label_text)
    changes = after.compare(before, by="department").by
    assert changes is not None
    for part in changes.slices:
        change = part.metrics[METRIC]
        assert change.headline is not None
        assert change.headline.difference == pytest.approx(0)
        assert change.scores is not None
        assert change.scores.difference == -0.5


def test_the_command_names_the_slices_that_lack_labels(
    departments: Callable[..., Run],
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    run = departments(sizes={**SIZES, "tiny": 3})
    sheet = tmp_path / "sheet.csv"
    options = ("--by", "department", "--sample", "70", "--annotator", "ann", "--out", sheet)
    assert called(capfd, "label", run.directory, *options)[0] == 0
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        next(file)  # the instruction
        rows = list(csv.DictReader(file))
    value_of = read_values(run)
    left = 0
    for row in rows:
        row["human"] = str(label_text(row["statement"]))
        if value_of[row["sample_id"]] == "mid":
            left += 1
            if left > 15:  # leave the last labels of one slice empty
                row["human"] = ""
    with sheet.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    assert len(rows) == 70
    assert called(capfd, "label", run.directory, "--read", sheet)[0] == 0
    out = called(capfd, "show", run.directory, "--by", "department")[1]
    for value in ("big", "mid", "small", "tiny"):
        by = "15 labels, 20 needed" if value == "mid" else "labels"
        assert next(line for line in out.splitlines() if f" {value} " in line).endswith(by)
    assert re.search("faithfulness: not corrected, .*: mid 5", out)
    compared = called(
        capfd, "compare", run.directory, run.directory, "--by", "department", "--moved", "0"
    )[1]
    assert re.search(r"\b20 labels\b.* 15: mid\b", " ".join(compared.split()))


@pytest.mark.parametrize(
    ("text", "metric", "column", "value"),
    [
        ("a[b=c]>=0.5", "a", "b", "c"),
        ("a@3(x=id)[b.c=d e]<0.5", "a@3(x=id)", "b.c", "d e"),
        ("a[b=c[1]=>].delta>0.5", "a", "b", "c[1]=>"),
        ('a["b=c"=d]>=0.5', "a", "b=c", "d"),
        ('a["b[1]"=d=e].delta>=0.5', "a", "b[1]", "d=e"),
    ],
)
def test_a_gate_can_name_a_slice(text: str, metric: str, column: str, value: str) -> None:
    gate = parse_gate(text)
    expect(gate, metric=metric, column=column, value=value, threshold=0.5)
    assert gate.delta == (".delta" in text)
    assert str(gate) == text


def test_a_gate_on_a_slice_uses_its_corrected_mean(departments: Callable[..., Run]) -> None:
    """Or it is undecided, and then it says how many labels it has and needs."""
    run = label(departments(), label_text, 75, by="department")
    label_of_big = correct_slices(run)["big"]
    of_big, of_whole = run.check([f"{METRIC}[department=big]>=0.1", f"{METRIC}>=0.1"]).decisions
    expect(of_big, value=label_of_big["mean"], ci95=(*label_of_big["ci95"],), corrected=True)
    assert of_big.samples == SIZES["big"]
    assert of_whole.samples == sum(SIZES.values())
    few = label(departments("few"), label_text, 30, by="department")
    [decision] = few.check([f"{METRIC}[department=mid]>=0.1"]).decisions
    of_mid = correct_slices(few)["mid"]
    expect(decision, outcome="undecided", value=None, ci95=None, corrected=False)
    assert (decision.labels, decision.labels_needed) == (of_mid["labelled"], 20)
    assert decision.reason.startswith(f"{of_mid['labelled']} labels, 20 needed; ")


def test_a_gate_on_the_difference_of_a_slice_uses_its_pairs(
    departments: Callable[..., Run],
) -> None:
    before, after = (label(departments(name), label_text) for name in ("before", "after"))
    gate = f"{METRIC}[department=small].delta>=0"
    [decision] = after.check([gate], baseline=before).decisions
    expect(decision, gate=gate, samples=SIZES["small"], corrected=True, value=0)


def test_a_gate_on_an_unknown_slice_is_refused(departments: Callable[..., Run]) -> None:
    run = departments()
    with pytest.raises(
        InputError,
        match=r"column department .*\n  hint: did you mean small",
    ):
        run.check([f"{METRIC}[department=smal]>=0.5"])
    with pytest.raises(InputError, match="no column ward"):
        run.check([f"{METRIC}[ward=1]>=0.5"])
    with pytest.raises(InputError, match="is about a slice"):
        departments("until", until=[f"{METRIC}[department=big]>=0.5"])


def test_the_report_states_a_gate_on_a_slice(
    departments: Callable[..., Run], capfd: pytest.CaptureFixture[str]
) -> None:
    run = label(departments(), label_text, 75, by="department")
    gate = f"{METRIC}[department=big]>=0.9"
    code, out, _ = called(capfd, "report", run.directory, "--gate", gate)
    assert code == 3
    assert gate in "".join(out.split())
    assert (
        "faithfulness (department big) is at least 0.9"
        in (run.directory / "report.html").read_text()
    )


@pytest.mark.parametrize(
    ("labels", "each", "expected"), [(30, 10, "too few"), (75, 25, "about 0.41 wide")]
)
def test_the_width_of_slices_is_stated_before_the_work(
    departments: Callable[..., Run], labels: int, each: int, expected: str
) -> None:
    """Three slices. With 25 labels each: 2 x 2.064 x 0.5 / 5 = 0.413."""
    [outlook] = draw(departments(), "ann", labels, by="department").remarks
    assert f"about {each} labels for each of 3 slices" in outlook
    assert expected in outlook


def test_the_stated_width_of_slices_counts_looks_already_taken(
    departments: Callable[..., Run],
) -> None:
    """With 60 labels, 75 for three slices give 25 each; 20 of these count, at the confidence of 20.

    Student's t with 19 degrees of freedom at 99.95 % is 4.187 (SciPy), so 2 x 4.187 x 0.5 /
    sqrt(20) = 0.936.
    """
    run = label(departments(), label_text, 60)
    [outlook] = draw(run, "ann", 75, by="department").remarks
    assert "about 0.94 wide" in outlook
    assert "20 labels count" in outlook


def test_a_comparison_by_a_column_says_why_its_means_may_differ(
    departments: Callable[..., Run],
) -> None:
    before, after = (label(departments(name), label_text) for name in ("before", "after"))
    lines = printed_lines("compare", before, after, "--by", "department", width=400)
    assert [line for line in lines if "a slice's means may differ" in line]


def test_the_judge_s_difference_of_a_slice_is_not_quoted_against_labels(
    departments: Callable[..., Run],
) -> None:
    """60 labels of each run are enough for the largest slice only."""
    before = label(departments("before"), label_text, n=60)
    after = label(departments("after", threshold=0.6), label_text, n=60)
    comparison = after.compare(before, by="department")
    assert comparison.by is not None
    parts = {part.value: part.metrics[METRIC] for part in comparison.by.slices}
    assert parts["big"].quoted.basis == "labels"
    small = parts["small"]
    assert small.scores is not None
    assert (small.quoted.mean, small.quoted.basis) == (None, "too few labels")
    assert re.fullmatch(r"\d+ labels? in one run, 20 needed", small.shortage)
    lines = printed_lines("compare", before, after, "--by", "department", width=200)
    [line] = [line for line in lines if line.strip().startswith("small")]
    assert line.split()[1:6] == ["24/24", "-", "-", "-", "-"]
    assert not [line for line in lines if "judge only" in line and "24/24" in line]
    gate = f"{METRIC}[department=small].delta>=-1"
    [decision] = after.check([gate], baseline=before).decisions
    assert (decision.outcome, decision.value) == ("undecided", None)


def test_the_judge_s_difference_is_not_quoted_against_too_few_labels(
    departments: Callable[..., Run],
) -> None:
    before = label(departments("before"), label_text, n=10)
    after = label(departments("after", threshold=0.6), label_text, n=10)
    comparison = after.compare(before)
    quoted = comparison.metrics[METRIC].quoted
    assert (quoted.mean, quoted.basis) == (None, "too few labels")
    lines = printed_lines("compare", before, after)
    headline = next(line for line in lines if line.strip().startswith(f"{METRIC} "))
    assert headline.split()[1:] == ["-", "-", "-", "-"]
    assert [line for line in lines if line.strip().startswith("judge only ")]
    assert not [line for line in lines if "better than" in line or "worse than" in line]


def test_better_and_worse_samples_are_by_the_judge_only(departments: Callable[..., Run]) -> None:
    """Labels correct the difference, and not the numbers of changed samples below it."""
    before = label(departments("before"), label_text, n=60)
    after = label(departments("after", threshold=0.6), label_text, n=60)
    comparison = after.compare(before)
    change = comparison.metrics[METRIC]
    assert change.headline is not None
    quoted = change.quoted
    assert (quoted.mean, quoted.basis) == (change.headline.difference, "labels")
    assert quoted.ci95 == change.headline.ci95
    lines = printed_lines("compare", before, after)
    assert [line for line in lines if line.strip().startswith("by the judge ")]
    without = departments("d").compare(departments("c")).metrics[METRIC]
    assert without.scores is not None
    assert (without.quoted.mean, without.quoted.basis) == (without.scores.difference, "judge")
    assert without.quoted.ci95 == without.scores.ci95
