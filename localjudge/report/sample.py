"""One sample of a run: what was given, what was asked about it, and what was found."""

import difflib

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from localjudge.errors import UsageError
from localjudge.record.archive import stored_ids, stored_prompts, stored_sample
from localjudge.record.directory import STORE
from localjudge.record.results import Run
from localjudge.record.untrusted import shown
from localjudge.report.table_layout import Table, line
from localjudge.report.terminal import safe_text
from localjudge.report.verdicts import verdicts_view
from localjudge.suggestion import suggestion
from localjudge.types import CONTEXT_FIELDS, Sample

_TEXT_FIELDS = ("user_input", "reference", "response")


def sample_view(run: Run, named: str, *, metric: str | None = None) -> RenderableType:
    """The sample's texts, its scores and units, and who judged them.

    Raises UsageError if the run has no such sample.
    """
    sample = find_sample(run, named)
    verdicts = verdicts_view(run, sample_id=sample.id, metric=metric)
    texts = Padding(Table((), _texts(sample)), (0, 0, 0, 2))
    return Group(line(sample.id, "bold"), texts, Text(), verdicts, Text(), line(f"judge {run.judge}"))


def prompts_view(run: Run, sample_id: str, metric: str) -> RenderableType:
    """Every prompt of one metric on the sample, whole, as the judge was asked."""
    prompts = stored_prompts(run.directory / STORE, sample_id, metric)
    parts: list[RenderableType] = []
    for number, prompt in enumerate(prompts, 1):
        parts.append(line(f"{metric}: prompt {number} of {len(prompts)}", "bold"))
        parts.append(Padding(Group(*map(safe_text, prompt.split("\n"))), (0, 1, 1, 3), expand=False))
    return Group(*parts)


def find_sample(run: Run, named: str) -> Sample:
    """The sample of that id; else the one in that row of the data, from 1 on; else the one whose id begins like that.

    Raises UsageError for none and for several, with ids that are like it if there are any.
    """
    store = run.directory / STORE
    found = stored_sample(store, named)
    if found is not None:
        return found
    ids = list(stored_ids(store))
    if named.isdecimal() and 0 < int(named) <= len(ids):
        meant = [ids[int(named) - 1]]
    else:
        meant = [name for name in ids if name.startswith(named)] if named else []
    if len(meant) > 1:
        hint = suggestion("", meant, "they", show=lambda name: shown(repr(name)))
        raise UsageError(f"{len(meant):,} samples of the run have ids that begin with {named!r}", hint=hint)
    found = stored_sample(store, meant[0]) if meant else None
    if found is None:
        other = f"name a row from 1 to {len(ids):,}, or an id such as {shown(repr(ids[0]))}" if ids else "it has none"
        alike = difflib.get_close_matches(named, ids, n=3)
        hint = f"did you mean {', '.join(shown(repr(name)) for name in alike)}?" if alike else other
        raise UsageError(f"the run has no sample {named!r}", hint=hint)
    return found


def _texts(sample: Sample) -> list[tuple[Text, str]]:
    texts = {field: text for field in _TEXT_FIELDS if (text := getattr(sample, field)) is not None}
    for field in CONTEXT_FIELDS:
        for place, context in enumerate(getattr(sample, field) or ()):
            texts[f"{field}[{place}]"] = f"(id {context.id}, no text)" if context.text is None else context.text
    return [(Text(name, style="dim"), text) for name, text in texts.items()]
