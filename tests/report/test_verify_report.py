"""`verify` rebuilds the report of a run directory and detects edits."""

import json
import re
import shlex
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from localjudge import Run
from localjudge.report.verification_views import verification_view
from tests.analysis.conftest import label, text
from tests.analysis.labelled_runs import METRIC, make_run, same_judge
from tests.conftest import ScriptedRun
from tests.report.conftest import PageReader
from tests.run_directory.conftest import edited

REPORT = "report.html"

AS_IT_IS = "unchanged; its lines on verification and examination cannot be checked"


@pytest.fixture
def run(scripted_run: ScriptedRun) -> Run:
    return label(make_run(scripted_run, "run", samples=30), n=40)


def report_of(run: Run) -> Any:
    return run.verify(engine=same_judge(run)).report


def test_verify_detects_an_edited_headline(run: Run) -> None:
    """The headline showed another number, and `verify` ended as bit-identical."""
    path = run.report()
    assert run.verify(engine=same_judge(run)).report.note == AS_IT_IS
    page = path.read_text()
    assert "about " in page
    path.write_text(page.replace("about ", "about 9", 1))
    found = run.verify(engine=same_judge(run))
    assert (found.result, found.files) == (
        "different",
        {REPORT: ("it differs from the page of the run",)},
    )
    assert f"{REPORT} was changed (it differs from the page of the run)" in " ".join(
        map(str, verification_view(found).notes)
    )
    path.write_text(page)
    assert run.verify(engine=same_judge(run)).result == "bit-identical"


def test_verify_rebuilds_a_report_with_baseline_gates_and_title(
    run: Run, scripted_run: ScriptedRun
) -> None:
    before = make_run(scripted_run, "before", samples=30, threshold=0.7)
    gates = [f"{METRIC}>=0.2", f"{METRIC}.delta>=-0.9"]
    for _ in range(2):
        path = run.report(
            baseline=before, gates=gates, undecided="pass", title="Help desk <autumn>"
        )
        assert report_of(run).note == AS_IT_IS
        assert str(before.directory.parent) not in path.read_text()
        assert run.verify(engine=same_judge(run)).result == "bit-identical"
        assert report_of(run).note == AS_IT_IS
    assert (run.directory / "verification.json").exists()


def test_verify_rebuilds_a_report_with_corrected_slices(scripted_run: ScriptedRun) -> None:
    """Every statement has a label, 0 for every fourth: 7 of 28 in ward a and 3 of 12 in ward b."""
    wards = {number: "a" if number < 28 else "b" for number in range(40)}
    rows = [
        {
            "id": f"s{number}",
            "ward": ward,
            "retrieved_contexts": ["x"],
            "reference": text(number, 0),
        }
        for number, ward in wards.items()
    ]
    run = label(scripted_run("run", rows, {}, metrics=[METRIC]))
    assert "Corrected by" not in run.report().read_text()
    page = PageReader(run.report(by="ward").read_text())
    assert report_of(run).note == AS_IT_IS
    words = " ".join(page.text.split()).partition("By ward ")[2]
    assert re.search(
        r"context_recall a 28 0\.750 [0-9. -]+ 28 labels b 12 0\.750 .* 12 labels", words
    )
    edited(REPORT, "0.750", "0.950")(run.directory)
    assert report_of(run).problem == "it differs from the page of the run"


def test_reports_that_cannot_be_rebuilt_are_named(run: Run) -> None:
    """A missing page; before more labels; another version; other inputs; no report at all."""
    assert report_of(run).note == "none in the run directory"
    page = run.report().read_text()
    label(run, n=50)
    assert report_of(run).note.startswith("not checked: it is older than the labels")
    page = run.report().read_text()
    changes: dict[str, Callable[[str], str]] = {
        "not checked: written by localjudge 9.9, this is localjudge": lambda text: _with(
            text, writer="localjudge 9.9"
        ),
        "it differs from the page of the run": lambda text: _with(text, title="Other"),
        "it cannot be written again: the gate none>=0.5": lambda text: _with(
            text, gates=["none>=0.5"]
        ),
        "it cannot be written again: ": lambda text: _with(text, baseline="../nowhere"),
        "its inputs are missing or invalid": lambda text: _with(text, writer=5),
    }
    for problem, change in changes.items():
        (run.directory / REPORT).write_text(change(page))
        found = report_of(run)
        assert (found.problem or found.note).startswith(problem)
    (run.directory / REPORT).write_bytes(b"\xff" * 1_000)
    assert report_of(run).problem == "its inputs are missing or invalid"


def _with(page: str, **inputs: object) -> str:
    before, _, rest = page.partition('id="config">')
    config, _, after = rest.partition("</script>")
    values = json.loads(config)
    values["inputs"] |= inputs
    return f'{before}id="config">{json.dumps(values)}</script>{after}'


@pytest.mark.parametrize("name", ["my run", "second", "<b>it's"])
def test_commands_of_a_report_name_the_run_also_after_a_move(
    scripted_run: ScriptedRun, name: str
) -> None:
    """They once had RUN in its place. A moved run has the report that was written before."""
    run = make_run(scripted_run, name, samples=30)
    assert run.directory.name == name
    page = PageReader(run.report().read_text(encoding="utf-8")).text
    assert "RUN" not in page
    text = " ".join(page.split())
    for command in ("label", "verify", "show"):
        assert f"localjudge {command} {shlex.quote(name)}" in text
    moved = run.directory.with_name("moved")
    shutil.move(run.directory, moved)
    assert report_of(Run.open(moved)).note == AS_IT_IS
