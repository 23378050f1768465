"""What was understood of the data, said before anything is judged."""

from collections.abc import Iterator

from localjudge.run.metric_choice import listed
from localjudge.run.plan import Plan
from localjudge.run.progress import Progress
from localjudge.types import CONTEXT_FIELDS, Sample


def tell(planned: Plan, progress: Progress) -> None:
    """Say which column is taken for which field, and what is left out."""
    for note in _notes(planned):
        progress.note(note)


def _notes(planned: Plan) -> Iterator[str]:
    dataset = planned.dataset
    fields = ", ".join(
        field if field == column else f"{field} (column {column})" for field, column in dataset.mapping.items()
    )
    yield f"{len(dataset.samples):,} samples with {fields}"
    if dataset.without_text:
        how = planned.settings.compare_by
        yield f"{listed(dataset.without_text)}: ids and no texts; documents are compared by {how}"
    elif bare := sum(map(_has_ids_alone, dataset.samples)):
        yield f"{bare:,} samples have contexts with ids and no texts: what reads texts is undefined for them"
    if dataset.skipped:
        yield f"{dataset.skipped:,} rows left out, problems: {dataset.problem_count:,}"
        yield from (f"  {problem}" for problem in dataset.problems)


def _has_ids_alone(sample: Sample) -> bool:
    return any(context.text is None for field in CONTEXT_FIELDS for context in getattr(sample, field) or ())
