"""Views of one sample of a run: its texts, questions and verdicts.

    eiffel-tower: context_recall 2/3 = 0.667
       1 0.981  The Eiffel Tower was built in 1889.
       0 0.031  Gustave Eiffel designed it.

Units judged against each of a few contexts are shown as a matrix for each text. Contexts are
counted from 1; citations have the names that the response uses. Below a unit is its evidence:

    evidence [2] 0.81  The Danube rises in the Black Forest.
    closest, not supporting [1] 0.31  The Rhine ends in the Netherlands.
    cited [2], closest in [1]
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from rich.text import Text

from localjudge.errors import InputError
from localjudge.labels.run_labels import with_labels
from localjudge.metrics import catalog
from localjudge.report.terminal import Table, number, safe_text
from localjudge.run_directory.directory import STORE, excerpt
from localjudge.run_directory.result_rows import EvidenceRow, ScoreRow, VerdictId, VerdictRow
from localjudge.run_directory.run_record import RunRecord
from localjudge.run_directory.run_rows import read_sample_rows, texts_read
from localjudge.run_directory.store_reader import stored_ids, stored_prompts, stored_sample
from localjudge.run_directory.verdict_rule import is_divided
from localjudge.types import CONTEXT_FIELDS, Label, Sample
from localjudge.words import numbered, printable, suggestion

_LABEL_STYLE = {0: "red", 1: "green", None: "yellow"}
_MAX_COLUMNS = 6
"""Maximum columns of a matrix: 9 characters each, leaving 24 of 80 for the sentence."""
_MAX_QUOTED = 120
_TEXTS = {"reference": "the reference", "response": "the response", "cited": "the cited contexts"}
_Against = int | str | None
"""What a unit is judged against: a context by its index, a text by its field, or all contexts."""
_Cells = Sequence[str | Text]


def sample_view(
    run: RunRecord, sample: Sample, *, metric: str | None = None, details: bool = False
) -> list[Table]:
    """Return texts, scores and units of a sample, with `details` also what a judge has read."""
    rows = [(Text(field, style="dim"), text) for field, text in _texts(sample)]
    scores, judged_units = read_sample_rows(run, sample.id)
    verdicts: list[VerdictRow] = []
    for row, statement in with_labels(run, judged_units):
        if statement is None:
            shown = row
        else:
            parts = filter(None, (row.reason, statement.remark_on(row)))
            shown = replace(row, reason="; ".join(parts))
        verdicts.append(shown)
    texts = Table(rows=rows, titles=[sample.id], indent=2)
    read: dict[VerdictId, str] = {}
    if details:
        read = texts_read(run, sample, verdicts)
    shown_scores = [score for score in scores if metric in (None, score.metric)]
    judged = verdicts_view(shown_scores, verdicts, read)
    return [texts, *judged, Table(notes=[f"judge {run.judge}"])]


def _texts(sample: Sample) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of a sample's fields."""
    for field in ("user_input", "reference", "response"):
        text = getattr(sample, field)
        if text is not None:
            yield field, text
    for field in CONTEXT_FIELDS:
        for position, context in enumerate(getattr(sample, field) or (), start=1):
            if context.text is None:
                shown = f"(id {context.id}, no text)"
            elif context.id is None:
                shown = context.text
            else:
                shown = f"(id {context.id}) {context.text}"
            yield f"{field}[{position}]", shown


def verdicts_view(
    scores: Iterable[ScoreRow],
    verdicts: Iterable[VerdictRow],
    read: Mapping[VerdictId, str] = MappingProxyType({}),
) -> list[Table]:
    """Return the scores, each above its units and what was `read`.

    Omits the probabilities of judges that agree.
    """
    units: dict[tuple[str, str], list[VerdictRow]] = {}
    for verdict in verdicts:
        shown = verdict
        if verdict.judges and not is_divided(verdict.judges):
            shown = replace(verdict, judges=None)
        units.setdefault((verdict.sample_id, verdict.metric), []).append(shown)
    tables: list[Table] = []
    for score in scores:
        titles = [f"{score.sample_id}: {score.metric} {describe_score(score)}"]
        rows = units.get((score.sample_id, score.metric), [])
        for cells in _tabulate(rows, read):
            tables.append(Table(rows=cells, titles=titles, indent=2))
            titles = []
    return tables


def _tabulate(
    verdicts: Sequence[VerdictRow], read: Mapping[VerdictId, str]
) -> Iterator[Sequence[_Cells]]:
    """Yield the cells of one table with a row for each verdict, or of a matrix for each text."""
    columns = {verdict.against for verdict in verdicts}
    if None in columns or len(columns) > _MAX_COLUMNS:
        fits_a_matrix = False
    else:
        fits_a_matrix = any(isinstance(column, int) for column in columns)
    if not fits_a_matrix:
        table: list[_Cells] = []
        for row in verdicts:
            table.append((_verdict_cell(row), _unit_cell(row, [remark_on(row)])))
            table += _evidence_cells(row)
            text = read.get(row.verdict_id)
            if text is not None:
                table.append((Text(), Text("  read  ", style="dim").append(safe_text(text))))
        yield table
        return
    sources: dict[str, dict[int, dict[_Against, VerdictRow]]] = {}
    for verdict in verdicts:
        units = sources.setdefault(verdict.source, {})
        units.setdefault(verdict.index, {})[verdict.against] = verdict
    for units in sources.values():
        yield _matrix(list(units.values()))


def _matrix(units: Sequence[Mapping[_Against, VerdictRow]]) -> list[_Cells]:
    """Return the headings, then a row for each unit with its verdicts and its text."""
    columns: dict[_Against, None] = {}
    for verdicts in units:
        columns |= dict.fromkeys(verdicts)
    matrix: list[_Cells] = [[Text(_heading(column), style="dim") for column in columns]]
    for verdicts in units:
        cells = [_verdict_cell(verdicts.get(column)) for column in columns]
        remarks: list[str | None] = []
        for column, verdict in verdicts.items():
            remark = _remark(verdict)
            if remark:
                remarks.append(f"{_heading(column)} {remark}")
        first = next(iter(verdicts.values()))
        matrix.append([*cells, _unit_cell(first, remarks)])
        blanks = [Text() for _ in columns]
        for cell in _evidence_in_matrix(verdicts):
            matrix.append([*blanks, cell])
    return matrix


def _evidence_in_matrix(verdicts: Mapping[_Against, VerdictRow]) -> Iterator[Text]:
    """Yield the closest sentence of each text that supports a unit, or of all if none does."""
    closest: dict[_Against, EvidenceRow] = {}
    for column, verdict in verdicts.items():
        if verdict.evidence:
            closest[column] = verdict.evidence[0]
    supporting = {column: row for column, row in closest.items() if row.supports}
    if not supporting and closest:
        best = max(closest, key=lambda column: closest[column].score)
        supporting = {best: closest[best]}
    for column, row in supporting.items():
        yield _evidence_cell(row, verdicts[column].label, _heading(column))


def _heading(column: _Against) -> str:
    if isinstance(column, int):
        return f"[{column + 1}]"
    return "ref."


def _verdict_cell(verdict: VerdictRow | None) -> Text:
    if verdict is None:
        return Text()
    label = "?" if verdict.label is None else str(verdict.label)
    return Text(f"{label}{_probability(verdict)}", style=_LABEL_STYLE[verdict.label])


def _probability(verdict: VerdictRow) -> str:
    """Return the probability after a space, or ""."""
    if verdict.p_yes is None:
        return ""
    return f" {number(verdict.p_yes)}"


def _evidence_cells(verdict: VerdictRow) -> Iterator[_Cells]:
    """Yield a row for each sentence of evidence, below its statement."""
    for row in evidence_to_show(verdict):
        yield Text(), _evidence_cell(row, verdict.label)
    misplaced = misplaced_citation(verdict)
    if misplaced is not None:
        yield Text(), safe_text(f"  {misplaced}", style="yellow")


def _evidence_cell(row: EvidenceRow, label: Label | None, place: str = "") -> Text:
    text = Text(f"  {describe_evidence(row, label, place)}  ", style="dim")
    text.append(safe_text(row.text))
    return text


def _unit_cell(verdict: VerdictRow, remarks: Iterable[str | None]) -> Text:
    text = safe_text(verdict.text)
    for remark in filter(None, remarks):
        text.append(f"  ({printable(remark)})", style="dim")
    return text


def describe_outcome(score: ScoreRow) -> str:
    """Return `2/3 = 0.667`, or `undefined: ...` with the reason."""
    if score.score is None:
        return f"{score.status}: {score.detail}"
    value = number(score.score)
    if score.numerator is not None and score.denominator is not None:
        value = f"{score.numerator:g}/{score.denominator:g} = {value}"
    if score.detail:
        value = f"{value} ({score.detail})"
    return value


def evidence_to_show(verdict: VerdictRow) -> tuple[EvidenceRow, ...]:
    """Return the sentences that support a statement, or the closest one if none does."""
    supporting = tuple(row for row in verdict.evidence if row.supports)
    return supporting or verdict.evidence[:1]


def described_evidence(verdict: VerdictRow) -> list[tuple[EvidenceRow, str]]:
    """Return the sentences to show on a page, each with its description.

    A misplaced citation is described once, in place of its first sentence.
    """
    sentences = []
    for row in evidence_to_show(verdict):
        sentences.append((row, describe_evidence(row, verdict.label)))
    misplaced = misplaced_citation(verdict)
    if misplaced is not None:
        first, _ = sentences[0]
        sentences[0] = (first, misplaced)
    return sentences


def describe_evidence(row: EvidenceRow, label: Label | None, place: str = "") -> str:
    """Return what a sentence is for its statement, where it is, and its score.

    Nothing is evidence of a statement with the label 0: a sentence that the judge has not read, as
    it is not cited, may contradict it. `place` names a text that is no context.
    """
    kind = "closest, not supporting"
    if row.supports and label == 0:
        kind = "closest, not cited"
    elif row.supports:
        kind = "evidence"
    if row.context is not None:
        place = f"[{row.context + 1}]"
    return " ".join(filter(None, (kind, place, number(row.score))))


def misplaced_citation(verdict: VerdictRow) -> str | None:
    """Return `cited [2], closest in [1]` for a statement to which only uncited contexts are close.

    Returns None for other statements.
    """
    uncited = [row for row in verdict.evidence if row.supports and row.cited is False]
    if verdict.label != 0 or not uncited:
        return None
    cited = "cites nothing"
    if uncited[0].cites:
        cited = f"cited {_list_names(uncited[0].cites)}"
    uncited.sort(key=lambda row: row.context or 0)
    places = dict.fromkeys(row.name or "" for row in uncited)
    return f"{cited}, closest in {_list_names(places)}"


def _list_names(names: Iterable[str]) -> str:
    return ", ".join(f"[{name}]" for name in names)


def describe_score(score: ScoreRow) -> str:
    """Return `2/3 = 0.667, expected 0.610`, or `undefined: ...` with the reason."""
    outcome = describe_outcome(score)
    if score.expected is None or score.expected == score.score:
        return outcome
    return f"{outcome}, expected {number(score.expected)}"


def explain_score(score: ScoreRow, verdicts: Sequence[VerdictRow]) -> str:
    """Return the counts of a sample with a score in the metric's words.

    They are followed by the first unit that lowers a share, or the useful ranks.
    """
    detail = score.detail or ""
    counted = catalog.about(score.metric).counted
    if score.numerator is None or score.denominator is None:
        if counted and verdicts:
            ranks = [str(rank) for rank, verdict in enumerate(verdicts, 1) if verdict.label == 1]
            line = f"{len(ranks)} of {len(verdicts)} {counted}"
            if not ranks:
                return line
            if len(ranks) == 1:
                return f"{line}, at rank {ranks[0]}"
            return f"{line}, at ranks {', '.join(ranks[:-1])} and {ranks[-1]}"
        return detail
    line = f"{score.numerator:g} of {score.denominator:g} {counted}".rstrip()
    are_pairs = any(isinstance(verdict.against, int) for verdict in verdicts)
    negative = [verdict.text for verdict in verdicts if verdict.label == 0]
    if negative and counted and not are_pairs:
        text = negative[0]
        if len(text) <= _MAX_QUOTED:
            quote = text
        else:
            quote = f"{text[:_MAX_QUOTED].rstrip()} ..."
        line += f'; not {counted}: "{quote}"'
        if len(negative) > 1:
            line += f" and {len(negative) - 1:,} more"
    if detail:
        line += f" ({detail})"
    return line


def remark_on(verdict: VerdictRow) -> str | None:
    """Return what a verdict is about, its window and reason, or why it is missing."""
    remark = _remark(verdict)
    if verdict.against is None or verdict.error is not None:
        return remark
    if isinstance(verdict.against, int):
        text = f"context {verdict.against + 1}"
    else:
        text = _TEXTS[verdict.against]
    about = f"against {text}"
    return ", ".join(filter(None, (about, remark)))


def _remark(verdict: VerdictRow) -> str | None:
    if verdict.error:
        return verdict.error
    parts: list[str] = []
    if verdict.window is not None:
        parts.append(f"read in parts, part {verdict.window + 1} decides")
    if verdict.judges:
        judges = ", ".join(f"{name} {number(p_yes)}" for name, p_yes in verdict.judges.items())
        if is_divided(verdict.judges):
            judges = f"the judges disagree: {judges}"
        parts.append(judges)
    if verdict.reason:
        parts.append(verdict.reason)
    return ", ".join(parts) or None


def format_verdict(verdict: VerdictRow) -> str:
    """Return a verdict as an indented line: label, or why it is missing, probability and text."""
    label = verdict.error if verdict.label is None else verdict.label
    return printable(f"  {label}{_probability(verdict)} {verdict.text}")


def prompts_view(run: RunRecord, sample_id: str, metric: str) -> list[Table]:
    """Return the prompts about a sample as the judge got them."""
    prompts = stored_prompts(run.directory / STORE, sample_id, metric)
    tables: list[Table] = []
    for position, prompt in enumerate(prompts, start=1):
        rows = [[line] for line in prompt.split("\n")]
        title = f"{metric}: prompt {position} of {len(prompts)}"
        tables.append(Table(rows=rows, titles=[title], indent=2))
    return tables


def find_sample(run: RunRecord, name: str) -> Sample:
    """Find a sample by id, else by row number (from 1), else by the start of its id.

    Raises InputError unless exactly one matches.
    """
    store = run.directory / STORE
    sample = stored_sample(store, name)
    if sample is not None:
        return sample
    ids = list(stored_ids(store))
    if name.isdecimal() and 0 < int(name) <= len(ids):
        matches = [ids[int(name) - 1]]
    elif not name:
        matches = []
    else:
        matches = [each for each in ids if each.startswith(name)]
    if len(matches) == 1:
        sample = stored_sample(store, matches[0])
        if sample is not None:
            return sample
    if matches:
        count = numbered(len(matches), "sample")
        problem = f"{count} of the run have ids that begin with {name!r}"
    elif name.isdecimal():
        problem = f"the run has no sample {name!r} and only {numbered(len(ids), 'row')}"
        raise InputError(problem, hint=f"name an id, or a row from 1 to {len(ids):,}")
    else:
        problem = f"the run has no sample {name!r}"
    hint = suggestion(name, matches or ids, "the ids", show=lambda each: excerpt(repr(each)))
    raise InputError(problem, hint=hint)
