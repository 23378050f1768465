"""Writes the report of a run: one private HTML file, whole or not at all.

    localjudge.write_report("runs/demo-57143f90", baseline="runs/last-week", gates=["context_recall>=0.8"])

What may run in the page is its own style and script, named by their sha256; it may load nothing and send nothing, not
even what a text in it might ask for. Markup cannot be made of strings in it (trusted types).
"""

import base64
import hashlib
import os
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from localjudge.analysis.check import Check, check
from localjudge.analysis.corrected_means import CorrectedMeans, corrected_means
from localjudge.analysis.gates import Undecided
from localjudge.errors import UsageError
from localjudge.metrics import catalog
from localjudge.option_spelling import as_typed
from localjudge.printable import printable
from localjudge.record.results import Run, as_run
from localjudge.record.summary import NEAR
from localjudge.record.untrusted import open_regular
from localjudge.report.page.data_blocks import data_blocks
from localjudge.report.page.overview import distribution_in_words, interval_in_words, overview
from localjudge.report.terminal import number
from localjudge.whole_file import write_output

REPORT = "report.html"
_FOLDER = Path(__file__).parent
_STYLES = ("page.css", "samples.css", "paper.css")
_SCRIPTS = ("elements.js", "blocks.js", "details.js", "selection.js", "samples.js")
"""In the order in which they stand in the page, as one style and one script."""
_OURS = (
    b'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="generator" content="localjudge">\n'
)


def write_report(
    run: Run | str | Path,
    *,
    baseline: Run | str | Path | None = None,
    gates: Sequence[str] = (),
    undecided: Undecided = "fail",
    labels: str | Path | None = None,
    foreign_labels: bool = False,
    out: str | Path | None = None,
) -> Path:
    """Write the report of a finished run, and say where it is: by default `report.html` in its directory.

    Takes a baseline and gates as `localjudge.check` does, labels as `localjudge.corrected_means` does, and raises what
    these raise. An earlier report is replaced; UsageError for another file of that name, and for one that cannot be
    written.
    """
    run = as_run(run)
    before = None if baseline is None else as_run(baseline)
    checked = check(run, gates=gates, baseline=before, undecided=undecided)
    corrected = None if labels is None else corrected_means(run, labels, foreign_labels=foreign_labels)
    return write_checked_report(run, checked, before, out, corrected)


def write_checked_report(
    run: Run,
    checked: Check,
    baseline: Run | None = None,
    out: str | Path | None = None,
    corrected: CorrectedMeans | None = None,
) -> Path:
    """The same of a run that was held to its gates, compared with its baseline and corrected by labels before."""
    path = run.directory / REPORT if out is None else Path(os.path.expanduser(out))
    refuse_other_file(path)
    write_output(path, (part.encode() for part in page(run, checked, baseline, corrected)))
    return path


def refuse_other_file(path: Path) -> None:
    """Raise UsageError if something at the path is not a report of ours."""
    if not os.path.lexists(path):
        return
    if path.is_dir():
        raise UsageError(f"{path} is a directory", hint="name a file with --out")
    with open_regular(path) as file:
        if file.read(len(_OURS)) != _OURS:
            raise UsageError(f"{path} is not a report of localjudge", hint="name another file with --out")


def page(
    run: Run, checked: Check, baseline: Run | None = None, corrected: CorrectedMeans | None = None
) -> Iterator[str]:
    """The page in parts, as the samples are read."""
    style = "".join(map(_text, _STYLES))
    script = "".join(map(_text, _SCRIPTS))
    config = {
        "metrics": [{"name": name, "lowerIsBetter": catalog.lower_is_better(name)} for name in run.summary.metrics],
        "threshold": run.summary.threshold,
        "thresholds": run.summary.thresholds,
        "near": NEAR,
        "hasGroups": run.cluster_of is not None,
        "compared": baseline is not None,
        "samples": run.summary.samples,
    }
    return (
        _environment()
        .get_template("page.html")
        .generate(
            **_in_words_for_anybody(run, checked, corrected),
            version=version("localjudge"),
            policy=policy(style, script),
            style=Markup(style),
            script=Markup(script),
            config=config,
            blocks=data_blocks(run, baseline),
        )
    )


def _in_words_for_anybody(run: Run, checked: Check, corrected: CorrectedMeans | None) -> dict[str, Any]:
    """The first screen, which calls options as the command line does: the page is the same whoever wrote it."""
    with as_typed():
        return overview(run, checked, corrected)


def policy(style: str, script: str) -> str:
    """The Content-Security-Policy: nothing but this style and this script, and no markup made of strings."""
    return (
        f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)}; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _source(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _text(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _environment() -> Environment:
    environment = Environment(
        autoescape=True,
        finalize=_visible,
        loader=FileSystemLoader(_FOLDER),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["number"] = number
    environment.globals |= {"in_words": interval_in_words, "distribution_in_words": distribution_in_words}
    return environment


def _visible(value: Any) -> Any:
    """Every text that the template prints, with escapes for what would act on a reader; markup stays as it is."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
