"""Views of one sample of a run: its texts, questions and verdicts.

    eiffel-tower: context_recall 2/3 = 0.667
       1 0.981  The Eiffel Tower was built in 1889.
       0 0.031  Gustave Eiffel designed it.

Units judged against each of a few contexts are shown as a matrix for each text. Contexts are
counted from 1.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rich.text import Text

from localjudge.errors import InputError
from localjudge.labels.labelled_statements import LabelledVerdict, with_labels
from localjudge.metrics import catalog
from localjudge.metrics.metric import get_about
from localjudge.report.terminal import Table, View, number, safe_text
from localjudge.run_directory.archive import stored_ids, stored_prompts, stored_sample
from localjudge.run_directory.directory import STORE, excerpt
from localjudge.run_directory.jury import is_divided
from localjudge.run_directory.result_rows import ScoreRow, VerdictRow
from localjudge.run_directory.run_record import RunRecord
from localjudge.types import CONTEXT_FIELDS, Sample
from localjudge.words import numbered, printable, suggestion

_QUOTED = 120

_LABEL_STYLE = {0: "red", 1: "green", None: "yellow"}
_MOST_COLUMNS = 6
"""Maximum columns of a matrix: 9 characters each, leaving 24 of 80 for the sentence."""
_TEXTS = {"reference": "the reference", "response": "the response", "cited": "the cited contexts"}


def verdicts_view(
    scores: Iterable[ScoreRow], verdicts: Iterable[VerdictRow], metric: str | None = None
) -> View:
    units: dict[tuple[str, str], list[VerdictRow]] = {}
    for verdict in verdicts:
        units.setdefault((verdict.sample_id, verdict.metric), []).append(verdict)
    tables = []
    for score in scores:
        if metric in (None, score.metric):
            titles = [f"{score.sample_id}: {score.metric} {describe_outcome(score)}"]
            for cells in _cells(units.get((score.sample_id, score.metric), [])):
                tables.append(Table(rows=cells, titles=titles, indent=2))
                titles = []
    return View(tables)


def _cells(rows: Sequence[VerdictRow]) -> Iterator[Sequence[Sequence[str | Text]]]:
    verdicts = [_in_brief(row) for row in rows]
    columns = {verdict.against for verdict in verdicts}
    if (
        None in columns
        or len(columns) > _MOST_COLUMNS
        or not any(isinstance(column, int) for column in columns)
    ):
        yield [(_cell(verdict), _text(verdict, remark_on(verdict))) for verdict in verdicts]
        return
    sources: dict[str, dict[int, dict[int | str | None, VerdictRow]]] = {}
    for verdict in verdicts:
        sources.setdefault(verdict.source, {}).setdefault(verdict.index, {})[verdict.against] = (
            verdict
        )
    for sentences in sources.values():
        headings = dict.fromkeys(column for row in sentences.values() for column in row)
        matrix = [[Text(_heading(column), style="dim") for column in headings]]
        for row in sentences.values():
            remarks = [
                f"{_heading(column)} {remark}" for column in row if (remark := _remark(row[column]))
            ]
            matrix.append(
                [
                    *(_cell(row.get(column)) for column in headings),
                    _text(next(iter(row.values())), *remarks),
                ]
            )
        yield matrix


def _in_brief(verdict: VerdictRow) -> VerdictRow:
    """Return the row without the probabilities of judges that agree."""
    if verdict.judges and not is_divided(verdict.judges):
        return replace(verdict, judges=None)
    return verdict


def _heading(column: int | str | None) -> str:
    return f"[{column + 1}]" if isinstance(column, int) else "ref."


def _cell(verdict: VerdictRow | None) -> Text:
    if verdict is None:
        return Text()
    label = "?" if verdict.label is None else str(verdict.label)
    probability = "" if verdict.p_yes is None else f" {number(verdict.p_yes)}"
    return Text(f"{label}{probability}", style=_LABEL_STYLE[verdict.label])


def _text(verdict: VerdictRow, *remarks: str | None) -> Text:
    text = safe_text(verdict.text)
    for remark in filter(None, remarks):
        text.append(f"  ({printable(remark)})", style="dim")
    return text


def describe_outcome(score: ScoreRow) -> str:
    """Return `2/3 = 0.667`, or `undefined: ...` with the reason."""
    if score.score is None:
        return f"{score.status}: {score.detail}"
    fraction = ""
    if score.numerator is not None and score.denominator is not None:
        fraction = f"{score.numerator:g}/{score.denominator:g} = "
    return f"{fraction}{number(score.score)}{f' ({score.detail})' if score.detail else ''}"


def remark_on(verdict: VerdictRow) -> str | None:
    """Return details of a verdict: its context or field, window and reason, or why it is missing."""
    if verdict.against is None or verdict.error is not None:
        return _remark(verdict)
    column = verdict.against
    context = f"context {column + 1}" if isinstance(column, int) else _TEXTS[column]
    return ", ".join(filter(None, (f"against {context}", _remark(verdict))))


def _remark(verdict: VerdictRow) -> str | None:
    window = "" if verdict.window is None else f"window {verdict.window}"
    return (
        verdict.error or ", ".join(filter(None, (window, _judges(verdict), verdict.reason))) or None
    )


def _judges(verdict: VerdictRow) -> str:
    """Return `lexical 0.810, reader 0.780`, and whether they disagree."""
    if not verdict.judges:
        return ""
    parts = ", ".join(f"{name} {number(p_yes)}" for name, p_yes in verdict.judges.items())
    return f"the judges disagree: {parts}" if is_divided(verdict.judges) else parts


def format_verdict(verdict: VerdictRow) -> str:
    label = verdict.error if verdict.label is None else verdict.label
    p_yes = "" if verdict.p_yes is None else f" {number(verdict.p_yes)}"
    return printable(f"  {label}{p_yes} {verdict.text}")


def sample_view(run: RunRecord, named: str, *, metric: str | None = None) -> View:
    """Return texts, scores and units of a sample. Raises InputError for an unknown sample."""
    sample = find_sample(run, named)
    fields = ("user_input", "reference", "response")
    texts = {field: text for field in fields if (text := getattr(sample, field)) is not None}
    for field in CONTEXT_FIELDS:
        for place, context in enumerate(getattr(sample, field) or (), 1):
            texts[f"{field}[{place}]"] = (
                f"(id {context.id}, no text)" if context.text is None else context.text
            )
    rows = [(Text(name, style="dim"), text) for name, text in texts.items()]
    labelled = map(_with_remark, with_labels(run, run.verdicts_of(sample.id)))
    verdicts = verdicts_view(run.scores_of(sample.id), labelled, metric)
    return View(
        [
            Table(rows=rows, titles=[sample.id], indent=2),
            *verdicts,
            Table(notes=[f"judge {run.judge}"]),
        ]
    )


def _with_remark(verdict: LabelledVerdict) -> VerdictRow:
    return replace(
        verdict.row,
        reason="; ".join(filter(None, (verdict.row.reason, verdict.remark))) or None,
    )


def prompts_view(run: RunRecord, sample_id: str, metric: str) -> View:
    prompts = stored_prompts(run.directory / STORE, sample_id, metric)
    titles = [
        f"{metric}: prompt {position} of {len(prompts)}" for position in range(1, len(prompts) + 1)
    ]
    return View(
        Table(rows=[[line] for line in prompt.split("\n")], titles=[title], indent=2)
        for title, prompt in zip(titles, prompts, strict=True)
    )


def find_sample(run: RunRecord, named: str) -> Sample:
    """Find a sample by id, else by row number (from 1), else by the start of its id.

    Raises InputError unless exactly one matches.
    """
    store = run.directory / STORE
    if (sample := stored_sample(store, named)) is not None:
        return sample
    ids = list(stored_ids(store))
    if named.isdecimal() and 0 < int(named) <= len(ids):
        matches = [ids[int(named) - 1]]
    else:
        matches = [name for name in ids if name.startswith(named)] if named else []
    if len(matches) == 1 and (sample := stored_sample(store, matches[0])) is not None:
        return sample
    if named.isdecimal() and not matches:
        problem = f"the run has no sample {named!r} and only {numbered(len(ids), 'row')}"
        raise InputError(problem, hint=f"name an id, or a row from 1 to {len(ids):,}")
    problem = f"{numbered(len(matches), 'sample')} of the run have ids that begin with {named!r}"
    hint = suggestion(named, matches or ids, "the ids", show=lambda name: excerpt(repr(name)))
    raise InputError(problem if matches else f"the run has no sample {named!r}", hint=hint)


def explain_score(score: ScoreRow, verdicts: Sequence[VerdictRow]) -> str:
    """Return the counts in the metric's words, with the first unit that lowers a share, or the useful ranks."""
    detail = score.detail or ""
    if score.status != "scored":
        return detail
    counted = get_about(catalog.ours(score.metric)).counted
    if score.numerator is None or score.denominator is None:
        return _at_ranks(verdicts, counted) if counted and verdicts else detail
    line = f"{score.numerator:g} of {score.denominator:g} {counted}".rstrip()
    negative = [verdict.text for verdict in verdicts if verdict.label == 0]
    of_pairs = any(isinstance(verdict.against, int) for verdict in verdicts)
    if negative and counted and not of_pairs:
        quoted = (
            negative[0] if len(negative[0]) <= _QUOTED else f"{negative[0][:_QUOTED].rstrip()} ..."
        )
        line += f'; not {counted}: "{quoted}"' + (
            f" and {len(negative) - 1:,} more" if len(negative) > 1 else ""
        )
    return f"{line} ({detail})" if detail else line


def _at_ranks(verdicts: Sequence[VerdictRow], counted: str) -> str:
    ranks = [str(rank) for rank, verdict in enumerate(verdicts, 1) if verdict.label == 1]
    listed = " and ".join(", ".join(ranks).rsplit(", ", 1))
    place = f", at rank{'s' if len(ranks) > 1 else ''} {listed}" if ranks else ""
    return f"{len(ranks)} of {len(verdicts)} {counted}{place}"
