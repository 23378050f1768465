import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from command_line import printed_summary
from human_labels import second_opinion
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localjudge import Criterion, DataError, InputError, Run, ScriptedEngine
from localjudge.labels.decisions import Decisions
from localjudge.labels.drawing import DrawingOptions, draw_statements, sampling_weights
from localjudge.labels.label_source import LabelSource
from localjudge.labels.labelling import Labelling
from localjudge.labels.matched_labels import labelled_drawings
from localjudge.labels.units import unit_frames
from localjudge.report.verification_views import verification_view
from localjudge.run_directory.label_rows import LabelRow, append_labels, stored_labels
from tests.analysis.conftest import (
    JudgedRun,
    effects,
    expect,
    label,
    label_words,
    p_yes,
    written,
)
from tests.analysis.labelled_runs import METRIC, same_judge, truth

SECONDS_A_LABEL = 18
VERIFICATION = "verification.json"
LABELS = "labels.jsonl"

ScriptedRun = Callable[..., Run]

FEW = [
    {"id": f"{copy}{n}", "reference": f"Fact {n} of sample 1 is so.", "retrieved_contexts": ["x"]}
    for copy in "ab"
    for n in range(9)
]
"""Nine samples, each twice."""


def labels(run: Run) -> Any:
    found = run.labels
    assert found is not None
    return found


def corrected(run: Run, metric: str = METRIC) -> Any:
    return labels(run).corrected[metric]


def rows_of(run: Run) -> list[dict[str, Any]]:
    return [sample.model_dump(exclude_none=True) for sample in run.samples]


def test_a_run_without_labels(judged_run: JudgedRun) -> None:
    run = judged_run(samples=3)
    assert run.labels is None
    assert run[METRIC].corrected is None
    label(run, lambda _: "?", 1)  # and a decision without a label is none
    assert run.labels is None


def test_labels_of_all_statements_give_the_labelled_mean(judged_run: JudgedRun) -> None:
    run = label(judged_run())
    mean = corrected(run)
    assert mean.mean == pytest.approx(truth(40), abs=1e-12)
    assert (mean.labels_alone, mean.labels_saved, mean.is_complete) == (None, None, True)
    expect(mean, labels=79, clusters=40, needed=None, minutes=None)
    assert "every statement has a label" in mean.remark
    assert run[METRIC].corrected == mean
    assert run[METRIC].mean != pytest.approx(truth(40), abs=0.02)


def test_labels_do_not_change_the_mean_of_a_perfect_judge(judged_run: JudgedRun) -> None:
    run = judged_run()
    said = {row.text: row.label for row in run.verdicts}
    mean = corrected(label(run, said.__getitem__, 30))
    assert mean.mean == pytest.approx(run[METRIC].mean, abs=1e-12)
    assert mean.ppi_lambda == pytest.approx(1)
    assert all(
        right == count for right, count in filter(None, (mean.right_on_ones, mean.right_on_zeros))
    )
    assert (mean.labels_saved or 0) > 30


def test_a_statement_shared_by_samples_needs_one_label(scripted_run: ScriptedRun) -> None:
    """Each statement is in three samples: 20 labels count as 30 samples, not 90."""
    texts = [f"Fact {n}." for n in range(30)]
    runs = [
        scripted_run(
            f"{copies} copies",
            [
                {"id": f"{n}-{text}", "reference": text, "retrieved_contexts": ["x"]}
                for n in range(copies)
                for text in texts
            ],
            {text: 0.3 + 0.02 * n for n, text in enumerate(texts)},
            metrics=[METRIC],
        )
        for copies in (1, 3)
    ]
    alone, copied = (
        corrected(label(run, lambda text: int(text[-2] in "0127"), 20)) for run in runs
    )
    assert (copied.labels, copied.clusters) == (alone.labels, alone.clusters) == (20, 20)
    assert copied.mean == pytest.approx(alone.mean)
    assert copied.ci95[1] - copied.ci95[0] == pytest.approx(alone.ci95[1] - alone.ci95[0], rel=0.05)
    few = corrected(label(scripted_run("few", FEW, {}, metrics=[METRIC]), n=3))
    expect(few, clusters=3, ci95=None, needed=few.statements - 3)
    assert "fewer than 10 samples" in few.remark


def test_sensitivity_and_specificity_by_hand(scripted_run: ScriptedRun) -> None:
    """Forty labelled samples of one statement.

    Of the 24 judged 1, 18 are labelled 1; of the 16 others, 4.

    Sensitivity 18/22; corrected mean 22/40. Of 18 labels of 0, the judge has 12 right: too few for
    a specificity.
    """
    texts = [f"Fact {n}." for n in range(40)]
    rows = [{"id": text, "reference": text, "retrieved_contexts": ["x"]} for text in texts]
    run = scripted_run(
        "run",
        rows,
        {text: 0.9 if n < 24 else 0.2 for n, text in enumerate(texts)},
        metrics=[METRIC],
    )
    mean = corrected(
        label(run, lambda text: int(texts.index(text) < 18 or texts.index(text) >= 36))
    )
    assert [mean.sensitivity, mean.mean] == pytest.approx([18 / 22, 22 / 40])
    assert (mean.right_on_ones, mean.right_on_zeros, mean.specificity) == ((18, 22), (12, 18), None)
    assert mean.rates_in_words == (
        "the judge gives 1 to 18 of 22 statements labelled 1 "
        "(sensitivity 82 %, weighted by the drawing), and 0 to 12 of 18 labelled 0"
    )


def test_an_uninformative_judge_saves_no_labels(
    judged_run: JudgedRun, scripted_run: ScriptedRun
) -> None:
    rows = rows_of(judged_run("rows", samples=60))
    mean = corrected(label(scripted_run("run", rows, {}, metrics=[METRIC]), n=50))
    assert mean.labels_saved == 0
    assert "saves no labels" in mean.remark


def test_missing_labels_are_reported_with_their_time(
    judged_run: JudgedRun, scripted_run: ScriptedRun
) -> None:
    """The first look has 20 labels. At 18 seconds a label, 16 take 4.8 minutes: about 5."""
    mean = corrected(label(judged_run(), n=4))
    expect(mean, clusters=4, ci95=None, next_look=20, needed=16, minutes=5)
    assert "too few labels" in (mean.remark or "")
    # Six samples need labels of all 12 statements.
    few = corrected(label(judged_run("few", samples=6), n=8))
    expect(few, clusters=6, ci95=None, needed=4, minutes=2)
    assert "fewer than 10 samples" in few.remark
    # Forty samples in five groups count as five.
    rows = [
        {
            "id": f"s{n}",
            "group": n % 5,
            "reference": f"Fact 0 of sample {n} is so.",
            "retrieved_contexts": ["x"],
        }
        for n in range(40)
    ]
    script = {row["reference"]: p_yes(n, 0) for n, row in enumerate(rows)}
    groups = corrected(
        label(scripted_run("groups", rows, script, cluster_by="group", metrics=[METRIC]), n=30)
    )
    expect(groups, clusters=5, ci95=None, needed=groups.statements - groups.labelled)


def test_between_two_looks_more_labels_change_no_interval(judged_run: JudgedRun) -> None:
    """Recomputing after every few labels would miss the truth too often. At 63 labels, 50 count."""
    run = label(judged_run(samples=100), n=50)
    at_50 = corrected(run)
    expect(at_50, labels=50, labelled=50, next_look=100, in_words="50 labels")
    at_63 = corrected(label(run, n=63))
    expect(at_63, labels=50, labelled=63, next_look=100, in_words="50 of 63 labels")
    expect(at_63, mean=at_50.mean, ci95=at_50.ci95, labels_alone=at_50.labels_alone)
    at_100 = corrected(label(run, n=100))
    assert (at_100.labels, at_100.next_look) == (100, 150)
    assert at_100.ci95 != at_50.ci95
    # Labels of all statements are always the last look.
    complete = corrected(label(run))
    assert (complete.labels, complete.statements, complete.next_look) == (199, 199, None)


def test_labels_of_a_second_drawing_count_after_the_first_drawing(judged_run: JudgedRun) -> None:
    """Forty labels, then thirty of a second drawing: 50 count, 40 + 10."""
    run = label(judged_run(samples=100), n=40)
    rows = stored_labels(run.directory)
    label(run, n=40, annotator="bob", seed=5)
    label(run, n=70, seed=5)
    mean = corrected(run)
    assert (mean.labels, mean.next_look) == (50, 100)
    assert mean.labelled > 60
    decisions = Decisions(stored_labels(run.directory))
    drawings = labelled_drawings(decisions, unit_frames(run))[METRIC]
    counted = sampling_weights(drawings, 50).keys()
    assert {row.key for row in rows} < counted
    assert [drawn.key for drawn in drawings[0]] == [row.key for row in rows]


def decision(seconds: float = 0, **values: Any) -> LabelRow:
    when = datetime(2026, 11, 22, 9, tzinfo=UTC) + timedelta(seconds=seconds)
    given = {
        "key": "0f" * 16,
        "sample_id": "s",
        "metric": METRIC,
        "position": 0,
        "text": "t",
        "human": 1,
    }
    return LabelRow(
        **{**given, "annotator": "ann", "when": when.isoformat(), "way": "terminal", **values}
    )


def test_agreement_of_two_annotators_by_hand(judged_run: JudgedRun) -> None:
    """Ann labels 1 1 1 1 1 1 0 0 0 0, bob 1 1 1 1 1 0 0 0 0 1: 8 of 10 agree.

    Chance .6 .6 + .4 .4 = .52, so kappa = (.8 - .52) / .48 = .583. 12 of 20 labels are 1: alpha = 1
    - 19 2 / (12 8) = .604.
    """
    run = judged_run(samples=30)
    drawn = Labelling(LabelSource.of_run(run), options=DrawingOptions(sample=10)).rows
    statements = [row["label_id"] for row in drawn]
    for name, said in (
        ("ann", (1, 1, 1, 1, 1, 1, 0, 0, 0, 0)),
        ("bob", (1, 1, 1, 1, 1, 0, 0, 0, 0, 1)),
    ):
        with second_opinion(run, name, 10) as labelling:
            assert [row["label_id"] for row in labelling.rows] == statements
            for answer in said:
                labelling.answer(answer)  # type: ignore[arg-type]
    found = labels(run)
    assert (found.agreement.statements, found.agreement.disputed) == (10, 2)
    assert [found.agreement.share, found.agreement.alpha] == pytest.approx([0.8, 1 - 38 / 96])
    [pair] = found.agreement.pairs
    assert (pair.annotators, pair.statements) == (("ann", "bob"), 10)
    assert [pair.share, pair.kappa] == pytest.approx([0.8, 0.583333])
    expect(found, statements=10, annotators={"ann": 10, "bob": 10}, passed_over=0)
    assert [Decisions(stored_labels(run.directory)).human[key] for key in statements] == [1] * 5 + [
        0.5,
        0,
        0,
        0,
        0.5,
    ]
    # If both label everything 1, agreement beyond chance is undefined.
    same = labels(
        label(label(judged_run("same"), lambda _: 1, 3), lambda _: 1, 3, "bob", again=True)
    ).agreement
    assert (same.share, same.alpha, same.pairs[0].kappa) == (1, None, None)


def test_the_agreement_of_three_annotators_uses_all_pairs(judged_run: JudgedRun) -> None:
    """Ann contradicts bob and carl, who agree: 1/3 of the pairs is equal.

    Single pairs would give 0 or 1.
    """
    run = label(judged_run(), n=12)
    for name in ("bob", "carl"):
        label(run, lambda words: 1 - label_words(words), 12, name, again=True)
    found = labels(run).agreement
    assert found is not None
    assert (found.statements, found.disputed) == (12, 12)
    assert found.share == pytest.approx(1 / 3)
    shares = {pair.annotators: pair.share for pair in found.pairs}
    assert shares == {("ann", "bob"): 0, ("ann", "carl"): 0, ("bob", "carl"): 1}
    assert re.search("^12 statements .* 33 % agreement, Krippendorff's alpha -0", found.lines[0])


def test_contradicting_annotators_widen_the_interval(judged_run: JudgedRun) -> None:
    """Two of ten labels differ: the interval covers each annotator's mean."""
    run = label(judged_run(samples=60), n=50)
    alone = corrected(run)
    other = {row.text for row in stored_labels(run.directory)[::5]}
    both = corrected(
        label(run, lambda words: label_words(words) ^ (words in other), 50, "bob", again=True)
    )
    ann = both.by_annotator["ann"]
    bob = both.by_annotator["bob"]
    assert (ann.mean, ann.ci95) == (alone.mean, alone.ci95)
    assert bob.mean != alone.mean
    assert both.ci95 == (min(ann.ci95[0], bob.ci95[0]), max(ann.ci95[1], bob.ci95[1]))
    assert both.mean == pytest.approx((ann.mean + bob.mean) / 2)
    # A gate must pass for each annotator.
    for low, outcome in ((both.ci95[0] - 0.01, "pass"), (both.ci95[0] + 0.001, "undecided")):
        assert run.check([f"{METRIC}>={low:.4f}"]).decisions[0].outcome == outcome


def test_missing_labels_of_one_annotator_come_from_the_most_active(judged_run: JudgedRun) -> None:
    """Of 40 statements bob labels ten, one differently; ann's labels fill the rest."""
    run = label(judged_run(samples=60), n=40)
    first = stored_labels(run.directory)[0]
    label(run, lambda words: label_words(words) ^ (words == first.text), 10, "bob", again=True)
    decisions = Decisions(stored_labels(run.directory))
    ann, bob = decisions.by_annotator(decisions.human.keys()).values()
    assert ann == {row.key: row.human for row in stored_labels(run.directory)[:40]}
    assert bob == ann | {first.key: 1 - ann[first.key]}
    agreed = label(label(judged_run("agreed"), n=40), n=10, annotator="bob", again=True)
    assert corrected(agreed) == corrected(label(judged_run("ann alone"), n=40))


def test_annotators_who_agree_too_little_correct_no_mean(judged_run: JudgedRun) -> None:
    run = label(judged_run(samples=40), n=30)
    label(run, lambda words: 1 - label_words(words), 30, "bob", again=True)
    mean = corrected(run)
    assert (mean.mean, mean.ci95, mean.unsettled) == (None, None, 30)
    assert re.search(
        "on 0 % of 30 statements .* settle the 30 disputed statements first", mean.remark or ""
    )
    for gate in ("context_recall>=0.45", "context_recall>=0"):
        [decided] = run.check([gate]).decisions
        assert (decided.outcome, decided.passed) == ("undecided", False)
        assert mean.remark is not None
        assert mean.remark in decided.reason
    # Nine statements are too few to reject the labels.
    few = label(judged_run("few", samples=40), n=30)
    label(few, lambda words: 1 - label_words(words), 9, "bob", again=True)
    assert corrected(few).by_annotator is not None


@settings(
    max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(st.data())
def test_a_second_annotator_never_narrows_the_interval(
    judged_run: JudgedRun, data: st.DataObject
) -> None:
    run = judged_run("run of 30", samples=30)
    texts = dict[str, int]()
    (run.directory / LABELS).unlink(missing_ok=True)
    label(run, lambda words: texts.setdefault(words, data.draw(st.integers(0, 1))), 30)
    low, high = corrected(run).ci95 or (0, 1)
    differs = data.draw(st.sampled_from([0, 3, 9]))
    turned = set(data.draw(st.permutations(sorted(texts)))[:differs])
    both = corrected(
        label(run, lambda words: texts[words] ^ (words in turned), 30, "bob", again=True)
    )
    least, greatest = both.ci95 or (0, 1)
    assert least <= low + 1e-12
    assert greatest >= high - 1e-12


def test_skipped_and_undecided_statements_have_no_label(judged_run: JudgedRun) -> None:
    run = judged_run()
    said = iter([1, None, 1, "?", 1, None, 1, 1, 1, 1])
    label(run, lambda _: next(said), 10)
    found = labels(run)
    assert (found.statements, found.unsure, found.passed_over) == (7, 1, 3)
    assert "3 drawn statements" in found.warnings[0]
    label(run, lambda _: 1, 10)
    assert (labels(run).passed_over, labels(run).unsure) == (1, 1)
    complete = label(judged_run("complete"), lambda _: 1, 10)
    assert (labels(complete).passed_over, labels(complete).warnings) == (0, ())


def test_labels_of_a_run_with_another_judge_correct(
    judged_run: JudgedRun, scripted_run: ScriptedRun
) -> None:
    """The same data has the same statements and drawing probabilities."""
    run = label(judged_run(), n=50)
    other = scripted_run("other", rows_of(run), {}, metrics=[METRIC])
    assert effects(other, run.directory) == {"new": 50}
    assert effects(other, run.directory) == {"known": 50}
    mean = corrected(other)
    assert mean.labels == 50
    assert "saves no labels" in mean.remark
    alone = corrected(run).labels_alone
    assert alone
    assert mean.mean == pytest.approx(alone.mean, abs=0.1)
    assert labels(other).passed_over == 0
    third = judged_run("third").check(baseline=run).labels
    assert third is not None
    assert (third.corrected[METRIC].own_labels, corrected(run).own_labels) == (0, 50)
    assert third.corrected[METRIC].model_copy(update={"own_labels": 50}) == corrected(run)


def test_labels_of_other_data_are_reported_and_do_not_correct(judged_run: JudgedRun) -> None:
    """A run of twice the samples has statements that could not be drawn."""
    larger = judged_run("larger", samples=80)
    assert larger.read_labels(label(judged_run(), n=30).directory).new == 30
    mean = corrected(larger)
    expect(mean, mean=None, labels=0, needed=20)
    assert "not drawn from its statements" in mean.remark
    none = judged_run("none", samples=80, metrics=["faithfulness"])
    with pytest.raises(DataError, match="none of the 30 labels"):
        none.read_labels(larger.directory)
    # New labels correct it; existing ones are not asked for again.
    label(larger, n=40)
    rows = stored_labels(larger.directory)
    drawn = {row.key for row in rows if row.draw == last_drawing(larger)}
    assert corrected(larger).labelled == len(drawn)


def last_drawing(run: Run) -> str:
    return stored_labels(run.directory)[-1].draw or ""


def test_an_existing_label_counts_once_for_a_second_drawing(judged_run: JudgedRun) -> None:
    """Its row is copied under the second drawing, unless withdrawn."""
    run = label(judged_run(), n=40)
    label(run, n=40, annotator="bob", seed=5)
    rows = stored_labels(run.directory)
    assert len({(row.key, row.draw, row.annotator) for row in rows}) == len(rows)
    second = [row for row in rows if row.draw == last_drawing(run)]
    assert {row.annotator for row in second} == {"ann", "bob"}
    assert len(second) <= 40
    assert sum(labels(run).annotators.values()) == labels(run).statements == corrected(run).labelled
    # Bob labels 0, ann labels 1 and withdraws it: only bob's label is copied to the third drawing.
    run = judged_run("taken")
    [first] = Labelling(LabelSource.of_run(run), "none", DrawingOptions(sample=1)).rows
    values = {part: first[part] for part in ("sample_id", "metric", "position", "text")} | {
        "key": first["label_id"]
    }
    for name, said in (("bob", 0), ("ann", 1), ("ann", None)):
        append_labels(run.directory, [decision(human=said, annotator=name, **values)])
    label(run, n=79, annotator="carl", seed=5)
    assert Decisions(stored_labels(run.directory)).answers[first["label_id"]] == {"bob": 0}


def drawn_rows(run: Run, n: int = 30) -> list[dict[str, Any]]:
    source = LabelSource.of_run(run)
    drawing = draw_statements(source.correctable(), n, 0)
    return source.sheet_rows(drawing, drawing.statements)


def read(
    run: Run, humans: Sequence[Any], by: str | None = None, *, first: int = 0, **cells: Any
) -> dict[str, Any]:
    """Read a sheet with these labels for the drawn statements from `first` on.

    Returns the counts and remarks, without zeros.
    """
    rows = drawn_rows(run, first + len(humans))[first:]
    sheet = [{**row, "human": human, **cells} for row, human in zip(rows, humans, strict=True)]
    return effects(run, written(run.directory.parent / "sheet.jsonl", *sheet), by)


def dated(day: int, annotator: str = "ann") -> dict[str, Any]:
    return {"annotator": annotator, "when": f"2026-11-{day}T09:00:00Z"}


ONES = [1] * 30
ZEROS = [0] * 30
NONE = [None] * 30


def test_the_pace_is_the_median_without_pauses(judged_run: JudgedRun, tmp_path: Path) -> None:
    """Ann: 10 10 12 20 (3,600) 11; Bob: 40; a sheet has no pace. Sorted 10 10 11 12 20 40: 11.5."""
    run = judged_run()
    read(run, ONES, "carl")
    assert labels(run).seconds_a_label == SECONDS_A_LABEL
    of_ann = [("ann", second) for second in (0, 10, 20, 32, 52, 3652, 3663)]
    of_bob = [("bob", second) for second in (5, 45)]
    for times, pace in ((of_ann[:5], SECONDS_A_LABEL), ([*of_ann, *of_bob], 11.5)):
        sheet = []
        for row, (name, second) in zip(drawn_rows(run), times, strict=False):
            when = datetime(2026, 11, 22, 9, tzinfo=UTC) + timedelta(seconds=second)
            sheet.append({**row, "human": 1, "annotator": name, "when": when.isoformat()})
        run.read_labels(written(tmp_path / "sheet.jsonl", *sheet))
        assert labels(run).seconds_a_label == pytest.approx(pace)


def test_a_sheet_is_read_once_and_in_any_order(judged_run: JudgedRun, tmp_path: Path) -> None:
    run = judged_run()
    rows = drawn_rows(run, 20)
    filled = [{**row, "human": label_words(row["text"])} for row in rows]
    sheet = written(tmp_path / "sheet.jsonl", *reversed(filled[:10]), *rows[10:])
    assert effects(run, sheet, "ann") == {"new": 10, "unlabelled": 10}
    assert effects(run, sheet, "ann") == {"known": 10, "unlabelled": 10}
    mean = corrected(run)
    by_keys = corrected(label(judged_run("keys"), n=10))
    assert by_keys.model_copy(update={"minutes": mean.minutes}) == mean  # keys are timed
    assert read(run, [row["human"] for row in filled], "ann", annotator="bob") == {"new": 20}
    assert labels(run).annotators == {"ann": 10, "bob": 20}
    assert read(run, [1 - filled[0]["human"]], "ann") == {"changed": 1}
    assert labels(run).agreement.share == 0.9


@pytest.mark.parametrize(
    ("days", "second"),
    [((19, 20), {"changed": 30}), ((20, 19), {"older": 30})],
    ids=str,
)
def test_the_order_of_reading_does_not_matter(
    judged_run: JudgedRun, days: tuple[int, int], second: dict[str, int]
) -> None:
    """Ann labels thirty statements 0 on 19 November and 1 on 20 November: the mean is 1."""
    run = judged_run()
    assert [read(run, [day - 19] * 30, **dated(day)) for day in days] == [
        {"new": 30},
        second,
    ]
    assert corrected(run).labels_alone.mean == pytest.approx(1)
    assert read(run, ONES, **dated(20)) == {"known": 30}


def test_labels_with_a_time_in_the_future_are_replaced_in_the_order_of_reading(
    judged_run: JudgedRun,
) -> None:
    """Ann's clock is five hours ahead when she gives 30 labels of 0; she corrects them to 1."""
    run = judged_run()
    ahead = {**dated(20), "when": (datetime.now(UTC) + timedelta(hours=5)).isoformat()}
    first = read(run, [0] * 30, **ahead)
    assert (first["new"], len(first["remarks"])) == (30, 1)
    assert first["remarks"][0].startswith("30 labels with a time in the future")
    corrections = read(run, ONES, **dated(20))
    assert corrections.pop("remarks")
    assert corrections == {"changed": 30}
    assert corrected(run).labels_alone.mean == pytest.approx(1)
    assert read(run, [0] * 30, **ahead)["older"] == 30  # the same file again changes nothing
    assert corrected(run).labels_alone.mean == pytest.approx(1)


def test_an_emptied_cell_withdraws_the_label_of_its_sheet(judged_run: JudgedRun) -> None:
    """25 of 30 labels are emptied, then filled in again.

    Bob's sheet does not withdraw ann's labels.
    """
    run = judged_run()
    emptied = NONE[:25] + ONES[25:]
    for humans, annotator, counts in (
        (ONES, "ann", {"new": 30}),
        (emptied, "bob", {"new": 5, "unlabelled": 25}),
        (emptied, "ann", {"withdrawn": 25, "known": 5}),
        (emptied, "ann", {"known": 5, "unlabelled": 25}),
        (ONES, "ann", {"new": 25, "known": 5}),
        ([*NONE[1:], "?"], "ann", {"withdrawn": 30}),
    ):
        assert read(run, humans, annotator) == counts
    assert labels(run).annotators == {"bob": 5}
    with pytest.raises(DataError, match="no labels yet"):
        read(run, NONE, "ann")


def test_an_empty_cell_withdraws_no_label_given_elsewhere(judged_run: JudgedRun) -> None:
    """The sheet is older than ten labels of the terminal and five of a page.

    Nor does a sheet of another drawing, or a label changed in the page since.
    """
    run = label(judged_run(), n=10)
    page: dict[str, Any] = {
        "annotator": "ann",
        "when": (datetime.now(UTC) + timedelta(hours=1)).isoformat(),
    }
    assert read(run, ONES[:7], first=8, **page)["new"] == 5
    assert read(run, NONE[:20] + ONES[20:], "ann") == {"new": 10, "unlabelled": 20}
    assert "withdrawn" not in read(run, [*NONE[1:], 1], "ann", draw=None)
    ahead = ("1 label with a time in the future, or in place of one: the order of reading decides",)
    assert read(run, [0], first=20, **page) == {"changed": 1, "remarks": ahead}
    assert read(run, NONE[:21] + ONES[21:], "ann") == {"known": 9, "unlabelled": 21}
    assert labels(run).annotators == {"ann": 25}


def test_undecided_in_a_page_withdraws_the_earlier_label(judged_run: JudgedRun) -> None:
    monday = dated(16)
    tuesday = dated(17)
    run = judged_run()
    other = judged_run("other")
    assert [read(run, [1], **monday), read(run, [None], **tuesday)] == [
        {"new": 1},
        {"withdrawn": 1},
    ]
    assert [read(other, [None], **tuesday), read(other, [1], **monday)] == [
        {"unlabelled": 1},
        {},
    ]
    assert [each.labels for each in (run, other)] == [None, None]


def test_a_sheet_without_names_is_refused(judged_run: JudgedRun, tmp_path: Path) -> None:
    run = judged_run()
    with pytest.raises(InputError, match=r"(?s)sheet\.jsonl does not .*column annotator"):
        read(run, ONES[:12])
    assert not stored_labels(run.directory)
    assert read(run, ZEROS[:12], "Dr. Weiß") == {"new": 12}
    with pytest.raises(InputError, match=r"annotator, .*Dr\. Weiß labelled"):
        read(run, ONES[:12])
    # A single name in a sheet applies to all its rows.
    first, *rows = [{**row, "human": 1} for row in drawn_rows(run, 12)]
    sheet = written(tmp_path / "named.jsonl", {**first, "annotator": "bob"}, *rows)
    assert (effects(run, sheet), labels(run).annotators["bob"]) == ({"new": 12}, 12)


def test_a_login_name_is_marked_as_one_that_nobody_gave(
    judged_run: JudgedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same user with a name that equals the login name is no second annotator."""
    monkeypatch.setenv("LOGNAME", "ann")
    run = judged_run()
    label(run, n=12, annotator=None)
    assert labels(run).annotators == {"ann (login name)": 12}
    label(run, n=13, annotator="ann")
    assert labels(run).annotators == {"ann": 13}
    label(run, n=14, annotator=None)
    assert labels(run).annotators == {"ann": 14}
    assert Labelling(LabelSource.of_run(run)).annotator == "ann"


def test_a_file_with_a_foreign_label_is_refused_whole(
    judged_run: JudgedRun, tmp_path: Path
) -> None:
    run = judged_run()
    first, *rows = [{**row, "human": 1} for row in drawn_rows(run, 5)]
    sheet = written(tmp_path / "s.jsonl", {**first, "label_id": "0f" * 16}, *rows)
    with pytest.raises(DataError, match=r"no statement in .* matches 1 of 5 labels"):
        run.read_labels(sheet, "ann")
    assert not (run.directory / LABELS).exists()
    with pytest.raises(DataError, match="no labels yet"):
        run.read_labels(written(sheet, {**first, "human": None}), "ann")


def test_a_damaged_text_is_a_remark_and_its_label_counts(
    judged_run: JudgedRun, tmp_path: Path
) -> None:
    """One letter in another encoding blocked the whole sheet.

    White space and an apostrophe make no difference.
    """
    run = judged_run()
    rows = [{**row, "human": 1} for row in drawn_rows(run, 5)]
    rows[1]["text"] = rows[1]["text"].replace("a", "\ufffd")
    rows[2]["text"] = f" {rows[2]['text']}\n"
    sheet = written(tmp_path / "s.jsonl", *rows)
    found = effects(run, sheet, "ann")
    [remark] = found.pop("remarks")
    assert found == {"new": 5}
    assert "1 row " in remark
    assert f"{sheet}:2" in remark


def test_a_column_that_was_sorted_separately_is_refused(
    judged_run: JudgedRun, tmp_path: Path
) -> None:
    """The row has the text of another statement, so its label may belong to either."""
    run = judged_run()
    rows = [{**row, "human": 1} for row in drawn_rows(run, 5)]
    texts = sorted({row["text"] for row in rows})
    assert len(texts) > 1
    for row, text in zip(rows, [*texts, *texts], strict=False):
        row["text"] = text
    with pytest.raises(DataError, match="text of another statement"):
        run.read_labels(written(tmp_path / "s.jsonl", *rows), "ann")
    assert not (run.directory / LABELS).exists()


@pytest.mark.parametrize(
    "name", ["ann", " ANN ", "Ann ", " Ann\u00a0", "Ann\u200b", "\uff21nn", "A\u00adnn"]
)
def test_names_that_look_the_same_are_one_annotator(judged_run: JudgedRun, name: str) -> None:
    """Four spellings of Ann counted as people with 100 % agreement. Ann's name came back as "Ann "
    from one sheet, and she contradicted herself.
    """
    run = label(judged_run(), lambda _: 1, 12, "Ann")
    assert read(run, ONES[:12], annotator=name) == {"known": 12}
    assert "new" not in read(run, ONES[:1], name)
    rows = stored_labels(run.directory)
    append_labels(run.directory, [row.model_copy(update={"annotator": name}) for row in rows])
    found = labels(run)
    assert (found.annotators, found.agreement) == ({"Ann": 12}, None)
    assert Labelling(LabelSource.of_run(run), name, DrawingOptions(sample=12)).rows == []


@pytest.mark.parametrize(
    "name", ["JÃ¼rgen", "J├╝rgen", "J?rgen", "J\ufffdrgen", "J_rgen", "JŸrgen"]
)
def test_a_name_that_another_encoding_damaged_is_refused(judged_run: JudgedRun, name: str) -> None:
    """As another person's, these labels would agree with Jürgen's own by chance."""
    run = label(judged_run(), lambda _: 1, 12, "Jürgen")
    with pytest.raises(DataError, match=r"annotator.*damaged by another encoding"):
        read(run, ZEROS[:12], annotator=name)
    assert labels(run).annotators == {"Jürgen": 12}


def test_names_that_look_alike_are_named_in_a_remark(judged_run: JudgedRun) -> None:
    """The second name begins with a Cyrillic letter."""
    run = label(judged_run(), lambda _: 1, 12, "Ann")
    taken = read(run, ONES[:12], annotator="\u0410nn")
    assert taken["new"] == 12
    [remark] = taken["remarks"]
    assert "look alike" in remark
    assert "\\u0410nn" in remark
    assert len(labels(run).annotators) == 2


def test_answers_with_identical_times_are_named_in_a_remark(judged_run: JudgedRun) -> None:
    """Bob sends Ann's file under his name. Sheets have no times, and other times are no copy."""
    run = judged_run()
    assert "remarks" not in read(run, ONES[:12], **dated(19, "ann"))
    [remark] = read(run, ONES[:12], **dated(19, "bob"))["remarks"]
    assert all(word in remark for word in ("ann and bob", "12 answers", "identical times"))
    assert "remarks" not in read(run, ONES[:12], **dated(20, "cy"))
    assert "remarks" not in read(run, ONES[:12], "dora")


def test_at_most_five_pairs_of_annotators_are_printed(judged_run: JudgedRun) -> None:
    """Eleven names gave 55 lines, and a name of any length was printed whole."""
    run = judged_run()
    for number in range(11):
        read(run, ONES[:12], f"annotator {number} {'x' * 500}")
    agreement = labels(run).agreement
    assert agreement is not None
    assert len(agreement.pairs) == 55
    assert len(agreement.lines) == 7
    assert "and 50 more pairs" in agreement.lines[6]
    assert max(map(len, agreement.lines)) < 300


def test_a_mean_that_labels_cannot_correct_says_why(
    judged_run: JudgedRun, scripted_run: ScriptedRun
) -> None:
    run = label(
        judged_run(metrics=["answer_correctness"]),
        lambda _: 1,
        20,
        metrics=["answer_correctness"],
    )
    mean = corrected(run, "answer_correctness")
    assert mean.mean is None
    assert "not shares of its verdicts" in mean.remark
    rows = [
        {"id": f"s{n}", "reference": f"Fact {n}.", "retrieved_contexts": ["x"]} for n in range(20)
    ]
    failing = scripted_run(
        "failing", rows, {"Fact 3.": "no answer"}, metrics=[METRIC], max_failed=5
    )
    label(failing, lambda _: 1)
    assert corrected(failing).labels == 19
    beyond = label(
        scripted_run("beyond", rows, {"Fact 3.": "no answer"}, metrics=[METRIC]), lambda _: 1
    )
    expect(corrected(beyond), mean=None, remark="too many of its samples failed")


def test_a_label_of_0_counts_where_no_is_good(scripted_run: ScriptedRun) -> None:
    """The judge gives 1 (bad) to 4 of 20: mean .8.

    Two have the human label 1: 18 of 20 are good.
    """
    rude = Criterion(name="rude", question="Is it rude?", good="no")
    rows = [
        {"id": f"s{n}", "response": f"Fact {n}.", "retrieved_contexts": ["x"]} for n in range(20)
    ]
    run = scripted_run(
        "rude", rows, {f"Fact {n}.": 0.9 if n < 4 else 0.1 for n in range(20)}, metrics=[rude]
    )
    mean = corrected(label(run, lambda text: int(text in ("Fact 0.", "Fact 1."))), "rude")
    assert run["rude"].mean == pytest.approx(0.8)
    assert mean.mean == pytest.approx(0.9)
    # The judge finds both rude answers, and gets 16 of the 18 others right.
    assert (mean.right_on_ones, mean.right_on_zeros) == ((2, 2), (16, 18))


def test_labels_do_not_change_the_files_of_the_run(judged_run: JudgedRun) -> None:
    run = judged_run()
    before = {path.name: path.read_bytes() for path in run.directory.iterdir()}
    label(run, n=20)
    after = {path.name: path.read_bytes() for path in run.directory.iterdir()}
    assert {name for name in after if after[name] != before.get(name)} == {LABELS}
    assert Run.open(run.directory).verify(engine=same_judge(run)).result == "bit-identical"
    assert dict(Run.open(run.directory).summary.metrics) == dict(run.summary.metrics)


def rewritten(run: Run, rows: Sequence[LabelRow]) -> Run:
    (run.directory / LABELS).unlink(missing_ok=True)
    append_labels(run.directory, rows)
    return Run.open(run.directory)


OTHER_DRAWINGS = [
    {"frame": "0" * 64},
    {"draw": "no drawing"},
    {"draw": "0: other 0123abcd"},
]


@pytest.mark.parametrize("change", OTHER_DRAWINGS)
def test_a_label_drawn_from_other_statements_does_not_correct(
    judged_run: JudgedRun, change: dict[str, Any]
) -> None:
    run = label(judged_run(), n=20)
    first, second, *rows = stored_labels(run.directory)
    run = rewritten(run, [first, second.model_copy(update=change), *rows])
    mean = corrected(run)
    assert (mean.labels, labels(run).undrawn) == (19, 1)
    assert any(warning.startswith("1 label drawn from") for warning in labels(run).warnings)
    nothing = dict.fromkeys(("draw", "frame", "size_share", "draw_index"))
    run = rewritten(run, [first, second.model_copy(update=nothing), *rows])
    assert corrected(run) == mean


@pytest.mark.parametrize("change", [{"size_share": 0.5}, {"draw_index": 3}])
def test_verify_notices_another_chance_of_a_verified_label(
    judged_run: JudgedRun, change: dict[str, Any]
) -> None:
    """A smaller chance would give the label more weight."""
    run = label(judged_run(), n=20)
    assert run.verify(engine=same_judge(run)).result == "bit-identical"
    first, *rows = stored_labels(run.directory)
    run = rewritten(run, [first.model_copy(update=change), *rows])
    found = run.verify(engine=same_judge(run))
    assert (found.result, [*found.files]) == ("different", [LABELS])


def test_labels_of_another_run_are_verified_without_that_run(
    judged_run: JudgedRun, scripted_run: ScriptedRun
) -> None:
    run = label(judged_run(), n=50)
    other = scripted_run("other", rows_of(run), {}, metrics=[METRIC])
    other.read_labels(run.directory)
    assert stored_labels(other.directory) == stored_labels(run.directory)
    mean = corrected(other)
    assert other.verify(engine=same_judge(other)).result == "bit-identical"
    run.directory.rename(run.directory.with_name("elsewhere"))
    other = Run.open(other.directory)
    assert other.verify(engine=same_judge(other)).result == "bit-identical"
    assert corrected(other) == mean


def test_verify_compares_the_settings_of_the_drawings(judged_run: JudgedRun) -> None:
    """The same rows with the checksum of other settings in `verification.json`."""
    run = label(judged_run(), n=20)
    assert run.verify(engine=same_judge(run)).result == "bit-identical"
    path = run.directory / VERIFICATION
    values = json.loads(path.read_text())
    drawings = values["labels"]["drawings_sha256"]
    path.write_text(path.read_text().replace(drawings, "0" * 64))
    found = run.verify(engine=same_judge(run))
    assert found.result == "different"
    assert found.files[LABELS][0].startswith("the settings of its drawings differ")


def test_verify_detects_changes_of_labels_it_has_verified(judged_run: JudgedRun) -> None:
    """Rows were changed, removed or replaced; added rows are counted. A label that was changed
    before the first verification is one like any other.
    """
    run = label(judged_run(), n=20)
    engine = same_judge(run)
    first_row, *others = stored_labels(run.directory)
    run = rewritten(
        run, [first_row.model_copy(update={"human": int(first_row.human == 0)}), *others]
    )
    first = run.verify(engine=engine)
    assert first.labels.means == labels(run)
    assert first.labels.current is not None
    assert (first.result, first.labels.current.rows) == ("bit-identical", 20)
    assert first.labels.verified is None
    label(run, n=30)
    second = run.verify(engine=engine)
    assert second.labels.current is not None
    assert second.labels.verified is not None
    assert (second.result, second.labels.current.rows) == ("bit-identical", 30)
    assert second.labels.verified.rows == 20
    assert re.search("10 rows added .*20", lines(second))
    rows = stored_labels(run.directory)
    flipped = [row.model_copy(update={"human": 1}) for row in rows]
    for forged in (
        flipped,
        rows[:-1],
        [*rows[:-1], rows[-1].model_copy(update={"human": "?"})],
        [],
    ):
        found = rewritten(run, forged).verify(engine=engine)
        assert found.result == "different"
        assert found.files[LABELS][0].startswith("differs from the 30 rows verified on 20")
        assert f"{LABELS} was changed (differs from the 30 rows" in lines(found)
        assert "labels: altered" in lines(found)
    (run.directory / LABELS).write_text("no labels\n")
    assert run.verify(engine=engine).labels.verified == second.labels.current
    rewritten(run, rows)
    assert run.verify(engine=engine).result == "bit-identical"


def lines(found: Any) -> str:
    return " ".join(map(str, verification_view(found).notes))


def test_every_view_warns_of_labels_that_were_altered_since_the_verification(
    judged_run: JudgedRun,
) -> None:
    """Rows may be added. A changed or removed row is told, also where no judge is asked."""
    run = label(judged_run(), n=20)
    path = run.directory / LABELS
    assert run.verify(engine=same_judge(run)).result == "bit-identical"
    content = path.read_text()
    label(run, n=22)
    labels = run.labels
    assert labels is not None
    assert labels.altered is None
    for altered in (content.splitlines()[0] + "\n", content.replace('"human": 0', '"human": 1', 1)):
        path.write_text(altered)
        labels = run.labels
        assert labels is not None
        assert "20 rows" in str(labels.altered)
        assert f"warning: {labels.altered}" in printed_summary(run)
        page = run.report().read_text()
        assert LABELS in page
        assert "was altered" in page
    [decision] = run.check([f"{METRIC}>=0.1"]).decisions
    assert str(labels.altered) in decision.reason


def test_verify_takes_a_drawing_of_a_metric_without_a_judged_statement(
    scripted_run: ScriptedRun,
) -> None:
    run = scripted_run(
        "run",
        [{"id": "a", "reference": "It rains.", "retrieved_contexts": []}],
        {},
        metrics=[METRIC],
    )
    drawn = decision(draw=f"0: {METRIC} 0123abcd", frame="0f", size_share=0.5, draw_index=1)
    run = rewritten(run, [drawn])
    assert run.verify(engine=ScriptedEngine({}, default=1.0)).result == "bit-identical"
    assert run.labels is None


def test_drawn_statements_without_a_label_leave_gates_undecided(judged_run: JudgedRun) -> None:
    """Only statements with the human label 1 are labelled: the mean is 1."""
    run = label(judged_run(), lambda words: label_words(words) or None, 40)
    found = labels(run)
    assert found.is_incomplete
    [decision] = run.check([f"{METRIC}>=0.2"]).decisions
    assert (decision.outcome, decision.passed, decision.corrected) == ("undecided", False, True)
    assert f"{found.passed_over} drawn statements" in decision.reason


@settings(
    max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(st.data())
def test_corrected_numbers_are_shares_for_any_labels(
    judged_run: JudgedRun, data: st.DataObject
) -> None:
    samples = data.draw(st.integers(1, 15))
    run = judged_run(f"run of {samples}", samples=samples)
    (run.directory / LABELS).unlink(missing_ok=True)
    label(
        run,
        lambda _: data.draw(st.sampled_from([0, 1, 1, "?", None])),
        data.draw(st.integers(1, 30)),
    )
    label(
        run,
        lambda _: data.draw(st.integers(0, 1)),
        data.draw(st.integers(1, 30)),
        "bob",
        again=data.draw(st.booleans()),
    )
    found = run.labels
    for mean in found.corrected.values() if found else ():
        assert mean.mean is None or 0 <= mean.mean <= 1
        assert mean.ci95 is None or 0 <= mean.ci95[0] <= mean.ci95[1] <= 1
        assert mean.remark is not None or mean.ci95 is not None
    rows = stored_labels(run.directory)
    (run.directory / LABELS).unlink(missing_ok=True)
    append_labels(run.directory, data.draw(st.permutations(rows)))
    turned = run.labels
    assert (turned is None) == (found is None)
    if found and turned:
        assert turned.corrected[METRIC].mean == pytest.approx(
            found.corrected[METRIC].mean, abs=1e-12
        )
        assert turned.corrected[METRIC].ci95 == pytest.approx(
            found.corrected[METRIC].ci95, abs=1e-9
        )
