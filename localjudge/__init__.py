"""Evaluate retrieval-augmented generation offline, with a local GGUF model as the judge.

    import localjudge
    run = localjudge.evaluate("answers.jsonl", judge="models/my-judge.gguf")
    run.summary.metrics["context_recall"].mean

Names are looked up when they are first used, so that the import is quick and loads no model library.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localjudge.analysis.check import check
    from localjudge.analysis.compare import compare
    from localjudge.analysis.correct import corrected_means
    from localjudge.analysis.label_sheet import label_sheet
    from localjudge.api import calibrate, combine, evaluate, merge, rescore, verify
    from localjudge.engine.scripted import ScriptedEngine
    from localjudge.errors import (
        DataError,
        LocaljudgeError,
        ModelError,
        OutOfResource,
        RunDirectoryError,
        SampleError,
        UsageError,
    )
    from localjudge.metrics.criterion import Criterion, CriterionExample
    from localjudge.open_judge import Judge
    from localjudge.record.manifest import Calibration
    from localjudge.record.run import Run
    from localjudge.report.html_page import write_report
    from localjudge.suite import read_suite
    from localjudge.types import Context, Sample

    __version__: str

__all__ = [
    "Calibration",
    "Context",
    "Criterion",
    "CriterionExample",
    "DataError",
    "Judge",
    "LocaljudgeError",
    "ModelError",
    "OutOfResource",
    "Run",
    "RunDirectoryError",
    "Sample",
    "SampleError",
    "ScriptedEngine",
    "UsageError",
    "__version__",
    "calibrate",
    "check",
    "combine",
    "compare",
    "corrected_means",
    "evaluate",
    "label_sheet",
    "merge",
    "read_suite",
    "rescore",
    "verify",
    "write_report",
]

_HOMES = {
    "Calibration": "localjudge.record.manifest",
    "Context": "localjudge.types",
    "Criterion": "localjudge.metrics.criterion",
    "CriterionExample": "localjudge.metrics.criterion",
    "DataError": "localjudge.errors",
    "Judge": "localjudge.open_judge",
    "LocaljudgeError": "localjudge.errors",
    "ModelError": "localjudge.errors",
    "OutOfResource": "localjudge.errors",
    "Run": "localjudge.api",
    "RunDirectoryError": "localjudge.errors",
    "Sample": "localjudge.types",
    "SampleError": "localjudge.errors",
    "ScriptedEngine": "localjudge.engine.scripted",
    "UsageError": "localjudge.errors",
    "calibrate": "localjudge.api",
    "check": "localjudge.analysis.check",
    "combine": "localjudge.api",
    "compare": "localjudge.analysis.compare",
    "corrected_means": "localjudge.analysis.correct",
    "evaluate": "localjudge.api",
    "label_sheet": "localjudge.analysis.label_sheet",
    "merge": "localjudge.api",
    "read_suite": "localjudge.suite",
    "rescore": "localjudge.api",
    "verify": "localjudge.api",
    "write_report": "localjudge.report.html_page",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("localjudge")
    if name not in _HOMES:
        raise AttributeError(f"module 'localjudge' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
