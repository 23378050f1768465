"""What the files of a panel's run say of its judges must agree, whoever wrote them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localjudge import Run, RunDirectoryError, ScriptedEngine, evaluate, verify
from localjudge.record.panel import card_of
from localjudge.record.result_rows import flat_values
from localjudge.report.verdicts import remark_on

ROWS = [
    {"id": "a", "reference": "One. Two.", "retrieved_contexts": ["A context."]},
    {"id": "b", "reference": "Three.", "retrieved_contexts": []},
]


def engines() -> list[ScriptedEngine]:
    return [ScriptedEngine({"One.": p_yes, "Two.": said}, default=0.5) for p_yes, said in ((0.9, 0.3), (0.4, "broken"))]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return evaluate(ROWS, out=tmp_path / "run", engine=engines(), metrics=["context_recall"], max_failed=1)


def edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def first_row(run: Run, change: Callable[[dict[str, Any]], None]) -> None:
    path = run.directory / "verdicts.jsonl"
    first, *rest = path.read_text().splitlines(keepends=True)
    row = json.loads(first)
    change(row)
    path.write_text(json.dumps(row) + "\n" + "".join(rest))


def test_it_reads_back_as_it_was(run: Run) -> None:
    again = Run.open(run.directory)
    assert again.summary == run.summary
    assert again.verdicts == run.verdicts
    assert verify(again, engine=engines()).result == "bit-identical"


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row.pop("judges"),
        lambda row: row["judges"].popitem(),
        lambda row: row["judges"].update(dict.fromkeys(row["judges"], 0.7)),
        lambda row: row["judges"].update(dict.fromkeys(row["judges"])),
        lambda row: row["judges"].update(other=0.7),
    ],
    ids=["without", "one less", "other probabilities", "none of them", "one more"],
)
def test_verify_finds_a_row_that_its_judges_contradict(run: Run, change: Callable[[dict[str, Any]], None]) -> None:
    first_row(run, change)
    assert verify(run.directory, engine=engines()).files.keys() == {"verdicts.jsonl"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda manifest: manifest["environment"].pop("panel"), "panel"),
        (lambda manifest: manifest["environment"].update(panel={"A": "x", "B": "y"}), "does not name the judges"),
        (lambda manifest: manifest["environment"].update(panel=[1]), "panel"),
        (lambda manifest: manifest["judge"]["panel"]["judges"].popitem(), "judges"),
        (lambda manifest: manifest["judge"]["panel"].update(judges=[]), "judges"),
        (lambda manifest: manifest["judge"]["panel"]["rule"].update(clip=7), "clip"),
        (lambda manifest: manifest["judge"]["panel"]["rule"].update(weights={"x": 1}), "weights"),
        (
            lambda manifest: manifest["judge"]["panel"].update(
                rule={"rule": "weighted log odds", "weights": {"x": 1.0}}
            ),
            "the weights of judge.panel.rule are not those of its judges",
        ),
        (lambda manifest: manifest["judge"].update(panel="\x1b[2J"), "panel"),
    ],
)
def test_a_manifest_that_does_not_hold_a_panel_is_refused(
    run: Run, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    edit(run.directory / "manifest.json", change)
    with pytest.raises(RunDirectoryError, match=said) as caught:
        Run.open(run.directory)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda summary: summary["judge"]["panel"].pop(),
        lambda summary: summary["judge"]["panel"][0].update(sha256="0" * 64),
        lambda summary: summary["judge"]["panel"].reverse(),
    ],
)
def test_a_summary_with_other_judges_is_refused(run: Run, change: Callable[[dict[str, Any]], None]) -> None:
    edit(run.directory / "summary.json", change)
    with pytest.raises(RunDirectoryError, match="not of one run: judge: "):
        Run.open(run.directory)


def test_the_manifest_says_who_judged_where_no_summary_does(run: Run) -> None:
    """Of a run that is not finished yet."""
    assert card_of(run.manifest) == run.summary.judge


def test_what_each_gave_stands_beside_the_verdict(run: Run) -> None:
    """In a table as columns of numbers, for people behind the text; a unit that one failed says who."""
    one, two, three = run.verdicts
    names = list(one.judges or {})
    assert [flat_values(row)[f"p_yes of {name}"] for row in run.verdicts for name in names].count(None) == 3
    assert sorted((remark_on(one) or "").split(", ")) == sorted(
        f"{name} {p_yes:.3f}" for name, p_yes in (one.judges or {}).items()
    )
    assert (remark_on(two) or "").endswith(": broken")
    assert three.p_yes is None


def test_data_frames_have_a_column_for_each_judge(run: Run) -> None:
    pandas = pytest.importorskip("pandas")
    frame = run.to_pandas("verdicts")
    columns = [name for name in frame.columns if name.startswith("p_yes of ")]
    assert len(columns) == 2
    assert all(pandas.api.types.is_float_dtype(frame[name]) for name in columns)
    assert "judges" not in frame.columns
