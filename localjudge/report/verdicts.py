"""The units of a sample with what was found: the sentence, the label, the probability.

eiffel-tower: context_recall 2/3 = 0.667
   1 0.981  The Eiffel Tower was built in 1889.
   0 0.031  Gustave Eiffel designed it.

Units that were held against one context each are shown as the matrix that they are, once for all metrics that are read
off it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from localjudge.record.result_rows import ScoreRow, VerdictRow
from localjudge.record.results import Run
from localjudge.report.table_layout import Table, line
from localjudge.report.terminal import number, safe, safe_text

_LABEL_STYLE = {0: "red", 1: "green", None: "yellow"}
_CELL_COLUMNS, _LABEL_COLUMNS, _LEAST_TEXT_COLUMNS = len("1 0.981  "), len("1   "), 24
_TEXTS = {"reference": "the reference", "response": "the response", "cited": "what it cites"}


def verdicts_view(run: Run, *, metric: str | None = None, sample_id: str | None = None) -> RenderableType:
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
    wanted = (score for score in scores if metric in (None, score.metric))
    parts: list[RenderableType] = []
    for together in _with_the_same_units(wanted, units):
        parts += [Text(), scored_units(together, units.get((together[0].sample_id, together[0].metric), []))]
    return Group(*parts[1:])


def scored_units(scores: Sequence[ScoreRow], verdicts: Sequence[VerdictRow]) -> RenderableType:
    """Scores of one sample, and the units that all of them rest on."""
    headings = [line(f"{score.sample_id}: {score.metric} {outcome_of(score)}", "bold") for score in scores]
    units = _Matrix(verdicts) if _is_matrix(verdicts) else _list(verdicts)
    return Group(*headings, *([Padding(units, (0, 0, 0, 2))] if verdicts else []))


def _with_the_same_units(
    scores: Iterable[ScoreRow], units: dict[tuple[str, str], list[VerdictRow]]
) -> Iterator[list[ScoreRow]]:
    """Scores that follow each other and were read off the same matrix, together; every other one alone."""

    def matrix(score: ScoreRow) -> object:
        rows = units.get((score.sample_id, score.metric), [])
        cells = [(row.unit, row.source, row.index, row.against, row.p_yes, row.error) for row in rows]
        return (score.sample_id, cells if _is_matrix(rows) else score.metric)

    for _, together in groupby(scores, key=matrix):
        yield list(together)


def _is_matrix(verdicts: Sequence[VerdictRow]) -> bool:
    """Whether sentences were held against single contexts; the reference may be one more column."""
    held = {verdict.against for verdict in verdicts}
    return None not in held and any(isinstance(against, int) for against in held)


def _list(verdicts: Sequence[VerdictRow]) -> Table:
    return Table((), [(_cell(verdict, whole=True), _text(verdict, remark_on(verdict))) for verdict in verdicts])


def _text(verdict: VerdictRow, *remarks: str | None) -> Text:
    text = safe_text(verdict.text)
    for remark in filter(None, remarks):
        text.append(f"  ({safe(remark)})", style="dim")
    return text


class _Matrix:
    """Sentences by what each was judged against, of the response and of the reference below each other.

         [0]      [1]
      1 0.981  0 0.120  The Eiffel Tower was built in 1889.

    The labels alone where the terminal is too narrow for the probabilities, and a list where it is too narrow for both.
    """

    def __init__(self, verdicts: Sequence[VerdictRow]) -> None:
        self._verdicts = verdicts

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        rows: dict[str, dict[int, dict[int | str | None, VerdictRow]]] = {}
        for verdict in self._verdicts:
            rows.setdefault(verdict.source, {}).setdefault(verdict.index, {})[verdict.against] = verdict
        for sentences in rows.values():
            columns = list(dict.fromkeys(against for row in sentences.values() for against in row))
            left = options.max_width - _LEAST_TEXT_COLUMNS
            if len(columns) * _LABEL_COLUMNS > left:
                yield _list([verdict for row in sentences.values() for verdict in row.values()])
                continue
            whole = len(columns) * _CELL_COLUMNS <= left
            headings = [Text(_heading(against, whole=whole), style="dim") for against in columns]
            cells = [
                [*(_cell(row.get(against), whole=whole) for against in columns), _sentence(row)]
                for row in sentences.values()
            ]
            yield Table((), [headings, *cells])


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


def outcome_of(score: ScoreRow) -> str:
    """`2/3 = 0.667`, or `undefined: ...` with the reason."""
    if score.score is None:
        return f"{score.status}: {score.detail}"
    detail = f" ({score.detail})" if score.detail else ""
    if score.numerator is None or score.denominator is None:
        return f"{number(score.score)}{detail}"
    return f"{score.numerator:g}/{score.denominator:g} = {number(score.score)}{detail}"


def remark_on(verdict: VerdictRow) -> str | None:
    """What a verdict was held against, its window, what each judge gave, the reason; or why there is none."""
    if verdict.error is not None:
        return verdict.error
    context = f"context {verdict.against}" if isinstance(verdict.against, int) else _TEXTS.get(verdict.against or "")
    parts = [
        f"against {context}" if verdict.against is not None else "",
        f"window {verdict.window}" if verdict.window is not None else "",
        votes_of(verdict),
        verdict.reason or "",
    ]
    return ", ".join(part for part in parts if part) or None


def votes_of(verdict: VerdictRow) -> str:
    """`reference 0.91, qwen 0.42`; nothing for a run of one judge."""
    judges = (verdict.judges or {}).items()
    return ", ".join(f"{name} {'-' if p_yes is None else number(p_yes)}" for name, p_yes in judges)
