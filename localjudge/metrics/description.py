"""What metrics there are: for `localjudge metrics`, and for whoever chooses one from Python."""

from typing import NamedTuple

from localjudge.metrics import catalog
from localjudge.metrics.about import About
from localjudge.metrics.first_picture import ALL_CHOICES

_NOTHING_SAID = About(asks="", verdicts="", source="")


class MetricDescription(NamedTuple):
    """One metric: its name (`@k` for any k), its options and their values, the default first (none: any text).

    `first_picture` says whether a run may compute it without being asked; `instructions` that only a judge that reads
    instructions can be asked.
    """

    name: str
    options: dict[str, tuple[str, ...]]
    fields: tuple[str, ...]
    about: About
    first_picture: bool
    instructions: bool
    lower_is_better: bool


def described() -> list[MetricDescription]:
    """All metrics, installed ones too. Raises UsageError for an installed one that cannot be loaded."""
    return [_described(name) for name in catalog.names()]


def _described(name: str) -> MetricDescription:
    metric = catalog.example(name)
    about = getattr(metric, "about", None)
    return MetricDescription(
        name=name,
        options=catalog.options_offered(name),
        fields=tuple(sorted(metric.required_fields)),
        about=about if isinstance(about, About) else _NOTHING_SAID._replace(asks=_first_line(metric)),
        first_picture=name in ALL_CHOICES,
        instructions=bool(catalog.special_tasks_of([metric])),
        lower_is_better=catalog.lower_is_better(name),
    )


def _first_line(metric: object) -> str:
    """The first line of the docstring of another package's metric."""
    return (metric.__doc__ or "").strip().partition("\n")[0]
