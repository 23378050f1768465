"""What was understood of the data, said once before anything is judged, and in the data's own words.

    2 samples with user_input (column question), retrieved_contexts (column contexts)
    contexts: 3 to 5 a sample
    3 cells of answer say NaN, NULL: taken as missing
    columns not used: department, gold_standard
    no column for response, so left out: faithfulness
    no column for reference, so left out: context_recall
    also possible with this data: context_relevancy, matrix_recall, hit_rate@k (localjudge metrics says what they ask)
    gold_standard may be the reference missing for context_recall: --map reference=gold_standard

A note goes where progress goes. Where a column that is not used may be the one that is missing, or the language is
another than the sentences are cut as, it is a warning, which `--quiet` does not hide: a number is missing or wrong.
"""

import logging
from collections.abc import Iterable, Iterator
from itertools import islice

from localjudge.dataset import Dataset
from localjudge.dataset.columns_in_words import left_out_lines, listed, nothing_lines, understood, unused
from localjudge.dataset.guesses import map_option
from localjudge.metrics.documents import DocumentMetric
from localjudge.option_spelling import option_name
from localjudge.printable import numbered, printable
from localjudge.progress import Progress, Silence
from localjudge.record.manifest import CHOOSE_A_PART, chosen_part
from localjudge.run.plan import Plan
from localjudge.run.settings import RunSettings
from localjudge.text.language_fit import misfit
from localjudge.types import Sample

_READ_FOR_LANGUAGE = 1_000


_log = logging.getLogger(__name__)


class Noted:
    """Passes on what it is told, keeps the notes for `Run.notes`, and logs them where nothing is shown."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress = progress or Silence()
        self.rows, self.expect, self.recall, self.phase = (
            progress.rows,
            progress.expect,
            progress.recall,
            progress.phase,
        )
        self.pause, self.advance, self.close = progress.pause, progress.advance, progress.close
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Something worth a line of its own."""
        self.notes.append(text)
        self._progress.note(text)
        if isinstance(self._progress, Silence):
            _log.info(printable(text))

    def warn(self, text: str) -> None:
        """Something that has to be said even where nothing is shown."""
        self.notes.append(text)
        _log.warning(printable(text))


def tell(planned: Plan, progress: Noted) -> None:
    """Say which column is taken for which field, and what is left out for want of which."""
    for note in (*_notes(planned), *left_out_lines(planned.left_out, planned.dataset)):
        progress.note(note)
    if planned.also_possible:
        others = ", ".join(planned.also_possible)
        progress.note(f"also possible with this data: {others} (localjudge metrics says what they ask)")
    for field, columns in planned.dataset.guesses.items() if planned.left_out else ():
        names = ", ".join(name for name, fields in planned.left_out.items() if field in fields)
        progress.warn(f"{', '.join(columns)} may be the {field} missing for {names}: {map_option({field: columns})}")
    if planned.dataset.contexts_each == (1, 1) and len(planned.dataset.samples) > 1:
        separator = option_name("context_separator")
        progress.warn(f"every sample has exactly 1 context: if several stand in one text, {separator} splits it")
    if misread := language_note(planned.dataset.samples, planned.settings):
        progress.warn(misread)


def language_note(samples: Iterable[Sample], settings: RunSettings) -> str | None:
    """One line if the data looks to be in another language than its sentences are cut as, and what to do.

    None also where a spaCy pipeline cuts in place of our rules. The first samples speak for the others.
    """
    if settings.segmenter:
        return None
    return misfit([_prose(sample) for sample in islice(samples, _READ_FOR_LANGUAGE)], settings.language)


def _prose(sample: Sample) -> str:
    """What is cut into sentences; of the contexts, which are much alike, the first."""
    contexts = [context.text for context in (sample.retrieved_contexts or ())[:1]]
    return "\n".join(filter(None, (sample.reference, sample.response, *contexts)))


def _contexts_each(dataset: Dataset) -> Iterator[str]:
    if dataset.contexts_each:
        fewest, most = dataset.contexts_each
        yield f"contexts: {fewest:,}{'' if fewest == most else f' to {most:,}'} a sample"


def _notes(planned: Plan) -> Iterator[str]:
    dataset = planned.dataset
    samples, settings = len(dataset.samples), planned.settings
    if part := chosen_part(settings.model_dump(include=CHOOSE_A_PART), samples, planned.whole):
        yield f"a part of the data: {part}"
    yield f"{numbered(samples, 'sample')} with {understood(dataset)}"
    if talks := dataset.conversations:
        these = "1 is a conversation" if talks == 1 else f"{talks:,} are conversations"
        yield f"{these}, of which the last turn is judged: the last question, and the answer to it"
    yield from _contexts_each(dataset)
    yield from nothing_lines(dataset)
    if not_used := unused(dataset, settings.cluster_by):
        yield f"columns not used: {not_used}"
    if dataset.without_text:
        compared_by = {metric.compare_by for metric in planned.metrics if isinstance(metric, DocumentMetric)}
        how = f"; documents are compared by {listed(compared_by)}" if compared_by else ""
        yield f"{listed(dataset.without_text)}: ids and no texts{how}"
    elif bare := dataset.ids_alone:
        yield f"{bare:,} samples have contexts with ids and no texts: what reads texts is undefined for them"
    if dataset.skipped:
        yield f"{dataset.skipped:,} rows left out, problems: {dataset.problem_count:,}"
        yield from (f"  {problem}" for problem in dataset.problems)
