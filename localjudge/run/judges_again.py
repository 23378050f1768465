"""Whom to ask when a run is asked again: the judges that its manifest names, as far as that is believed.

A run's directory may come from anybody. A model's file that it names is opened here and its checksum is compared; the
address of a server is where the texts would go, so one that may be another machine's has to be typed.
"""

from localjudge.engine.opening import may_be_elsewhere
from localjudge.errors import UsageError
from localjudge.option_spelling import option
from localjudge.record.results import Run


def judges_of(run: Run, *, needed: bool = True) -> list[str]:
    """The judges that a run was made with, as its manifest names them.

    Raises UsageError if it does not say, or if it names a server that is not this machine's by its very address: no
    name is looked up. Unless an engine that is there makes the names needless.
    """
    named = run.manifest.environment.get("judge")
    if named is None and needed:
        raise UsageError(
            f"{run.directory} does not say which judge it was made with", hint=f"name it with {option('judge')}"
        )
    judges = [str(one) for one in named] if isinstance(named, list) else [str(named)]
    elsewhere = next((judge for judge in judges if may_be_elsewhere(judge)), None) if needed else None
    if elsewhere is not None:
        raise UsageError(
            f"{run.directory} was judged by {elsewhere}, which may be another machine: its texts would go there",
            hint=f"if that is meant, name it yourself: {option('judge', elsewhere)}",
        )
    return judges
