"""The table of metrics, and metrics that other packages add to it."""

from pathlib import Path

import pytest

from localjudge.errors import UsageError
from localjudge.metrics import catalog
from localjudge.types import Sample, Scored

EXAMPLE = '''
"""A metric of your own: how long the response is against a limit of ten words."""

from dataclasses import dataclass

from localjudge.types import Outcome, Sample, Scored


@dataclass(frozen=True)
class Brevity:
    name: str = "brevity"
    version: int = 1
    requires: frozenset[str] = frozenset({"response"})

    def score(self, sample: Sample) -> Outcome:
        words = len((sample.response or "").split())
        return Scored(value=min(1.0, 10 / max(words, 1)))


brevity = Brevity()
not_a_metric = 3
loose = Brevity(name="loose", requires=["response"])
'''


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with a metric, as pip leaves it."""
    (tmp_path / "own_metrics.py").write_text(EXAMPLE)
    info = tmp_path / "own_metrics-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-metrics\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[localjudge.metrics]\nbrevity = own_metrics:brevity\nbroken = own_metrics:not_a_metric\n"
        "gone = own_metrics:nothing\ncontext_recall = own_metrics:brevity\na_class = own_metrics:Brevity\n"
        "other = own_metrics:brevity\nloose = own_metrics:loose\nraises = own_metrics_that_raise:metric\n"
    )
    (tmp_path / "own_metrics_that_raise.py").write_text("metric = {}['no such key']")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("installed")
def test_an_installed_package_adds_a_metric() -> None:
    """20 words against a limit of 10: 10 / 20."""
    metric = catalog.get("brevity")
    assert "brevity" in catalog.names()
    assert metric.score(Sample(id="a", response="word " * 20)) == Scored(value=0.5)  # type: ignore[union-attr]


@pytest.mark.usefixtures("installed")
def test_our_own_metric_wins_over_an_installed_one_of_the_same_name() -> None:
    """A package cannot change what `context_recall` means."""
    assert type(catalog.get("context_recall")).__name__ == "ContextRecall"
    assert catalog.names().count("context_recall") == 1


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("broken", "is not a metric: it lacks name, version, requires"),
        ("gone", "cannot be loaded: AttributeError: module 'own_metrics' has no attribute 'nothing'"),
        ("a_class", "own_metrics:Brevity is not a metric: it is a class, not one of its objects"),
        (
            "other",
            "own_metrics:brevity is not a metric: it calls itself 'brevity', and its entry point is called 'other'",
        ),
        ("loose", "own_metrics:loose is not a metric: requires is not a frozenset"),
        ("raises", r"cannot be loaded: KeyError: 'no such key' \(own_metrics_that_raise.py:1\)"),
    ],
)
def test_what_an_entry_point_names_must_be_a_metric(name: str, what: str) -> None:
    """Said before anything is judged."""
    with pytest.raises(UsageError, match=what):
        catalog.get(name)


def test_a_name_at_k_is_a_metric_for_each_k() -> None:
    """`@k` wants a positive whole number."""
    assert catalog.get("matrix_recall@3").name == "matrix_recall@3"
    for wrong in ("matrix_recall@0", "matrix_recall@-1", "matrix_recall@x", "context_recall@3"):
        with pytest.raises(UsageError, match="no metric is called"):
            catalog.get(wrong)


def test_an_unknown_name_gets_the_nearest() -> None:
    """A typing error is answered with what was meant."""
    with pytest.raises(UsageError, match="did you mean context_recall"):
        catalog.get("contxt_recall")


@pytest.mark.parametrize("name", [name.replace("@k", "@3") for name in catalog.names()])
def test_every_metric_says_its_name_its_version_and_what_it_needs(name: str) -> None:
    """The signature and the choice of default metrics rest on these."""
    metric = catalog.get(name)
    assert metric.name == name
    assert metric.version >= 1
    assert metric.requires
