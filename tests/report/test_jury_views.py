"""Reports and tables about a jury."""

from collections.abc import Mapping

import pytest

from localjudge.metrics import Scored, Span, Unit, Verdict
from localjudge.report.remarks import decidedness_line
from localjudge.report.sample_views import remark_on
from localjudge.run_directory.result_rows import Evaluation, VerdictRow
from localjudge.run_directory.summary import Totals, VerdictSummary
from localjudge.types import JudgeCard, VerdictRule

RULE = VerdictRule(0.5, 0.01)


def evaluation(*judges: Mapping[str, float] | None) -> Evaluation:
    verdicts = []
    for index, probabilities in enumerate(judges):
        unit = Unit(kind="statement", index=index, source="response", span=Span.whole("It rains."))
        parts = dict(probabilities) if probabilities else None
        verdict = Verdict(label=1, p_yes=0.9, valid_mass=1.0, judges=parts)
        verdicts.append(VerdictRow.of("1", "faithfulness", index, unit, verdict))
    return Evaluation("1", "faithfulness", Scored(value=1.0), tuple(verdicts))


def summarise(*judges: Mapping[str, float] | None, rubrics: tuple[str, ...] = ()) -> VerdictSummary:
    totals = Totals(["faithfulness"], RULE, rubrics=rubrics)
    totals.add([evaluation(*judges)])
    return totals.summary("", JudgeCard(name="a + b")).verdicts


def test_the_share_of_divided_verdicts() -> None:
    """Of three verdicts of a jury, the judges disagree on one; one half is a 1."""
    summary = summarise({"a": 0.9, "b": 0.5}, {"a": 0.9, "b": 0.49}, {"a": 0.1, "b": 0.2}, None)
    assert summary.divided == pytest.approx(1 / 3)
    assert "33 %" in decidedness_line(summary)


def test_a_single_judge_has_no_such_key() -> None:
    summary = summarise(None, None)
    assert summary.divided is None
    assert "divided" not in summary.model_dump(mode="json")
    assert "disagree" not in decidedness_line(summary)


def test_levels_are_not_compared_at_one_half() -> None:
    assert summarise({"a": 0.9, "b": 0.1}, rubrics=("faithfulness",)).divided is None


def row(judges: Mapping[str, float] | None) -> VerdictRow:
    [verdict] = evaluation(judges).verdicts
    return verdict


def test_the_details_of_a_verdict_name_every_probability() -> None:
    assert remark_on(row({"a": 0.9, "b": 0.8})) == "a 0.900, b 0.800"
    remark = remark_on(row({"a": 0.9, "b": 0.1}))
    assert remark is not None
    assert "disagree" in remark
    assert remark_on(row(None)) is None


def test_only_rows_of_a_jury_have_its_probabilities() -> None:
    assert row({"a": 0.9, "b": 0.1}).values["judges"] == {"a": 0.9, "b": 0.1}
    assert "judges" not in row(None).values
