"""Nothing claims what the labels deny: gates, headlines and slices of runs with labels of 0."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import gate_file, printed, printed_lines

from localjudge import Run
from localjudge.labels.matched_labels import LabelCounts
from localjudge.stats.agreement import mcnemar_test
from localjudge.stats.interval import clopper_pearson, mean_interval
from tests.analysis.conftest import corrected, expect, label, labels_of
from tests.conftest import ScriptedRun
from tests.report.conftest import PageReader

METRIC = "faithfulness"


@pytest.fixture
def lenient_run(scripted_run: ScriptedRun) -> Callable[..., Run]:
    """Create runs with only verdicts of 1: 40 samples of two sentences, nine in the unit `ward`."""

    def run(name: str = "run", **options: Any) -> Run:
        rows = [
            {
                "id": f"s{number}",
                "user_input": f"What of {number}?",
                "unit": "ward" if number < 9 else "lab",
                "retrieved_contexts": [f"All about {number}."],
                "response": f"Fact 0 of sample {number} is so. Fact 1 of sample {number} is so.",
            }
            for number in range(40)
        ]
        return scripted_run(name, rows, {}, metrics=[METRIC], **options)

    return run


def never(_: str) -> int:
    return 0


def test_nineteen_labels_of_zero_pass_no_gate(lenient_run: Callable[..., Run]) -> None:
    """The judge says 1.000 (0.912 to 1).

    Exact test: 19 statements judged 1 with the label 0, 2 x 0.5^19.
    """
    run = lenient_run()
    gate = f"{METRIC}>=0.6"
    assert run.check([gate]).passed
    label(run, never, 19)
    [decision] = run.check([gate]).decisions
    expect(decision, outcome="undecided", passed=False, value=None, ci95=None)
    assert (decision.labels, decision.labels_needed) == (19, 20)
    assert "19 labels, 20 needed" in decision.reason
    assert "0 of 19 labelled statements" in decision.reason
    counts = corrected(run, METRIC).counts
    assert counts is not None
    expect(counts, labelled=19, supported=0, supported_by_judge=19, of=80)
    assert counts.p_value == 2 * 0.5**19


def test_every_view_says_what_nineteen_labels_say(lenient_run: Callable[..., Run]) -> None:
    run = label(lenient_run(), never, 19)
    says = "0 of 19 labelled statements are supported by the documents"
    lines = printed_lines("show", run, "--worst", "0", width=200)
    assert lines[0].startswith(f"{METRIC}: the labels contradict the judge: 0 of 19 ")
    table = lines.index(next(line for line in lines if line.startswith(f"{METRIC} ")))
    assert [line.split()[:5] for line in lines[table : table + 3]] == [
        [METRIC, "-", "-", "19", "40"],
        ["judge", "only", "1.000", "0.912", "-"],
        ["labels", "only", "0.000", "-", "19"],
    ]
    values = json.loads(printed("show", run, "--json"))["metrics"][METRIC]
    assert values["headline"] == {"mean": None, "ci95": None, "basis": "too few labels"}
    assert says in values["labels_say"]
    assert says in gate_file("markdown", run, [f"{METRIC}>=0.6"])
    page = PageReader(run.report().read_text(encoding="utf-8")).text
    finding = " ".join(page.partition("Samples")[0].split())
    assert says in finding
    assert "about 100 %" not in finding
    assert run[METRIC].headline.mean is None


def sample_of(text: str) -> int:
    return int(text.split()[4])


@pytest.mark.parametrize(
    ("say", "outcome", "labels", "needed"),
    [
        (never, "fail", 18, None),
        (lambda text: 0 if sample_of(text) < 9 else "?", "fail", 18, None),
        (lambda text: "?" if text.startswith("Fact 1 of sample 3 ") else 0, "undecided", 17, 18),
        (lambda text: "?" if sample_of(text) < 9 else 0, "undecided", 0, None),
    ],
    ids=["all labelled", "others passed over", "one missing", "none labelled"],
)
def test_a_slice_of_nine_samples_needs_all_its_labels(
    lenient_run: Callable[..., Run],
    say: Callable[[str], Any],
    outcome: str,
    labels: int,
    needed: int | None,
) -> None:
    """Nine samples are too few for an interval by some of their 18 labels. If all say 0, the limits
    are Clopper's and Pearson's of 0 of 9.
    """
    run = label(lenient_run(), say, 80)
    [decision] = run.check([f"{METRIC}[unit=ward]>=0.6"]).decisions
    expect(decision, outcome=outcome, passed=False, labels=labels, labels_needed=needed)
    if outcome == "fail":
        expect(decision, value=0, ci95=clopper_pearson(0, 9), corrected=True)
    else:
        expect(decision, value=None, ci95=None, corrected=False)


def test_a_slice_says_how_many_labels_it_lacks(lenient_run: Callable[..., Run]) -> None:
    run = lenient_run()
    label(run, lambda text: "?" if text.startswith("Fact 1 of sample 3 ") else 0, 80)
    shown = printed("show", run, "--by", "unit")
    assert "17 labels, 18 needed" in shown
    assert "0 of 17 labelled statements" in " ".join(shown.split())


def test_scores_that_stopped_a_run_do_not_hide_its_labels(lenient_run: Callable[..., Run]) -> None:
    run = lenient_run("run")
    label(run, never, 50)
    stopped = lenient_run("stopped", until=[f"{METRIC}>=0.6"])
    (stopped.directory / "labels.jsonl").write_bytes((run.directory / "labels.jsonl").read_bytes())
    assert "scores decided" in str(corrected(stopped, METRIC).remark)
    [decision] = stopped.check([f"{METRIC}>=0.6"]).decisions
    assert (decision.outcome, decision.value) == ("undecided", None)


def test_gates_on_a_difference_do_not_ignore_labels(lenient_run: Callable[..., Run]) -> None:
    """Both runs have the judge's 1.000, and 15 labels of the new run say 0."""
    before = lenient_run("before")
    after = lenient_run("after")
    gate = f"{METRIC}.delta>=-0.2"
    assert after.check([gate], baseline=before).passed
    label(after, never, 15)
    [decision] = after.check([gate], baseline=before).decisions
    assert (decision.outcome, decision.passed, decision.value) == ("undecided", False, None)
    assert "the labels contradict the judge" in decision.reason


def test_labels_that_cannot_correct_a_metric_leave_the_judge(scripted_run: ScriptedRun) -> None:
    """Unless they contradict it: 15 of 15 documents judged useful have the label 0."""
    rows = [
        {
            "id": f"s{n}",
            "user_input": f"What of {n}?",
            "retrieved_contexts": [f"All about {n}."],
            "reference": "So.",
        }
        for n in range(30)
    ]
    gate = "context_precision>=0.5"
    agreeing = label(
        scripted_run("agreeing", rows, {}, metrics=["context_precision"]), lambda _: 1, 15
    )
    [decision] = agreeing.check([gate]).decisions
    assert (decision.outcome, decision.corrected) == ("pass", False)
    assert "not shares of its verdicts" in decision.reason
    denying = label(scripted_run("denying", rows, {}, metrics=["context_precision"]), never, 15)
    [decision] = denying.check([gate]).decisions
    assert (decision.outcome, decision.value) == ("undecided", None)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (0, 0, 1.0),
        (1, 0, 1.0),
        (19, 0, 2 * 0.5**19),
        (8, 1, 2 * 10 / 512),
        (5, 5, 1.0),
        (2_000, 0, 0.0),
    ],
)
def test_mcnemar_by_hand(first: int, second: int, expected: float) -> None:
    """8 and 1: 2 (C(9, 0) + C(9, 1)) / 2^9 = 20 / 512."""
    assert (
        mcnemar_test(first, second)
        == mcnemar_test(second, first)
        == pytest.approx(expected, abs=1e-300)
    )


def test_a_metric_without_a_headline_counts_labels_of_one() -> None:
    counts = LabelCounts(
        metric="own",
        is_share=True,
        labelled=3,
        of=9,
        supported=1,
        supported_by_judge=3,
        undisputed_by_judge=2,
        disputed=1,
        p_value=0.5,
    )
    assert counts.in_words == "1 of 3 labelled statements have the label 1, annotators differ on 1"
    assert counts.contradiction is None


@pytest.mark.parametrize(("disputed", "p_value"), [(7, 2 * 0.5**12), (11, 2 * 0.5**8)])
def test_a_contradiction_counts_the_judge_on_undisputed_statements(
    lenient_run: Callable[..., Run], disputed: int, p_value: float, tmp_path: Path
) -> None:
    """The judge says 1 to all 19. Annotators agree on the label 0 of 12 or 8 of them, and the exact
    test is about these.
    """
    run = label(lenient_run(), never, 19)
    differing = iter([1] * disputed + [0] * (19 - disputed))
    label(run, lambda _: next(differing), 19, annotator="bob", again=True)
    counts = corrected(run, METRIC).counts
    assert counts is not None
    agreed = 19 - disputed
    expect(counts, supported=0, supported_by_judge=19, undisputed_by_judge=agreed)
    expect(counts, disputed=disputed, p_value=p_value)
    said = f"differ on {disputed}, of the other {agreed} the judge says {agreed} (p "
    assert said in printed("show", run, width=400)
    page = PageReader(run.certificate(tmp_path / "page.html").file.read_text("utf-8")).text
    assert said in " ".join(page.split())


@pytest.mark.parametrize("number", [19, 50, 80])
def test_labels_that_are_all_disputed_support_nothing_and_deny_nothing(
    lenient_run: Callable[..., Run], number: int, tmp_path: Path
) -> None:
    """Their certificate once said `0 of 50 labelled statements are supported`."""
    run = label(lenient_run(), never, number)
    label(run, lambda _: 1, number, annotator="bob", again=True)
    says = f"annotators differ on every labelled statement ({number})"
    values = json.loads(printed("show", run, "--json"))["metrics"][METRIC]
    assert values["labels_say"] == says
    for page in (run.report(), run.certificate(tmp_path / "page.html").file):
        text = " ".join(PageReader(page.read_text(encoding="utf-8")).text.split())
        assert says in text
        assert f"0 of {number} labelled" not in text


def test_a_run_without_labels_is_as_before(lenient_run: Callable[..., Run]) -> None:
    run = lenient_run()
    headline = run[METRIC].headline
    interval = mean_interval([1.0] * 40)
    assert (headline.mean, headline.ci95, headline.basis) == (1.0, interval.ci95, "judge")
    assert printed_lines("show", run)[0].startswith("metric ")
    assert "labels_say" not in json.loads(printed("show", run, "--json"))["metrics"][METRIC]


def test_skipped_statements_of_a_slice_leave_its_gate_undecided(
    lenient_run: Callable[..., Run],
) -> None:
    """Four of the 18 statements of the ward are skipped, far less than a tenth of all."""
    run = lenient_run()

    label(run, lambda text: "?" if sample_of(text) < 4 and text.startswith("Fact 1 ") else 1, 80)
    decisions = run.check([f"{METRIC}>=0.2", f"{METRIC}[unit=ward]>=0.2"]).decisions
    assert [decision.outcome for decision in decisions] == ["pass", "undecided"]
    assert not labels_of(run).is_incomplete
