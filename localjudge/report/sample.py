"""One sample of a run: what was given, what was asked about it, and what was found."""

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from localjudge.errors import UsageError
from localjudge.record.archive import stored_ids, stored_prompts, stored_sample
from localjudge.record.directory import STORE
from localjudge.record.results import Run
from localjudge.record.untrusted import shown
from localjudge.report.terminal import safe_text
from localjudge.report.verdicts import verdicts_view
from localjudge.suggestion import suggestion
from localjudge.types import CONTEXT_FIELDS, Sample

_TEXT_FIELDS = ("user_input", "reference", "response")


def sample_view(run: Run, sample_id: str, *, metric: str | None = None) -> RenderableType:
    """The sample's texts, its scores and units, and who judged them.

    Raises UsageError if the run has no such sample.
    """
    judge = Padding(safe_text(f"judge {run.judge}"), (0, 1), expand=False)
    return Group(_texts(find_sample(run, sample_id)), verdicts_view(run, sample_id=sample_id, metric=metric), judge)


def prompts_view(run: Run, sample_id: str, metric: str) -> RenderableType:
    """Every prompt of one metric on the sample, whole, as the judge was asked."""
    prompts = stored_prompts(run.directory / STORE, sample_id, metric)
    return Group(
        *(
            Group(
                Padding(Text(f"prompt {number} of {len(prompts)}", style="bold"), (0, 1), expand=False),
                Padding(Group(*(safe_text(line) for line in prompt.split("\n"))), (0, 1, 1, 3), expand=False),
            )
            for number, prompt in enumerate(prompts, 1)
        )
    )


def find_sample(run: Run, sample_id: str) -> Sample:
    """The sample of that id. Raises UsageError, with ids that are like it if there are any."""
    found = stored_sample(run.directory / STORE, sample_id)
    if found is None:
        ids = list(stored_ids(run.directory / STORE))
        hint = suggestion(sample_id, ids, "its samples", show=lambda name: shown(repr(name)))
        raise UsageError(f"the run has no sample {sample_id!r}", hint=hint)
    return found


def _texts(sample: Sample) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for field in _TEXT_FIELDS:
        if (text := getattr(sample, field)) is not None:
            grid.add_row(Text(field, style="dim"), safe_text(text))
    for field in CONTEXT_FIELDS:
        for number, context in enumerate(getattr(sample, field) or ()):
            text = f"(id {context.id}, no text)" if context.text is None else context.text
            grid.add_row(Text(f"{field}[{number}]", style="dim"), safe_text(text))
    heading = Padding(safe_text(sample.id, style="bold"), (0, 1), expand=False)
    return Group(heading, Padding(grid, (0, 1, 1, 3), expand=False))
