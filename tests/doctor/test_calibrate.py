import hashlib
import json
import random
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import DataError, InputError, Run, RunDirectoryError, ScriptedEngine

PAIRS = 40


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def statements(count: int = PAIRS) -> list[dict[str, Any]]:
    """Create labels 1, 0, 1, 0 ...; one row in five has the probability of the other label."""
    return [
        {
            "context": f"Passage {n // 2}.",
            "statement": f"Statement {n}. And more.",
            "label": (n + 1) % 2,
            "doc": n // 4,
        }
        for n in range(count)
    ]


def probability(n: int) -> float:
    says_yes = (n % 2 == 0) != (n % 5 == 0)
    return (0.62 if says_yes else 0.52) + n / 10_000


SCRIPT = {f"Statement {n}. And more.": probability(n) for n in range(400)}


def written(rows: list[dict[str, Any]], name: str = "labels.jsonl") -> Path:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Path(name)


def calibrated(rows: list[dict[str, Any]] | None = None, **options: Any) -> Any:
    if rows is None:
        rows = statements()
    labels = written(rows)
    [calibration] = localjudge.calibrate(labels, **{"engine": ScriptedEngine(SCRIPT), **options})
    return calibration


def read_back(calibration: Any) -> Any:
    """Return the calibration that a run uses of this name, file or object."""
    rows = [{"user_input": "Why?", "retrieved_contexts": ["It is."], "response": ""}]
    engine = ScriptedEngine(SCRIPT)
    run = localjudge.evaluate(
        rows, metrics="faithfulness", engine=engine, calibration=calibration, out=False
    )
    [used] = run.manifest.environment.settings.calibration
    return used


def test_figures_by_hand() -> None:
    """8 of 40 rows are wrong, 4 of each label: all are above .5; from .57 on, 16 of 20 are right.

    At .5 all verdicts are 1: balanced accuracy 1/2, bias 20/40. Held out: 32/40.
    """
    calibration = calibrated()
    assert (
        calibration.labels.verdicts,
        calibration.labels.positives,
        calibration.labels.clusters,
    ) == (40, 20, 20)
    file = Path(calibration.labels.file)
    assert calibration.labels.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    plain = calibration.at_one_half
    held_out = calibration.held_out
    assert plain["balanced_accuracy"].value == 0.5
    assert 0.53 < calibration.threshold < 0.62
    assert held_out["balanced_accuracy"].value == pytest.approx(0.8)
    assert held_out["gain"].value == pytest.approx(0.3)
    assert (plain["bias"].value, held_out["bias"].value) == (0.5, 0)
    assert all(figure.ci95[0] <= figure.value <= figure.ci95[1] for figure in held_out.values())


def test_a_statement_is_one_question_and_clusters_share_a_context_or_group() -> None:
    """A statement of two sentences is one verdict.

    Two rows share each context, four a value of the column.
    """
    engine = ScriptedEngine(SCRIPT)
    again = ScriptedEngine(SCRIPT)
    by_context = calibrated(engine=engine, out="run")
    by_column = calibrated(engine=again, out="run", cluster_by="doc")
    assert (len(engine.asked), len(again.asked)) == (PAIRS, 0)
    assert Run.open("run").verify(engine=ScriptedEngine(SCRIPT)).result == "bit-identical"
    assert (by_context.labels.clustered_by, by_context.labels.clusters) == ("the same contexts", 20)
    assert (by_column.labels.clustered_by, by_column.labels.clusters) == ("doc", 10)
    assert any("only 10 independent groups" in remark for remark in by_column.remarks)
    with pytest.raises(InputError, match="column 'nowhere'"):
        calibrated(cluster_by="nowhere")


@pytest.mark.parametrize("blank", [None, "", "  ", float("nan"), ["a"], {"a": 1}])
def test_a_label_without_a_group_is_refused(blank: object) -> None:
    """As for the samples of a run, a blank text and NaN name no group."""
    rows = [{**row, "doc": "one"} for row in statements()]
    rows[7]["doc"] = blank
    with pytest.raises(InputError, match=r"(?s)labels\.jsonl.*8.*'doc'"):
        calibrated(rows, cluster_by="doc")


def test_a_group_is_the_same_as_a_whole_number_with_and_without_decimals() -> None:
    """As for the samples of a run: 7 and 7.0 are one group, so 40 rows have 10 groups."""
    rows = statements()
    for row in rows[::2]:
        row["doc"] = float(row["doc"])
    assert calibrated(rows, cluster_by="doc").labels.clusters == 10


def test_the_order_of_the_labels_does_not_matter() -> None:
    rows = [{**row, "id": f"r{number}"} for number, row in enumerate(statements())]
    whole = calibrated(rows)
    random.Random(1).shuffle(rows)
    moved = calibrated(rows)
    names = ("threshold", "figures", "at_one_half", "held_out", "fold_thresholds", "savings", "run")
    assert [name for name in names if getattr(moved, name) != getattr(whole, name)] == []


def test_contradicting_options_are_refused_before_judging() -> None:
    calibrated(out="asked")
    texts = Path("labels.jsonl")
    for arguments, message in (
        (dict[str, Any](labels="asked", judge="lexical"), "measured by their stored answers"),
        ({"labels": "asked", "n_ctx": 512}, "measured by their stored answers"),
        ({"labels": texts, "judge": ["a", "b"], "out": "run"}, "out is for one judge, got 2"),
        ({"labels": ["asked", "asked"], "name": "x"}, "name is for one judge, got 2"),
        *(
            ({"labels": labels}, "on one file of labelled texts")
            for labels in ([texts, texts], [texts, "asked"], [])
        ),
        ({"labels": texts, "metrics": ["faithfulness"]}, "which belong to no metric"),
        ({"labels": texts, "name": "../x"}, "invalid name"),
    ):
        with pytest.raises(InputError, match=message):
            localjudge.calibrate(**arguments)
    with pytest.raises(DataError, match="no labels"):
        calibrated([{**row, "label": None} for row in statements()])


def test_a_calibration_is_saved_privately_and_read_back(home: Path) -> None:
    calibration = calibrated(name="ours")
    file = home / "calibrations" / "ours.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read_back("ours") == read_back(file) == read_back(calibration) == calibration
    assert calibrated(name="theirs").sha256 == calibration.sha256  # neither its name nor its date
    with pytest.raises(InputError, match=r"no calibration .*'nobody'"):
        read_back("nobody")
    for content in ("", "[]", "{}", '{"threshold": NaN}', "{" * 10_000):
        file.write_text(content)
        with pytest.raises(RunDirectoryError, match=r"ours\.json"):
            read_back("ours")
    with pytest.raises(InputError, match=r"both .*attribution"):
        read_back(
            [calibration, calibration.model_copy(update={"name": "theirs", "threshold": 0.1})]
        )


def test_too_few_labels_are_reported_and_failed_verdicts_are_excluded() -> None:
    with pytest.raises(DataError, match="if all labels"):
        calibrated([row for row in statements() if row["label"]])
    few = calibrated(statements(16))
    assert any(remark.startswith("warning: only 8 labels of 1") for remark in few.remarks)
    with pytest.raises(DataError, match="in one cluster"):
        calibrated([{**row, "doc": 1} for row in statements()], cluster_by="doc")
    failed = calibrated(
        engine=ScriptedEngine({**SCRIPT, "Statement 3. And more.": "it does not fit"})
    )
    assert (failed.labels.verdicts, failed.labels.failed) == (39, 1)
    assert [
        remark for remark in failed.remarks if remark.startswith("excluded: 1 labelled statement ")
    ]


def test_sentences_are_judged_with_their_passage() -> None:
    passages = [
        {
            "question": f"Why {n}?",
            "sentences": [f"Yes {n}.", f"No {n}.", "Extra."],
            "relevant": [1, 0, None],
        }
        for n in range(25)
    ]
    script = {
        f"{word} {n}.": p + n / 1000 for n in range(25) for word, p in (("Yes", 0.7), ("No", 0.6))
    }
    engine = ScriptedEngine(script, default=0.5)
    calibration = calibrated(passages, engine=engine)
    labels = calibration.labels
    assert (calibration.question, labels.verdicts, labels.unlabelled) == (
        "relevance_sentence",
        50,
        25,
    )
    assert labels.clusters == 25
    assert calibration.held_out["balanced_accuracy"].value == 1
    assert (
        "calibration_slope" in calibration.undefined
    )  # the scores split the labels: no line fits best


KILLED = """
import os, signal, sys, localjudge

class Killed(localjudge.ScriptedEngine):
    def _answer(self, request):
        with open("notes", "a") as notes:
            notes.write("asked\\n")
        if len(self.asked) >= int(sys.argv[1]):
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._answer(request)

localjudge.calibrate("labels.jsonl", engine=Killed(SCRIPT), out="run", name="k")
"""


@pytest.mark.engine
def test_a_killed_calibration_resumes() -> None:
    """Killed at question 30: at most 30 questions are repeated, and the result is the same."""
    written(statements())
    program = Path("program.py")
    program.write_text(KILLED.replace("SCRIPT", repr(SCRIPT)))
    ended = [
        subprocess.run([sys.executable, program, most], check=False).returncode
        for most in ("29", "999")
    ]
    assert ended == [-9, 0]
    asked = len(Path("notes").read_text().splitlines())
    assert PAIRS < asked <= PAIRS + 30
    assert read_back("k").figures == calibrated().figures
