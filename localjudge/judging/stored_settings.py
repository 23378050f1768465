"""The settings and the judges of a run, from its manifest."""

from pathlib import Path
from typing import Any

from localjudge import model_registry
from localjudge.errors import InputError, ModelError
from localjudge.judging.settings import RunSettings, checked, settings_with
from localjudge.run_directory.directory import MANIFEST, excerpt, validated
from localjudge.run_directory.manifest import Manifest
from localjudge.run_directory.run_record import RunRecord
from localjudge.words import option


def read_run_settings(manifest: Manifest, **changed: Any) -> RunSettings:
    """Return the settings of a run with changes.

    Reads no file and joins no machine that the run names, because it may be foreign. Raises
    RunDirectoryError for invalid or unsupported ones.
    """
    options = dict(changed)
    if options.get("calibration"):
        options.pop("threshold", None)  # with calibrations, the run's threshold is one half
    changes = checked(options)
    stored = dict(manifest.environment.settings)
    for name in settings_with("typed"):
        stored.pop(name, None)
    values = {name: stored[name] for name in RunSettings.model_fields if name in stored}
    if not manifest.judge.jury:
        values["n_ctx"] = manifest.judge.engine.n_ctx or values.get("n_ctx")
    for name in changed:
        values[name] = getattr(changes, name)
    return validated(RunSettings, values, f"{MANIFEST}: settings")


def find_judges(run: RunRecord) -> str | list[str]:
    """Return the judge or judges named in the manifest.

    Raises InputError without one, ModelError if a model is gone.
    """
    environment = run.manifest.environment
    if environment.judges:
        if environment.judge in model_registry.registered_juries():
            return str(environment.judge)
        return [_require_present(run, judge) for judge in environment.judges]
    return _require_present(run, environment.judge)


def _require_present(run: RunRecord, judge: str | None) -> str:
    if judge is None:
        message = f"{run.directory} does not name its judge"
        raise InputError(message, hint=f"name it with {option('judge')}")
    file = model_registry.locate(judge)
    if file is not None and file.is_file():
        return judge
    checksum = excerpt((run.summary.judge.sha256 or "unknown")[:12])
    model = f"{Path(judge).stem}, sha256 {checksum}"
    where = "where it was"
    if file is not None:
        where = f"at {file}"
    problem = f"the model of this run ({model}) is no longer {where}"
    raise ModelError(problem, hint=f"give its new path with {option('judge', 'PATH')}")
