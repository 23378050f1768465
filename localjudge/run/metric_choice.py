"""Which metrics a run computes: the wanted ones, or all that the data is enough for.

    question, contexts  ──>  context_relevancy, context_relevancy_chunk
                             left out: context_recall, which lacks a reference

Ids of contexts are enough for metrics that compare documents, and for no other. What is missing is said with the
columns that are not used, and with the one among them that may be it.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from localjudge.dataset import Dataset
from localjudge.dataset.guesses import map_option
from localjudge.errors import UsageError
from localjudge.metrics import Metric, catalog
from localjudge.metrics.documents import by_id_without_texts
from localjudge.run.columns_in_words import ANOTHER_NAME, left_out_lines, listed, missing, understood, unused


class MetricChoice(NamedTuple):
    """The metrics to compute, and of each one that is left out the fields that it lacks."""

    metrics: tuple[Metric, ...]
    left_out: dict[str, frozenset[str]]


def choose_metrics(wanted: Sequence[str] | None, dataset: Dataset) -> MetricChoice:
    """The wanted metrics; if None, all whose fields are there. In the order of the catalogue, whatever was asked.

    Of documents without texts the ids are compared: `document_map(compare_by=id)` takes the place of `document_map`.
    Raises UsageError for a metric that does not exist or lacks a field, and where the data is enough for none.
    """
    if isinstance(wanted, str):
        wanted = [wanted]
    if wanted is not None and not wanted:
        raise UsageError("no metric was named", hint=f"metrics are {', '.join(catalog.names())}")
    lacks = {} if wanted is not None else _lacks(map(catalog.get, catalog.default_names()), dataset)
    if lacks and all(lacks.values()):
        raise _enough_for_none(lacks, dataset)
    names = [name for name, fields in lacks.items() if not fields] if wanted is None else list(wanted)
    metrics = [catalog.get(name) for name in names]
    if dataset.without_text:
        metrics = [by_id_without_texts(metric) for metric in metrics]
    metrics = list({metric.name: metric for metric in metrics}.values())
    for name, fields in _lacks(metrics, dataset).items():
        if fields:
            raise _lacking(catalog.get(name), fields, dataset)
    order = {name: place for place, name in enumerate(catalog.names())}
    metrics.sort(key=lambda metric: (order.get(metric.name.partition("(")[0], len(order)), metric.name))
    return MetricChoice(tuple(metrics), {name: fields for name, fields in lacks.items() if fields})


def _lacks(metrics: Iterable[Metric], dataset: Dataset) -> dict[str, frozenset[str]]:
    """For each metric the fields that it needs and the data does not give, or of which it gives ids alone."""
    return {
        metric.name: (metric.required_fields - dataset.fields) | (catalog.reads_texts_of(metric) & dataset.without_text)
        for metric in metrics
    }


def _lacking(metric: Metric, fields: frozenset[str], dataset: Dataset) -> UsageError:
    return UsageError(
        f"{metric.name} needs {listed(metric.required_fields)}, and the data has {missing(fields, dataset)} "
        f"({_columns(dataset)})",
        hint=_what_to_map(fields, dataset),
    )


def _enough_for_none(lacks: dict[str, frozenset[str]], dataset: Dataset) -> UsageError:
    why = "".join(f"\n  {line}" for line in left_out_lines(lacks, dataset))
    return UsageError(
        f"the data's columns are enough for no metric ({_columns(dataset)}):{why}",
        hint=_what_to_map(frozenset.union(*lacks.values()), dataset),
    )


def _columns(dataset: Dataset) -> str:
    return f"taken: {understood(dataset)}; not used: {unused(dataset) or 'none'}"


def _what_to_map(fields: frozenset[str], dataset: Dataset) -> str:
    guessed = {field: columns for field, columns in dataset.guesses.items() if field in fields}
    return f"if that is what they hold: {map_option(guessed)}" if guessed else ANOTHER_NAME
