"""The next command of a run while it is labelled."""

from typing import Any

import pytest
from command_line import printed
from human_labels import answer_all, draw, draw_disputed

from localjudge import Run
from localjudge.run_directory.label_rows import append_labels, stored_labels
from tests.conftest import ScriptedRun

ROWS: list[dict[str, Any]] = [
    {
        "id": str(number),
        "retrieved_contexts": [f"Tower {number} is tall."],
        "response": f"Tower {number} is tall. It is old {number}.",
        "reference": f"Tower {number} is high.",
    }
    for number in range(30)
]
BOTH = ["context_recall", "faithfulness"]


def next_line(run: Run) -> str:
    text = printed("show", run.directory, width=400)
    return text.partition(" next: ")[2].splitlines()[0]


@pytest.fixture
def run(scripted_run: ScriptedRun) -> Run:
    return scripted_run("run", ROWS, {}, metrics=BOTH)


def test_labels_for_one_metric_are_continued_for_this_metric(run: Run) -> None:
    """The other metric would have begun a second drawing, and left both unfinished."""
    assert next_line(run) == f"localjudge label {run.directory}"
    answer_all(draw(run, count=10, metrics=["faithfulness"]))
    assert next_line(run) == f"localjudge label {run.directory} --metrics faithfulness"
    answer_all(draw(run, count=50, metrics=["faithfulness"]))
    assert next_line(run) == f"localjudge report {run.directory}"


def test_disputes_are_settled_before_the_report(run: Run) -> None:
    """Two annotators agree on all statements but one."""
    answer_all(draw(run, "ann"))
    first, *others = stored_labels(run.directory)
    seconds = [row.model_copy(update={"annotator": "bob"}) for row in (first, *others)]
    seconds[0] = seconds[0].model_copy(update={"human": 0})
    append_labels(run.directory, seconds)
    assert next_line(run) == f"localjudge label {run.directory} --disputed"
    answer_all(draw_disputed(run))
    assert next_line(run) == f"localjudge report {run.directory}"


def test_a_dispute_that_cannot_be_settled_is_asked_once(run: Run) -> None:
    """The next step remained the same after "cannot tell"."""
    answer_all(draw(run, "ann"))
    first, *_ = stored_labels(run.directory)
    append_labels(run.directory, [first.model_copy(update={"annotator": "bob", "human": 0})])
    assert next_line(run).endswith("--disputed")
    draw_disputed(run).answer("?")
    assert next_line(run) == f"localjudge report {run.directory}"
