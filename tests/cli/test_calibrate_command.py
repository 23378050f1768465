import json
from pathlib import Path

import pytest
from human_labels import answer_all, draw

import localjudge
from tests.cli.conftest import DEMO, Call, write_rows

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("home")]

NAMES = ("scripted-attribution", "scripted-2-attribution")
WORDS = ("river", "tower", "bridge", "garden", "school", "market")


@pytest.fixture
def labels() -> Path:
    """24 passages, each with a supported and an unsupported statement."""
    passages = [
        (f"The old {one} of town {n} opened in {1900 + n}.", n, one)
        for n in range(4)
        for one in WORDS
    ]
    rows = [
        {"context": text, "statement": statement, "label": label}
        for text, n, one in passages
        for statement, label in (
            (f"The {one} of town {n} opened in {1900 + n}.", 1),
            ("A ship \x1b[31msank.", 0),
        )
    ]
    write_rows("labels.jsonl", *rows)
    return Path("labels.jsonl")


def test_a_judge_is_calibrated_and_a_run_uses_it(labels: Path, call: Call) -> None:
    code, output, errors = call("calibrate", labels, "--name", "ours")
    assert (code, "AUC 1.000 [1.000, 1.000]" in " ".join(output.split())) == (0, True)
    assert "localjudge run ... --calibration ours" in errors
    code, output, errors = call("calibrate", labels, "--name", "ours", "--json")
    [calibration] = json.loads(output)
    assert (code, calibration["question"], calibration["labels"]["verdicts"]) == (
        0,
        "attribution",
        48,
    )
    assert "asked 0 questions" in errors
    output = call("run", "--demo", "--calibration", "ours", "--out", "run", "--json")[1]
    assert json.loads(output)["thresholds"]["context_recall"] == calibration["threshold"]
    assert call("verify", "run")[0] == 0


def test_a_setting_of_zero_in_the_configuration_file_is_used(labels: Path, call: Call) -> None:
    """The default of min_valid_mass is .01."""
    Path("localjudge.toml").write_text("min_valid_mass = 0\n", encoding="utf-8")
    assert call("calibrate", labels, "--name", "ours", "--out", "asked")[0] == 0
    judge = json.loads(Path("asked", "manifest.json").read_text())["judge"]
    assert judge.get("min_valid_mass", 0) == 0


def test_a_judge_that_guesses_is_not_recommended_and_can_stop_a_pipeline(
    labels: Path, call: Call
) -> None:
    """The labels are unrelated to the texts."""
    rows = [
        json.loads(line) | {"label": n // 2 % 2}
        for n, line in enumerate(labels.read_text().splitlines())
    ]
    write_rows("other.jsonl", *rows)
    code, _, errors = call("calibrate", "other.jsonl", "--name", "guess", "--require", "ranking")
    assert (code, "better than guessing" in errors) == (3, True)
    assert "AUC 0.44 [0.40, 0.49]" in errors
    assert call("calibrate", labels, "--name", "ours", "--require", "means", "--quiet")[0] == 0
    output = call("run", "--demo", "--calibration", "guess", "--out", "guessed", "--quiet")[1]
    assert "better than guessing" in " ".join(output.split())


@pytest.mark.parametrize("options", [(), ("--json",), ("--quiet",)], ids=str)
def test_a_judge_that_guesses_is_saved_only_by_name(
    labels: Path, call: Call, options: tuple[str, ...]
) -> None:
    rows = [
        json.loads(line) | {"label": n // 2 % 2}
        for n, line in enumerate(labels.read_text().splitlines())
    ]
    write_rows("other.jsonl", *rows)
    code, _, errors = call("calibrate", "other.jsonl", *options)
    assert code == 0
    assert ("not saved: lexical" in errors) == (not options)
    assert not list(Path("home").rglob("calibrations/*"))
    assert call("calibrate", "other.jsonl", "--name", "guess", *options)[0] == 0
    assert Path("home/calibrations/guess.json").exists()


def test_a_calibration_by_other_labels_is_replaced_only_by_name(labels: Path, call: Call) -> None:
    """Two label files have the same default name."""
    assert "keeping" not in call("calibrate", labels)[2]
    first = Path("home/calibrations/lexical-attribution.json").read_bytes()
    write_rows("other.jsonl", *map(json.loads, labels.read_text().splitlines()[:40]))
    errors = call("calibrate", "other.jsonl")[2]
    assert "keeping the calibration lexical-attribution" in errors
    assert "--calibration lexical-2-attribution" in errors
    assert Path("home/calibrations/lexical-attribution.json").read_bytes() == first
    assert "keeping" not in call("calibrate", labels)[2]  # the same labels again
    assert "replacing" not in call("calibrate", labels, "--name", "ours")[2]
    assert "replacing the calibration ours" in call("calibrate", "other.jsonl", "--name", "ours")[2]
    names = {file.stem for file in Path("home/calibrations").iterdir()}
    assert names == {"lexical-attribution", "lexical-2-attribution", "ours"}


def test_judges_of_runs_are_ranked_in_a_table(call: Call) -> None:
    """The labels of one run measure two judges: a good one, and one between .5 and .6."""
    rows = [
        {"id": f"s{n}", "retrieved_contexts": ["Rain."], "response": f"It is {n}."}
        for n in range(48)
    ]
    scripts = {
        "knows": {f"It is {n}.": 0.2 + 0.6 * (n % 2) for n in range(48)},
        "turns": {f"It is {n}.": 0.5 + 0.1 * (n // 2 % 2) for n in range(48)},
    }
    for name, script in scripts.items():
        engine = localjudge.ScriptedEngine(script)
        run = localjudge.evaluate(rows, metrics=["faithfulness"], out=name, engine=engine)
    answer_all(draw(run), lambda text: int(text.removesuffix(".").split()[-1]) % 2)
    code, output, errors = call("calibrate", "turns", "knows", "--require", "means")
    assert code == 0, "one of them is recommended"
    shown = output.split("\n")
    first, second = (
        next(place for place, line in enumerate(shown) if line.startswith(f" {name} "))
        for name in NAMES
    )
    assert first < second
    assert shown[first].split()[1:3] == ["1.00", "+0.00"]
    assert shown[second].split()[1:4] == ["0.50", "+0.50", "-"]
    assert (
        errors.count("saved as"),
        "not saved: turns" in errors or "not saved: scripted" in errors,
    ) == (1, True)
    output = call("calibrate", "turns", "knows", "--json")[1]
    assert [found["name"] for found in json.loads(output)] == [*NAMES]
    assert call("calibrate", "turns", "--require", "means", "--quiet")[0] == 3


def test_impossible_options_are_usage_errors(labels: Path, call: Call) -> None:
    call("calibrate", labels, "--name", "ours", "--quiet")
    Path("small.toml").write_text("n_ctx = 4096\n")
    run = ("run", "--demo", "--calibration")
    for arguments, message in (
        ((*run, "ours", "--threshold", "0.4"), "--threshold and --calibration"),
        ((*run, "our"), "hint: did you mean ours"),
        (
            (*run, "ours", "--config", "small.toml", "--dry-run"),
            "engine.n_ctx: 8192 there, 4096 here",
        ),
        (("calibrate", DEMO), "has no labelled texts"),
    ):
        code, _, errors = call(*arguments)
        assert (code, message in errors) == (1, True)
