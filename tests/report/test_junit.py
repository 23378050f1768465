"""Gates as JUnit XML."""

from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge.analysis.check import GateDecision, parse_gate
from localjudge.report.ci import finished, unfinished


def decision(outcome: str, *, kept: bool, gate: str = "context_recall>=0.8", reason: str = "because") -> GateDecision:
    return GateDecision.model_validate(
        {
            "gate": gate,
            "metric": "context_recall",
            "outcome": outcome,
            "kept": kept,
            "value": None,
            "ci95": None,
            "samples": 3,
            "samples_needed": None,
            "reason": reason,
        }
    )


def suite(content: str) -> ElementTree.Element:
    found = ElementTree.fromstring(content).find("testsuite")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("outcome", "kept", "elements"),
    [
        ("pass", True, []),
        ("fail", False, ["failure"]),
        ("undecided", False, ["failure"]),
        ("undecided", True, ["skipped"]),
    ],
)
def test_a_gate_is_a_test_case(outcome: str, kept: bool, elements: list[str]) -> None:
    (case,) = suite(finished([decision(outcome, kept=kept)], {})).findall("testcase")
    assert (case.get("classname"), case.get("name")) == ("localjudge.gates", "context_recall>=0.8")
    assert [child.tag for child in case] == elements
    assert [(child.get("type"), child.get("message")) for child in case] == [(outcome, "because")] * len(elements)


def test_counts_are_those_of_the_cases_and_the_run_is_named() -> None:
    outcomes = (("pass", True), ("fail", False), ("undecided", True))
    decisions = [decision(outcome, kept=kept, gate=f"{outcome}>=0") for outcome, kept in outcomes]
    found = suite(finished(decisions, {"run": "runs/a", "signature": "judge:1|data:2"}))
    assert [found.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["3", "1", "0", "1"]
    properties = [(one.get("name"), one.get("value")) for one in found.iter("property")]
    assert properties == [("run", "runs/a"), ("signature", "judge:1|data:2")]


def test_a_run_that_does_not_finish_leaves_errors() -> None:
    found = suite(unfinished([parse_gate("context_recall>=0.8"), parse_gate("faithfulness>=0.9")]))
    assert [found.get(name) for name in ("tests", "failures", "errors")] == ["2", "0", "2"]
    assert [error.get("message") for error in found.iter("error")] == ["the run did not finish"] * 2


@given(st.text(st.characters(categories=None, exclude_categories=())))
@settings(deadline=None)
def test_any_text_gives_a_valid_file(text: str) -> None:
    """Of all of Unicode: control characters, lone surrogates, what XML reserves, what it cannot hold."""
    content = finished([decision("fail", kept=False, gate=f"{text}>=0", reason=text)], {"run": text})
    failure = suite(ElementTree.tostring(ElementTree.fromstring(content.encode()), encoding="unicode"))
    assert failure.get("failures") == "1"
