"""The metrics of a run, as they were when it was made: its own criteria, and names of earlier versions."""

from dataclasses import dataclass

from localjudge.metrics import Metric, catalog
from localjudge.metrics.documents import DocumentMetric
from localjudge.record.kept_criteria import kept_criteria
from localjudge.record.results import Run


@dataclass(frozen=True)
class _NamedWithoutOption(DocumentMetric):
    """A document metric of an earlier run, whose settings said by what documents are compared, and not its name."""

    @property
    def name(self) -> str:
        """`document_map`, whatever is compared."""
        return self.measure.name


def metrics_of(run: Run) -> list[Metric]:
    """The run's metrics in their order, under the names that it gave them."""
    own: dict[str, Metric] = {**kept_criteria(run.manifest)}
    metrics = [own.get(name) or catalog.get(name) for name in run.summary.metrics]
    compare_by = run.manifest.environment["settings"].get("compare_by")
    if not isinstance(compare_by, str):
        return metrics
    return [
        _NamedWithoutOption(metric.measure, compare_by=compare_by) if isinstance(metric, DocumentMetric) else metric
        for metric in metrics
    ]
