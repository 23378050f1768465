"""Evaluate retrieval-augmented generation offline, with a local GGUF model as the judge.

    import localjudge
    run = localjudge.evaluate("answers.jsonl", judge="models/my-judge.gguf")
    run["context_recall"].mean, run.to_pandas(), run.check(["context_recall>=0.8"])

Names are looked up when they are first used, so that the import is quick and loads no model library.
"""

TYPE_CHECKING = False  # as of `typing`, whose names are not ours to show
if TYPE_CHECKING:
    from localjudge.api import calibrate, combine, evaluate, merge
    from localjudge.engine.scripted import ScriptedEngine
    from localjudge.errors import (
        DataError,
        InputError,
        LocaljudgeError,
        MissingRun,
        ModelError,
        OutOfResource,
        RunDirectoryError,
        UnfinishedRun,
    )
    from localjudge.metrics.criterion import Criterion
    from localjudge.metrics.metric import Metric
    from localjudge.open_judge import Judge
    from localjudge.result import Run
    from localjudge.types import Sample

    __version__: str

__all__ = [
    "Criterion",
    "DataError",
    "InputError",
    "Judge",
    "LocaljudgeError",
    "Metric",
    "MissingRun",
    "ModelError",
    "OutOfResource",
    "Run",
    "RunDirectoryError",
    "Sample",
    "ScriptedEngine",
    "UnfinishedRun",
    "calibrate",
    "combine",
    "evaluate",
    "merge",
]
_HOMES = {
    "Criterion": "metrics.criterion",
    "Judge": "open_judge",
    "Metric": "metrics.metric",
    "Run": "result",
    "Sample": "types",
    "ScriptedEngine": "engine.scripted",
    **dict.fromkeys(("calibrate", "combine", "evaluate", "merge"), "api"),
}
"""Errors are the others."""


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from importlib import import_module
        from importlib.metadata import version

        if name == "__version__":
            return version("localjudge")
        if name not in __all__:
            raise AttributeError(f"module 'localjudge' has no attribute {name!r}")
        globals()[name] = value = getattr(import_module(f"localjudge.{_HOMES.get(name, 'errors')}"), name)
        return value


def __dir__() -> list[str]:
    return __all__
