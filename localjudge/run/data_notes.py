"""What was understood of the data, said once before anything is judged, and in the data's own words.

    2 samples with user_input (column question), retrieved_contexts (column contexts)
    columns not used: department, gold_standard
    no column for response, so left out: faithfulness
    no column for reference, so left out: context_recall, context_precision
    gold_standard may be the reference missing for context_recall, context_precision: --map reference=gold_standard

A note goes where progress goes. Where a column that is not used may be the one that is missing, it is a warning, which
`--quiet` does not hide: the number that somebody waits for is not computed.
"""

import logging
from collections.abc import Iterator

from localjudge.dataset.guesses import map_option
from localjudge.printable import printable
from localjudge.run.columns_in_words import left_out_lines, listed, understood, unused
from localjudge.run.plan import Plan
from localjudge.run.progress import Progress

_log = logging.getLogger(__name__)


def tell(planned: Plan, progress: Progress) -> None:
    """Say which column is taken for which field, and what is left out for want of which."""
    for note in (*_notes(planned), *left_out_lines(planned.left_out, planned.dataset)):
        progress.note(note)
    for field, columns in planned.dataset.guesses.items() if planned.left_out else ():
        names = ", ".join(name for name, fields in planned.left_out.items() if field in fields)
        may_be = f"{', '.join(columns)} may be the {field} missing for {names}: {map_option({field: columns})}"
        _log.warning(printable(may_be))


def _notes(planned: Plan) -> Iterator[str]:
    dataset = planned.dataset
    yield f"{len(dataset.samples):,} samples with {understood(dataset)}"
    if not_used := unused(dataset, planned.settings.cluster_by):
        yield f"columns not used: {not_used}"
    if dataset.without_text:
        how = planned.settings.compare_by
        yield f"{listed(dataset.without_text)}: ids and no texts; documents are compared by {how}"
    elif bare := dataset.ids_alone:
        yield f"{bare:,} samples have contexts with ids and no texts: what reads texts is undefined for them"
    if dataset.skipped:
        yield f"{dataset.skipped:,} rows left out, problems: {dataset.problem_count:,}"
        yield from (f"  {problem}" for problem in dataset.problems)
