"""A judge that began or ceased to read what is near differs in one value, not in five."""

import pytest

from localjudge.run_directory.differences import Difference, differences

NEAR = {"letters": 600, "version": 1, "finder_version": 3, "language": "en"}


@pytest.mark.parametrize("is_jury", [False, True])
def test_only_the_letters_say_that_one_side_reads_what_is_near(is_jury: bool) -> None:
    def judge(nearest: dict[str, object] | None) -> dict[str, object]:
        values: dict[str, object] = {"profile": "lexical"}
        if nearest is not None:
            values["nearest"] = nearest
        return {"jury": {"lexical": {"judge": values}}} if is_jury else {"judge": values}

    name = "jury.lexical.judge" if is_jury else "judge"
    begun = differences(judge(None), judge(NEAR))
    assert begun == [Difference(ingredient=f"{name}.nearest.letters", before=None, after=600)]
    assert len(differences(judge(NEAR), judge(None))) == 1
    changed = differences(judge(NEAR), judge(NEAR | {"version": 2, "language": "de"}))
    assert [change.ingredient for change in changed] == [
        f"{name}.nearest.language",
        f"{name}.nearest.version",
    ]
