"""Tables and views: what they show, and that user text cannot act on the terminal."""

import io
import re
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from localjudge import Run, ScriptedEngine, evaluate
from localjudge.errors import UsageError
from localjudge.record.result_rows import ScoreRow
from localjudge.report.sample import find_sample, prompts_view, sample_view, verdicts_view
from localjudge.report.tables import summary_view, worst_scores, worst_view


def printed(view: RenderableType, *, terminal: bool = False) -> str:
    stream = io.StringIO()
    Console(
        file=stream, width=120, markup=False, emoji=False, highlight=False, force_terminal=terminal, color_system=None
    ).print(view)
    return stream.getvalue()


EVERY_VIEW: dict[str, Callable[[Run], RenderableType]] = {
    "summary": summary_view,
    "verdicts": verdicts_view,
    "worst": lambda run: worst_view(run, count=5),
    "sample": lambda run: sample_view(run, "=evil\x1b[2J"),
    "prompts": lambda run: prompts_view(run, "=evil\x1b[2J", "context_recall"),
}


@pytest.mark.parametrize("name", EVERY_VIEW)
def test_no_view_lets_user_text_act_on_the_terminal(run: Run, name: str) -> None:
    """No control character but the newlines of the view itself, and no change of direction."""
    text = printed(EVERY_VIEW[name](run), terminal=True).replace("\n", "")
    assert not [character for character in text if unicodedata.category(character) in {"Cc", "Cs"}]
    assert "\u202e" not in text


def test_markup_in_user_text_is_shown_and_not_obeyed(run: Run) -> None:
    assert "[bold red]Not[/] \\u202etxet :smile:." in printed(verdicts_view(run))


def test_the_table_has_mean_interval_counts_and_signature(run: Run) -> None:
    """Recall: 1/2 and 0/2; mean 0.25."""
    lines = printed(summary_view(run)).splitlines()
    low, high = run.summary.metrics["context_recall"].ci95 or (0, 0)
    row = next(line.split() for line in lines if line.startswith(" context_recall "))
    assert row == ["context_recall", "0.250", f"{low:.3f}", "-", f"{high:.3f}", "2", "1", "0"]
    assert "judge scripted" in map(str.strip, lines)
    assert any(f"signature {run.summary.signature}" in line for line in lines)


def test_samples_of_one_group_are_told_to_have_no_interval(tmp_path: Path) -> None:
    """And the table shows none."""
    rows = [{"id": name, "reference": "It rains.", "retrieved_contexts": ["c"], "document": 1} for name in "abc"]
    options: dict[str, Any] = {"engine": ScriptedEngine({}, default=1.0), "metrics": ["context_recall"]}
    text = printed(summary_view(evaluate(rows, **options, cluster_by="document", out=tmp_path / "one")))
    assert re.search(r"context_recall +1\.000 +- +3 ", text)
    assert "context_recall: warning: all samples are in one group, and no interval can be told from one" in text
    assert "one group" not in printed(summary_view(evaluate(rows, **options, cluster_by="id", out=tmp_path / "three")))


def test_more_failures_than_allowed_leave_no_mean_but_bounds(failed_run: Run) -> None:
    """One scored 1, one failed: from 1/2 to 2/2."""
    text = printed(summary_view(failed_run))
    assert "context_recall: 1 failed, more than allowed (max_failed): no mean; it is from 0.500 to 1.000" in text
    assert "1.000 " not in text.split("context_recall:")[0]
    allowed = printed(summary_view(failed_run, max_failed=1))
    assert "context_recall: 1 failed; it is from 0.500 to 1.000" in allowed


def test_a_sample_shows_its_texts_units_and_probabilities(run: Run) -> None:
    text = printed(sample_view(run, "good"))
    for shown in (
        "retrieved_contexts[0]",
        "Rain.",
        "context_recall 1/2 = 0.500",
        "1 0.900  It rains.",
        "0 0.100  It is red.",
    ):
        assert shown in text


def test_a_unit_without_a_verdict_shows_why(failed_run: Run) -> None:
    assert "It snows.  (it does not fit)" in printed(verdicts_view(failed_run, sample_id="bad"))


def test_a_sample_is_found_by_its_row_or_by_the_beginning_of_its_id(run: Run) -> None:
    assert [find_sample(run, named).id for named in ("1", "3", "goo", "no")] == ["good", "none", "good", "none"]


def test_an_id_goes_before_a_row_and_a_row_before_a_beginning(tmp_path: Path) -> None:
    """Row 2 has the id 1; `3` is a row and begins the id of another one; `30` is no row."""
    rows = [{"id": name, "retrieved_contexts": ["c"], "reference": "It rains."} for name in ("31", "1", "last")]
    run = evaluate(rows, engine=ScriptedEngine({}, default=1.0), out=tmp_path)
    assert [find_sample(run, named).id for named in ("1", "3", "31")] == ["1", "last", "31"]
    with pytest.raises(UsageError, match="no sample '30'"):
        find_sample(run, "30")


def test_a_beginning_of_several_ids_is_told_which(tmp_path: Path) -> None:
    rows = [{"id": name, "retrieved_contexts": ["c"], "reference": "It rains."} for name in ("ab1", "ab2", "b")]
    run = evaluate(rows, engine=ScriptedEngine({}, default=1.0), out=tmp_path)
    with pytest.raises(UsageError, match=r"^2 samples of the run have ids that begin with 'a'\n.*'ab1', 'ab2'\?$"):
        find_sample(run, "a")


def test_a_sample_that_is_bad_in_two_ways_is_shown_once_and_before_one_that_is_bad_in_one() -> None:
    """Mean distance from the best: a 1/4, b (1/2 + 1/2) / 2 = 1/2, c 1/4 as well; b stands with the farther one."""
    found = {"a": (1.0, 0.5), "b": (0.5, 0.5), "c": (0.5, 1.0)}
    rows = [
        ScoreRow(sample_id, metric, "scored", score, None, None, None)
        for sample_id, scores in found.items()
        for metric, score in zip(("x", "y"), scores, strict=True)
    ]
    assert [(row.sample_id, row.metric) for row in worst_scores(rows, ["x", "y"], 5)] == [
        ("b", "x"),
        ("a", "y"),
        ("c", "x"),
    ]


def test_one_metric_is_all_that_is_shown_if_it_is_named(run: Run) -> None:
    """Of the verdicts, too: two statements each of two samples; the rest are about relevancy."""
    text = printed(summary_view(run, metric="context_recall"))
    assert "context_relevancy" not in text
    assert "4 verdicts: 0 % within 0.1 of the threshold" in text
    assert "4 verdicts" not in printed(summary_view(run))


def test_a_judge_that_leaves_half_of_its_verdicts_near_the_threshold_is_called_undecided(tmp_path: Path) -> None:
    """At 0.45 all are within 0.1 of 0.5; at 0.39 none is."""
    rows = [{"id": "a", "retrieved_contexts": ["c"], "reference": "It rains."}]
    remark = "warning: this judge hardly decides, and may be at chance level"
    for name, probability in (("near", 0.45), ("far", 0.39)):
        run = evaluate(rows, engine=ScriptedEngine({}, default=probability), out=tmp_path / name)
        assert (remark in printed(summary_view(run))) == (name == "near")


def test_windows_are_told_with_how_many_questions_they_took(tmp_path: Path) -> None:
    """Two contexts of 2,000 in a capacity of 4,000: each of two statements is asked about beside each of them."""
    rows = [{"id": "a", "retrieved_contexts": ["a" * 2_000, "b" * 2_000], "reference": "It rains. It snows."}]
    engine = ScriptedEngine({}, default=0.9, capacity=4_000)
    run = evaluate(rows, engine=engine, metrics=["context_recall"], out=tmp_path)
    text = " ".join(printed(summary_view(run)).split())
    assert "warning: 2 units do not fit the judge's context with all that they are judged by" in text
    assert "4 questions for 2 units; a larger n_ctx spares that" in text
    assert "in a trial of the reference judge 2.8 % with one window, 6.2 % with 8" in text


def test_windows_of_one_metric_are_its_own(tmp_path: Path) -> None:
    """Of two metrics, each with two statements in two windows, one is shown: 4 questions, and not 8."""
    text = "It rains. It snows."
    rows = [{"id": "a", "retrieved_contexts": ["a" * 2_000, "b" * 2_000], "reference": text, "response": text}]
    engine = ScriptedEngine({}, default=0.9, capacity=4_000)
    run = evaluate(rows, engine=engine, metrics=["context_recall", "faithfulness"], out=tmp_path)
    assert "8 questions for 4 units" in " ".join(printed(summary_view(run)).split())
    assert "4 questions for 2 units" in " ".join(printed(summary_view(run, metric="faithfulness")).split())


def test_an_unknown_sample_is_told_the_nearest(run: Run) -> None:
    with pytest.raises(UsageError, match=r"no sample 'goood'\n.*did you mean 'good'\?$"):
        sample_view(run, "goood")


def test_an_unknown_sample_that_is_like_none_is_told_what_there_is(run: Run) -> None:
    """No id is suggested that has nothing to do with what was typed."""
    with pytest.raises(UsageError) as caught:
        sample_view(run, "7f3a9c")
    assert caught.value.hint == "name a row from 1 to 3, or an id such as 'good'"


def test_the_worst_come_first_failures_before_low_scores(run: Run, failed_run: Run) -> None:
    """Undefined samples and perfect ones are not among them."""

    def worst(scores: Iterable[ScoreRow], count: int) -> list[str]:
        return [row.sample_id for row in worst_scores(scores, ["context_recall"], count)]

    assert worst(run.scores, 5) == ["=evil\x1b[2J", "good"]
    assert worst(failed_run.scores, 5) == ["bad"]
    assert len(worst(run.scores, 1)) == 1
