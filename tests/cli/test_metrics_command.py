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


def test_an_installed_metric_is_listed_by_its_docstring(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it says cannot play with the terminal."""
    (tmp_path / "listed_metrics.py").write_text(
        "class Brevity:\n"
        "    '''Short \\x1b[2J and good.\\n\\nMore.'''\n"
        "    name, version, required_fields, steps = 'brevity', 1, frozenset({'response'}), None\n"
        "brevity = Brevity()\n"
    )
    info = tmp_path / "listed_metrics-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: listed-metrics\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[localjudge.metrics]\nbrevity = listed_metrics:brevity\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    _, printed, _ = called(capfd, "run", "--list-metrics")
    listed = printed.partition("brevity")[2]
    assert "and good." in listed
    assert "More." not in listed
    assert "\x1b" not in printed
