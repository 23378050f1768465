"""One sample of a run: its texts, what was asked about it, and the verdicts.

    eiffel-tower: context_recall 2/3 = 0.667
       1 0.981  The Eiffel Tower was built in 1889.
       0 0.031  Gustave Eiffel designed it.

Units that were judged by one context each are shown as the matrix that they are, once for all metrics that are read off
it, of the response and of the reference below each other:

       [0]      [1]
       1 0.981  0 0.120  The Eiffel Tower was built in 1889.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from rich.text import Text

from localjudge.errors import InputError
from localjudge.record.archive import stored_ids, stored_prompts, stored_sample
from localjudge.record.directory import STORE, excerpt
from localjudge.record.result_rows import ScoreRow, VerdictRow
from localjudge.record.run import Run
from localjudge.report.terminal import Table, View, number, safe_text
from localjudge.types import CONTEXT_FIELDS, Sample
from localjudge.words import numbered, printable, suggestion

_LABEL_STYLE = {0: "red", 1: "green", None: "yellow"}
_MOST_CELLS, _MOST_LABELS = 6, 14
"""Columns of a matrix that leave 24 of 80 for the sentence: with probabilities (9 wide), with labels alone (4 wide)."""
_TEXTS = {"reference": "the reference", "response": "the response", "cited": "what it cites"}


def verdicts_view(run: Run, *, metric: str | None = None, sample_id: str | None = None) -> View:
    """Score and units of each sample, or of one, for all metrics, or for one."""
    scores, verdicts = (
        (run.iter_scores(), run.iter_verdicts())
        if sample_id is None
        else (run.scores_of(sample_id), run.verdicts_of(sample_id))
    )
    units: dict[tuple[str, str], list[VerdictRow]] = {}
    for verdict in verdicts:
        if metric in (None, verdict.metric):
            units.setdefault((verdict.sample_id, verdict.metric), []).append(verdict)
    named = (score for score in scores if metric in (None, score.metric))
    tables = []
    for together, rows in _with_the_same_units(named, units):
        titles = [f"{score.sample_id}: {score.metric} {outcome_of(score)}" for score in together]
        for cells in _matrices(rows) if _is_matrix(rows) else [_list(rows)]:
            tables.append(Table(rows=cells, titles=titles, indent=2))
            titles = []
    return View(tables)


_Rows = Sequence[Sequence[str | Text]]


def _with_the_same_units(
    scores: Iterable[ScoreRow], units: Mapping[tuple[str, str], list[VerdictRow]]
) -> Iterator[tuple[list[ScoreRow], list[VerdictRow]]]:
    """Scores that follow each other and were read off the same matrix, together; every other one alone."""

    def matrix(score: ScoreRow) -> object:
        rows = units.get((score.sample_id, score.metric), [])
        cells = [(row.unit, row.source, row.index, row.against, row.p_yes, row.error) for row in rows]
        return (score.sample_id, cells if _is_matrix(rows) else score.metric)

    for _, group in groupby(scores, key=matrix):
        together = list(group)
        yield together, units.get((together[0].sample_id, together[0].metric), [])


def _is_matrix(verdicts: Sequence[VerdictRow]) -> bool:
    """Whether sentences were judged by single contexts; the reference may be one more column."""
    against = {verdict.against for verdict in verdicts}
    return None not in against and any(isinstance(column, int) for column in against)


def _list(verdicts: Iterable[VerdictRow]) -> _Rows:
    return [(_cell(verdict, whole=True), _text(verdict, remark_on(verdict))) for verdict in verdicts]


def _matrices(verdicts: Sequence[VerdictRow]) -> Iterator[_Rows]:
    """Sentences by what each was judged by; the labels alone where there are many, and a list where there are more."""
    sources: dict[str, dict[int, dict[int | str | None, VerdictRow]]] = {}
    for verdict in verdicts:
        sources.setdefault(verdict.source, {}).setdefault(verdict.index, {})[verdict.against] = verdict
    for sentences in sources.values():
        columns = list(dict.fromkeys(against for row in sentences.values() for against in row))
        if len(columns) > _MOST_LABELS:
            yield _list(verdict for row in sentences.values() for verdict in row.values())
            continue
        whole = len(columns) <= _MOST_CELLS
        headings = [Text(_heading(against, whole=whole), style="dim") for against in columns]
        cells = [
            [*(_cell(row.get(against), whole=whole) for against in columns), _sentence(row)]
            for row in sentences.values()
        ]
        yield [headings, *cells]


def _heading(against: int | str | None, *, whole: bool) -> str:
    if against == "reference":
        return "ref." if whole else "r"
    return f"[{against}]" if whole else str(against)


def _cell(verdict: VerdictRow | None, *, whole: bool) -> Text:
    if verdict is None:
        return Text()
    label = "?" if verdict.label is None else str(verdict.label)
    probability = f" {number(verdict.p_yes)}" if whole and verdict.p_yes is not None else ""
    return Text(f"{label}{probability}", style=_LABEL_STYLE[verdict.label])


def _sentence(row: Mapping[int | str | None, VerdictRow]) -> Text:
    """The sentence, and what was said about it with its verdicts."""
    remarks = []
    for against, verdict in row.items():
        window = f"window {verdict.window}" if verdict.window is not None else ""
        if remark := verdict.error or ", ".join(filter(None, (window, verdict.reason))):
            remarks.append(f"{_heading(against, whole=True)} {remark}")
    return _text(next(iter(row.values())), *remarks)


def _text(verdict: VerdictRow, *remarks: str | None) -> Text:
    text = safe_text(verdict.text)
    for remark in filter(None, remarks):
        text.append(f"  ({printable(remark)})", style="dim")
    return text


def outcome_of(score: ScoreRow) -> str:
    """`2/3 = 0.667`, or `undefined: ...` with the reason."""
    if score.score is None:
        return f"{score.status}: {score.detail}"
    detail = f" ({score.detail})" if score.detail else ""
    if score.numerator is None or score.denominator is None:
        return f"{number(score.score)}{detail}"
    return f"{score.numerator:g}/{score.denominator:g} = {number(score.score)}{detail}"


def remark_on(verdict: VerdictRow) -> str | None:
    """What a verdict was judged by, its window, what each judge gave, the reason; or why there is none."""
    if verdict.error is not None:
        return verdict.error
    context = f"context {verdict.against}" if isinstance(verdict.against, int) else _TEXTS.get(verdict.against or "")
    judges = (verdict.judges or {}).items()
    parts = [
        f"against {context}" if verdict.against is not None else "",
        f"window {verdict.window}" if verdict.window is not None else "",
        ", ".join(f"{name} {'-' if p_yes is None else number(p_yes)}" for name, p_yes in judges),
        verdict.reason or "",
    ]
    return ", ".join(filter(None, parts)) or None


def sample_view(run: Run, named: str, *, metric: str | None = None) -> View:
    """The sample's texts, its scores and units, and who judged them.

    Raises InputError if the run has no such sample.
    """
    sample = find_sample(run, named)
    fields = ("user_input", "reference", "response")
    texts = {field: text for field in fields if (text := getattr(sample, field)) is not None}
    for field in CONTEXT_FIELDS:
        for place, context in enumerate(getattr(sample, field) or ()):
            texts[f"{field}[{place}]"] = f"(id {context.id}, no text)" if context.text is None else context.text
    rows = [(Text(name, style="dim"), text) for name, text in texts.items()]
    verdicts = verdicts_view(run, sample_id=sample.id, metric=metric)
    return View([Table(rows=rows, titles=[sample.id], indent=2), *verdicts, Table(notes=[f"judge {run.judge}"])])


def prompts_view(run: Run, sample_id: str, metric: str) -> View:
    """Every prompt of one metric on the sample, whole, as the judge was asked."""
    prompts = stored_prompts(run.directory / STORE, sample_id, metric)
    return View(
        Table(
            rows=[[safe_text(line)] for line in prompt.split("\n")],
            titles=[f"{metric}: prompt {position} of {len(prompts)}"],
            indent=2,
        )
        for position, prompt in enumerate(prompts, 1)
    )


def find_sample(run: Run, named: str) -> Sample:
    """The sample of that id; else the one in that row of the data, from 1 on; else the one whose id begins like that.

    Raises InputError for none and for several, with ids that are like it if there are any.
    """
    store = run.directory / STORE
    if (sample := stored_sample(store, named)) is not None:
        return sample
    ids = list(stored_ids(store))
    if named.isdecimal() and 0 < int(named) <= len(ids):
        meant = [ids[int(named) - 1]]
    else:
        meant = [name for name in ids if name.startswith(named)] if named else []
    if len(meant) > 1:
        hint = suggestion("", meant, "they", show=lambda name: excerpt(repr(name)))
        raise InputError(f"{numbered(len(meant), 'sample')} of the run have ids that begin with {named!r}", hint=hint)
    if meant and (sample := stored_sample(store, meant[0])) is not None:
        return sample
    hint = f"name a row from 1 to {len(ids):,}, or an id such as {excerpt(repr(ids[0]))}" if ids else "it has none"
    if alike := difflib.get_close_matches(named, ids, n=3):
        hint = f"did you mean {', '.join(excerpt(repr(name)) for name in alike)}?"
    raise InputError(f"the run has no sample {named!r}", hint=hint)
