"""The judge of an adapter: one to be opened, as `localjudge.Judge.open` names it, or one that is open and stays so."""

from localjudge.errors import UsageError
from localjudge.open_judge import Judge
from localjudge.run.judges import JudgeName
from localjudge.run.settings import Options

GivenJudge = JudgeName | Judge
"""A registered name, the path of a GGUF file, or an open judge."""


def open_given(judge: GivenJudge, options: Options) -> Judge:
    """The judge, open.

    Raises UsageError for options of a judge that is open already, which has its own, and what `Judge.open` raises.
    """
    refuse_options(judge, options)
    return judge if isinstance(judge, Judge) else Judge.open(judge, **options)


def refuse_options(judge: GivenJudge, options: Options) -> None:
    """Raise UsageError for options of an open judge, before anything is loaded."""
    if isinstance(judge, Judge) and options:
        raise UsageError(
            f"the judge is open, and {', '.join(options)} cannot be given any more", hint="give it to Judge.open"
        )
