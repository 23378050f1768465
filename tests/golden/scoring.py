"""Score a metric with verdicts that the test gives."""

from collections.abc import Mapping, Sequence

from localjudge import Sample
from localjudge.metrics import Label, Outcome, Task, Verdict, catalog
from localjudge.text import Segmenter

sentences = Segmenter()


def score(metric_name: str, sample: Sample, yes: Mapping[str, Label]) -> Outcome:
    """Score with verdict 1 for the units in `yes` with value 1, and 0 for those with value 0."""
    return asked_and_scored(metric_name, sample, yes)[1]


def asked_and_scored(
    metric_name: str, sample: Sample, yes: Mapping[str, Label]
) -> tuple[list[Task], Outcome]:
    steps = catalog.get(metric_name).steps(sample, sentences)
    asked: list[Task] = []
    try:
        tasks = next(steps)
        while True:
            asked += tasks
            tasks = steps.send([Verdict(label=yes[_key(task)]) for task in tasks])
    except StopIteration as finished:
        return asked, finished.value


def table(rows: Mapping[str, str], columns: Sequence[str]) -> dict[str, Label]:
    """Return verdicts by unit and evidence, from rows of one digit per column."""
    yes: dict[str, Label] = {}
    for text, digits in rows.items():
        yes |= {
            f"{text} | {column}": 1 if digit == "1" else 0
            for column, digit in zip(columns, digits, strict=True)
        }
    return yes


def _key(task: Task) -> str:
    match task.unit.against:
        case None:
            return task.unit.span.text
        case int(index):
            return f"{task.unit.span.text} | chunk {index + 1}"
        case text:
            return f"{task.unit.span.text} | {text}"
