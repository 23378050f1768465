"""`localjudge calibrate` and `run --calibration`, with the reference judge."""

import json
from pathlib import Path

import pytest

from localjudge.resources import demo_file
from tests.cli.conftest import called

pytestmark = pytest.mark.engine

WORDS = ("river", "tower", "bridge", "garden", "school", "market")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def labels() -> Path:
    """24 passages, each with a statement that it holds and one that it does not."""
    file = Path("labels.jsonl")
    passages = [(f"The old {one} of town {n} opened in {1900 + n}.", n, one) for n in range(4) for one in WORDS]
    rows = [
        {"context": text, "statement": statement, "label": label}
        for text, n, one in passages
        for statement, label in ((f"The {one} of town {n} opened in {1900 + n}.", 1), ("A ship \x1b[31msank.", 0))
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_a_judge_is_calibrated_and_a_run_uses_it(labels: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, told = called(capfd, "calibrate", labels, "--name", "ours")
    shown = " ".join(out.split())
    assert code == 0
    assert "calibration ours: attribution" in shown
    assert "48 verdicts labelled by people, 24 of them 1; 24 groups by the same contexts" in shown
    assert "AUC 1.000 [1.000, 1.000]" in shown
    assert "calibration slope: the scores split the labels without error" in shown
    assert "use it: localjudge run ... --calibration ours" in told
    code, out, told = called(capfd, "calibrate", labels, "--name", "ours", "--json")
    found = json.loads(out)
    assert (code, found["question"], found["labels"]["verdicts"]) == (0, "attribution", 48)
    assert "asked 0 verdicts" in told
    code, out, _ = called(capfd, "run", demo_file(), "--calibration", "ours", "--out", "run", "--json")
    assert json.loads(out)["thresholds"]["context_recall"] == found["threshold"]
    assert called(capfd, "verify", "run")[0] == 0


def test_a_judge_that_guesses_is_not_recommended_and_can_stop_a_pipeline(
    labels: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Labels that have nothing to do with the texts: 24 of each, in turns."""
    rows = [json.loads(line) | {"label": n // 2 % 2} for n, line in enumerate(labels.read_text().splitlines())]
    Path("other.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, _, told = called(capfd, "calibrate", "other.jsonl", "--name", "guess", "--require", "ranking")
    assert code == 3
    assert "do not use it: this judge is not shown to be better than guessing" in told
    assert "fit for ranking is required: not fit (AUC 0.44 [0.40, 0.49]" in told
    assert called(capfd, "calibrate", labels, "--name", "ours", "--require", "means", "--quiet")[0] == 0
    _, out, _ = called(capfd, "run", demo_file(), "--calibration", "guess", "--out", "guessed", "--quiet")
    assert "48 labelled verdicts; not shown to be better than guessing" in " ".join(out.split())


def test_what_cannot_be_is_a_usage_error(labels: Path, capfd: pytest.CaptureFixture[str]) -> None:
    called(capfd, "calibrate", labels, "--name", "ours", "--quiet")
    code, _, told = called(capfd, "run", demo_file(), "--calibration", "ours", "--threshold", "0.4")
    assert (code, told) == (
        1,
        "localjudge: --threshold and --calibration cannot both be given\n  hint: --calibration brings its threshold\n",
    )
    code, _, told = called(capfd, "run", demo_file(), "--calibration", "our")
    assert code == 1
    assert "there is no calibration 'our', neither by that name nor as a file\n  hint: did you mean ours" in told
    Path("small.toml").write_text("n_ctx = 4096\n")
    code, _, told = called(capfd, "run", demo_file(), "--calibration", "ours", "--suite", "small.toml", "--dry-run")
    assert code == 1
    assert "the calibration ours was made with another judge:\n  engine.n_ctx: 8192 there, 4096 now" in told
    code, _, told = called(capfd, "calibrate", labels, "--run", "run")
    assert (code, "run holds no run" in told) == (1, True)
    code, _, told = called(capfd, "calibrate", demo_file())
    assert (code, "holds no labels that are known" in told) == (1, True)
