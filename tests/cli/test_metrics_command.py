"""`localjudge run --list-metrics`: the list of what can be computed."""

import json
from pathlib import Path

import pytest

from localjudge.metrics import catalog
from localjudge.metrics.catalog import MetricDescription, described
from tests.cli.conftest import called

ROOT = Path(__file__).parent.parent.parent


def test_every_metric_says_what_it_asks_needs_and_costs(capfd: pytest.CaptureFixture[str]) -> None:
    code, printed, errors = called(capfd, "run", "--list-metrics")
    assert (code, errors) == (0, "")
    for metric in described():
        assert f" {metric.name} " in printed or f" {metric.name}\n" in printed
    assert "options   mode=f1|precision|recall" in printed
    assert "options   compare_by=TEXT" in printed


def test_json_has_the_same_for_programs(capfd: pytest.CaptureFixture[str]) -> None:
    code, printed, _ = called(capfd, "run", "--list-metrics", "--json")
    found = {metric["name"]: metric for metric in json.loads(printed)}
    assert code == 0
    assert list(found) == list(catalog.names())
    assert found["context_recall"]["default_metrics"]
    assert not found["context_relevancy"]["default_metrics"]
    assert found["abstention"]["instructions"]
    assert found["abstention"]["options"] == {"mode": ["right", "over_refused", "made_up"]}
    assert found["refusal"]["lower_is_better"]
    assert found["context_recall"]["about"]["verdicts"] == "sentences of the reference"


@pytest.mark.parametrize("metric", described(), ids=lambda metric: metric.name)
def test_what_a_metric_says_of_itself_is_whole(metric: MetricDescription) -> None:
    """One of ours that says nothing would be listed as a mere name."""
    assert all(metric.about)
