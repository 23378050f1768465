from pathlib import Path
from typing import Any

import pytest

from localjudge import InputError, Run, ScriptedEngine, evaluate


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("n_ctx", 0, "n_ctx must be at least 64, got 0"),
        ("threshold", 50, "threshold must be at most 1, got 50"),
        ("threshold", float("nan"), "threshold must be at most 1, got nan"),
        ("threshold", True, "threshold must be a valid number, got True"),
        ("limit", True, "limit must be a valid integer, got True"),
        ("skip_bad_rows", "perhaps", "skip_bad_rows must be a valid boolean, got 'perhaps'"),
        ("reasons", "later", "reasons must be 'none', 'before' or 'after', got 'later'"),
        ("mapping", {"reference": 3}, "mapping.reference must be a valid string, got 3"),
        ("cluster_by", "", "cluster_by: String should have at least 1 character, got ''"),
        ("thresold", 0.5, "there is no option 'thresold'\n  hint: did you mean threshold?"),
        ("limit", 0, "limit must be at least 1, got 0"),
    ],
)
def test_an_invalid_value_is_named_with_its_option(name: str, value: Any, problem: str) -> None:
    engine = ScriptedEngine({}, default=1.0)
    with pytest.raises(InputError) as refused:
        evaluate([{"response": "It rains."}], engine=engine, out=False, **{name: value})
    assert str(refused.value).startswith(problem)


def test_abbreviations_are_stored_and_signed_by_content(tmp_path: Path) -> None:
    """Two statements without the abbreviation, one with it. The path is not signed."""

    def judge(out: str, **options: Any) -> Run:
        rows = [
            {
                "id": "a",
                "reference": "Seen by Exkmt. The rest is clear.",
                "retrieved_contexts": ["Rain."],
            }
        ]
        engine = ScriptedEngine({}, default=1.0)
        return evaluate(
            rows, out=tmp_path / out, metrics=["context_recall"], engine=engine, **options
        )

    file = tmp_path / "own.txt"
    file.write_text("Exkmt.\nPat\n")
    plain = judge("plain")
    read = judge("read", abbreviations=file)
    both = judge("named", abbreviations=["Pat.", "Exkmt"])
    other = judge("other", abbreviations=["Exkmt"])
    assert [len(run.verdicts) for run in (plain, read, both)] == [2, 1, 1]
    assert read.summary.signature == both.summary.signature
    assert len({run.summary.signature for run in (plain, read, other)}) == 3
    assert read.manifest.environment.settings.as_json["abbreviations"] == ["Exkmt", "Pat"]
    file.unlink()
    assert (
        Run.open(read.directory).verify(engine=ScriptedEngine({}, default=1.0)).result
        == "bit-identical"
    )
