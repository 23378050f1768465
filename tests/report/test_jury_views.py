"""Reports and tables about a jury: a frozen run of two judges, beside one of a single judge."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import printed_summary

from localjudge import Run
from tests.frozen.frozen_runs import unpack
from tests.report.conftest import PageReader


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("frozen")


@pytest.fixture(scope="module")
def jury(folder: Path) -> Run:
    return Run.open(unpack("jury", folder))


@pytest.fixture(scope="module")
def single(folder: Path) -> Run:
    return Run.open(unpack("single", folder))


def stored_rows(run: Run) -> list[dict[str, Any]]:
    lines = (run.directory / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def is_divided(row: dict[str, Any]) -> bool:
    """Return whether the judges of a verdict differ; one half is a 1."""
    return len({p_yes >= 0.5 for p_yes in row["judges"].values()}) == 2


def test_details_say_how_often_the_judges_disagree(jury: Run, single: Run) -> None:
    judged = [row for row in stored_rows(jury) if row.get("judges")]
    share = sum(map(is_divided, judged)) / len(judged)
    assert jury.summary.verdicts.divided == pytest.approx(share)
    assert f"disagree on {share:.0%}".replace("%", " %") in printed_summary(jury, "--details")
    assert "disagree" not in printed_summary(single, "--details")


def test_only_files_of_a_jury_have_its_probabilities(single: Run) -> None:
    assert not [row for row in stored_rows(single) if "judges" in row]
    assert "divided" not in (single.directory / "summary.json").read_text(encoding="utf-8")


def test_the_page_names_the_probability_of_each_judge(jury: Run) -> None:
    samples = PageReader(jury.report().read_text(encoding="utf-8")).unpacked("details")
    pages = {sample["id"]: sample["metrics"] for sample in samples}
    for row in stored_rows(jury):
        verdict = pages[row["sample_id"]][row["metric"]]["verdicts"][row["position"]]
        if row.get("judges"):
            assert ("disagree" in verdict[6]) == is_divided(row)
            assert all(f"{name} 0." in verdict[6] for name in row["judges"])
