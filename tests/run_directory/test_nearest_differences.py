"""A judge that began or ceased to read what is near differs in one value, not in five."""

from typing import Any

import pytest

from localjudge import Run
from tests.conftest import ScriptedRun
from tests.run_directory.conftest import judged_by

NEAR = {"letters": 600, "version": 1, "finder_version": 3, "language": "en"}


@pytest.mark.parametrize("is_jury", [False, True])
def test_only_the_letters_say_that_one_side_reads_what_is_near(
    scripted_run: ScriptedRun, is_jury: bool
) -> None:
    run = scripted_run("run", [{"reference": "One.", "retrieved_contexts": ["Two."]}], {})

    def reads(nearest: dict[str, object] | None) -> Run:
        nonlocal run
        values: dict[str, Any] = {"profile": "lexical"}
        if nearest is not None:
            values["nearest"] = nearest
        judge: dict[str, Any] = {"judge": values}
        if is_jury:
            judge = {"jury": {"lexical": {"engine": {"engine": "x"}, **judge}}}
        run = judged_by(run, **judge)
        return run

    name = "jury.lexical.judge" if is_jury else "judge"
    before = reads(None)
    after = reads(NEAR)
    (begun,) = after.compare(before).judge_changes
    assert (begun.ingredient, begun.before, begun.after) == (f"{name}.nearest.letters", None, 600)
    assert len(before.compare(after).judge_changes) == 1
    changed = reads(NEAR | {"version": 2, "language": "de"}).compare(after).judge_changes
    assert [change.ingredient for change in changed] == [
        f"{name}.nearest.language",
        f"{name}.nearest.version",
    ]
