"""Evaluate retrieval-augmented generation offline, with a local GGUF model as the judge.

    import localjudge
    run = localjudge.evaluate("answers.jsonl", judge="models/my-judge.gguf")
    run["context_recall"].mean, run.to_pandas(), run.check(["context_recall>=0.8"])

Each public name is imported when it is first used, so that the import of the package is quick and
loads no model library. `__init__.pyi` states the same names for type checkers.
"""

from importlib import import_module

_MODULES = {
    "Criterion": "localjudge.metrics.criterion",
    "DataError": "localjudge.errors",
    "InputError": "localjudge.errors",
    "Judge": "localjudge.open_judge",
    "LocaljudgeError": "localjudge.errors",
    "Metric": "localjudge.metrics.metric",
    "MissingRun": "localjudge.errors",
    "ModelError": "localjudge.errors",
    "OutOfResource": "localjudge.errors",
    "Run": "localjudge.run",
    "RunDirectoryError": "localjudge.errors",
    "RunPair": "localjudge.api",
    "Sample": "localjudge.types",
    "ScriptedEngine": "localjudge.engine.scripted",
    "UnfinishedRun": "localjudge.errors",
    "calibrate": "localjudge.api",
    "evaluate": "localjudge.api",
    "evaluate_pair": "localjudge.api",
}
"""The module of each public name."""

__all__ = list(_MODULES)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("localjudge")
    if name not in _MODULES:
        raise AttributeError(f"module 'localjudge' has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
