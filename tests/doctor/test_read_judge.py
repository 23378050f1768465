"""A judge that is read: its answers know nothing, its logits do; what was read is in every number, and reproduces."""

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import localjudge
from localjudge import ScriptedEngine
from localjudge.doctor.made_labels import made_labels, made_texts
from localjudge.errors import DataError, InputError
from localjudge.record.manifest import Calibration, read_calibration
from localjudge.report.sample import sample_view
from localjudge.result import Run
from localjudge.stats.head import READOUT
from localjudge.types import Answer
from tests.report.conftest import printed

COUNT = 120


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def statement(number: int) -> str:
    return f"Statement {number} says so."


def answer(number: int, *, readout: bool = True) -> Answer:
    """Asked, the judge says yes to everything, at random; the third logit is 2 higher where the label is 1."""
    rng = np.random.default_rng(number)
    logits = rng.normal(size=32)
    logits[2] += 4 * (number % 2)
    p_yes = float(rng.uniform(0.6, 0.9))
    return Answer(p_yes=p_yes, legal_mass=1, raw="", readout=logits.astype("<f2").tobytes() if readout else None)


def engine(*, readout: bool = True) -> ScriptedEngine:
    return ScriptedEngine({statement(number): answer(number, readout=readout) for number in range(2 * COUNT)})


def labels_file() -> Path:
    rows = [{"context": f"About {n}.", "statement": statement(n), "label": n % 2} for n in range(COUNT)]
    Path("labels.jsonl").write_text("".join(map(json.dumps, rows)).replace("}{", "}\n{"))
    return Path("labels.jsonl")


def fitted(**options: Any) -> Calibration:
    options = {"engine": engine(), "head": True, "name": "read", "out": "asked", **options}
    return cast("Calibration", localjudge.calibrate(labels_file(), **options))


def judged(**options: Any) -> Run:
    data = [
        {"id": f"s{n}", "response": f"{statement(n)} {statement(n + 1)}", "retrieved_contexts": [f"About {n}."]}
        for n in range(COUNT, COUNT + 20, 2)
    ]
    options = {"engine": engine(), "metrics": ["faithfulness"], **options}
    return localjudge.evaluate(data, **options)


def test_a_head_is_fitted_on_labels_and_measured_where_it_saw_nothing() -> None:
    """Planted four spreads apart: AUC Phi(4 / sqrt 2) = 0.998; asked, 0.5."""
    calibration = fitted()
    assert calibration.head
    assert calibration.figures["auc"].value > 0.95
    assert calibration.gains["gain_in_auc"].value == pytest.approx(calibration.figures["auc"].value - 0.5, abs=0.1)
    assert calibration.gains["gain_in_auc"].ci95[0] > 0.3
    assert calibration.gains["gain_in_balanced_accuracy"].ci95[0] > 0.2
    assert read_calibration("read") == calibration
    assert fitted().sha256 == calibration.sha256


def test_without_a_name_the_judge_is_measured_asked_and_read() -> None:
    first, second = cast("list[Calibration]", localjudge.calibrate([labels_file()], engine=engine(), head=True))
    assert first.head
    assert second.head is None
    assert first.name == f"{second.name.removesuffix('-attribution')}-head-attribution"
    assert first.figures["auc"].value - second.figures["auc"].value == pytest.approx(first.gains["gain_in_auc"].value)


def test_what_was_read_decides_and_what_was_said_stands_beside_it() -> None:
    fitted()
    asked, read = judged(out="plain"), judged(out="read", calibration="read")
    assert asked["faithfulness"].mean == 1  # it says yes to everything
    assert read["faithfulness"].mean == pytest.approx(0.5, abs=0.1)
    rows = list(read.verdicts)
    assert [row.p_asked for row in rows] == [row.p_yes for row in asked.verdicts]
    assert [row.label for row in rows].count(1) == pytest.approx(10, abs=2)
    assert all(row.p_asked is None for row in asked.verdicts)
    assert "p_asked" not in Path("plain/verdicts.jsonl").read_text()
    assert asked.manifest.signature != read.manifest.signature
    assert read.verify(engine=engine()).result == "bit-identical"
    assert "asked, it said 1 0." in printed(sample_view(read, "s120"))


def test_a_run_is_scored_again_by_a_head_without_asking() -> None:
    """The logits are in the record of every run."""
    fitted()
    nobody = engine()
    again = judged(out="plain").rescore(calibration="read", out="again", engine=nobody)
    assert nobody.asked == ()
    assert list(again.verdicts) == list(judged(out="read", calibration="read").verdicts)


def test_a_head_that_read_a_run_is_checked_by_peoples_labels() -> None:
    calibration = fitted()
    run = judged(out="read", calibration="read")
    run.label("sheet.jsonl")
    rows = [json.loads(line) for line in Path("sheet.jsonl").read_text().splitlines()]
    labelled = [{**row, "human": int(row["text"].split()[1]) % 2} for row in rows]
    Path("people.jsonl").write_text("".join(json.dumps(row) + "\n" for row in labelled))
    run.read_labels("people.jsonl")
    checked = cast("Calibration", localjudge.calibrate(run))
    assert checked.head == calibration.head
    assert checked.labels.verdicts == 20
    assert checked.figures["auc"].value > 0.9


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"engine": engine(readout=False)}, "gave no logits to read"),
        ({"head": False, "from_data": True}, "measure no judge"),
    ],
)
def test_what_cannot_be_read_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        fitted(**options)


def test_another_judge_is_not_read_by_the_head() -> None:
    fitted()
    with pytest.raises(InputError, match="made with another judge"):
        judged(engine=engine(readout=False), calibration="read")


def test_made_labels_are_1_for_sentences_of_their_context_alone() -> None:
    lakes = [
        f"Lake Number {n} was measured by Anna in {1900 + n}. It is {n} metres deep at the old bridge."
        for n in range(30)
    ]
    made = list(made_labels(lakes, lambda text: [f"{part}." for part in text.rstrip(".").split(". ")]))
    assert len(made) == 60
    assert [row.labels for row in made] == [(1,), (0,)] * 30
    assert all((str(row.statement) in row.texts[0]) == bool(row.labels[0]) for row in made)
    assert len({row.texts for row in made}) == 30
    assert made == list(made_labels(lakes, lambda text: [f"{part}." for part in text.rstrip(".").split(". ")]))


def test_made_texts_are_of_the_contexts_of_data() -> None:
    rows = [
        {"id": n, "retrieved_contexts": [f"The bridge number {n} was built of stone in the year {1800 + n}."]}
        for n in range(9)
    ]
    Path("data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    texts = made_texts("data.jsonl")
    assert texts.shape == "made"
    assert len(texts.texts) == 18
    Path("short.jsonl").write_text(json.dumps({"id": 1, "retrieved_contexts": ["No."]}) + "\n")
    with pytest.raises(DataError, match="no labels can be made"):
        made_texts("short.jsonl")


@pytest.mark.parametrize(
    "file", sorted((Path(localjudge.__file__).parent / "heads").glob("*.json")), ids=lambda file: file.stem
)
def test_a_bundled_head_is_found_by_its_name_and_says_what_it_is_worth(file: Path) -> None:
    bundled = read_calibration(file.stem)
    assert bundled.name == file.stem
    assert bundled.head
    assert 0 <= bundled.head.p_yes(bytes(2 * READOUT)) <= 1
    assert bundled.gains["gain_in_auc"].ci95[0] > 0.05
    assert bundled.labels.verdicts >= 200
    assert bundled.card.sha256
    assert f"| `{file.stem}` |" in file.with_name("README.md").read_text()
