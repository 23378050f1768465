import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import localjudge

pytestmark = pytest.mark.engine

ROOT = Path(__file__).resolve().parents[1]
CONFTEST = """
import pytest
import localjudge

@pytest.fixture(scope="session")
def localjudge_judge():
    engine = localjudge.ScriptedEngine({"It rains.": 0.9, "It is \\x1b[31mred.": 0.2})
    with localjudge.Judge.open(engine=engine) as opened:
        yield opened
"""
SAMPLE = (
    'S = {"id": "a", "retrieved_contexts": ["Rain."],'
    ' "response": "It rains. It is \\x1b[31mred."}\n'
)
PASSING = """
def test_it(assert_score):
    assert_score(S, "faithfulness", at_least=0.5)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    return tmp_path


def session(folder: Path, *arguments: str, tests: str = "") -> subprocess.CompletedProcess[str]:
    if tests:
        (folder / "test_it.py").write_text(SAMPLE + tests, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "localjudge.pytest_plugin",
        "-p",
        "no:cacheprovider",
    ]
    outside = {
        name: value for name, value in os.environ.items() if name != "CI"
    }  # which makes summaries longer
    environment = {
        **outside,
        "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "COLUMNS": "200",
    }
    return subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_assertions_pass_and_fail_with_their_statements(folder: Path) -> None:
    """1 of 2 sentences: .5 passes at .5. Expected is (.9 + .2) / 2 = .55.

    At least .8 fails with the unsupported one, at most .2 with the supported one.
    """
    tests = """
def test_passes(assert_score):
    assert assert_score(S, "faithfulness", at_least=0.5) == 0.5

def test_expected(assert_score):
    assert round(assert_score(S, "faithfulness", at_least=0.54, expected=True), 9) == 0.55

def test_too_low(assert_score):
    assert_score(S, "faithfulness", at_least=0.8)

def test_too_high(assert_score):
    assert_score(S, "faithfulness", at_most=0.2)

def test_undefined(assert_score):
    assert_score({**S, "response": None}, "faithfulness", at_least=0.1)

def test_gates(assert_gates):
    run = assert_gates([{**S, "id": str(n)} for n in range(3)], "faithfulness>=0.1")
    assert run.summary.metrics["faithfulness"].mean == 0.5

def test_until(assert_gates):
    rows = [{**S, "id": str(n)} for n in range(200)]
    run = assert_gates(rows, until="faithfulness>=0.4")
    assert 5 < run.summary.samples < 200
    assert run.summary.stopped.startswith(f"after {run.summary.samples} of 200 samples")

def test_missed_gate(assert_gates):
    assert_gates([{**S, "id": str(n)} for n in range(3)], ["faithfulness>=0.6"], undecided="pass")
    assert_gates([{**S, "id": str(n)} for n in range(3)], ["faithfulness>=0.9"])
"""
    done = session(folder, "--localjudge-out", "left", tests=tests)
    assert "4 failed, 4 passed" in done.stdout, done.stdout
    both = "a: faithfulness 1/2 = 0.500, expected 0.550"
    for line in (
        f"{both}, not in 0.8 to 1\n  0 0.200 It is \\x1b[31mred.\n",
        f"{both}, not in 0 to 0.2\n  1 0.900 It rains.\n",
        ": faithfulness undefined: response is null, not in 0.1 to 1",
        "faithfulness>=0.9: fail, 0.500, 95 % interval 0.148 to 0.852",
        "\n  run left/data-4\n",
        "localjudge show left/asserted-1",
    ):
        assert line in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stdout.count("  1 0.900 It rains.") == 1, "a missed >= shows what was called 0"
    run = localjudge.Run.open(folder / "left" / "asserted-1")
    assert [row.score for row in run.scores] == [0.5, None]
    assert run.manifest.environment.as_json["answers"]["asked"] == 0
    assert len(list((folder / "left").glob("data-*"))) == 4


def test_each_folder_may_have_a_judge_of_its_own(folder: Path) -> None:
    """The folder "strict" calls nothing supported, the folder "generous" everything."""
    tests = """
def test_score(assert_score):
    assert assert_score(S, "faithfulness") == {score}

def test_gates(assert_gates):
    run = assert_gates([{{**S, "id": str(n)}} for n in range(3)], metrics=["faithfulness"])
    assert run["faithfulness"].mean == {score}
"""
    fixture = CONFTEST[: CONFTEST.index("    engine =")]
    for name, probability in {"strict": 0.1, "generous": 0.9}.items():
        (folder / name).mkdir()
        engine = f"    engine = localjudge.ScriptedEngine({{}}, default={probability})\n"
        opening = CONFTEST[CONFTEST.index("    with ") :]
        (folder / name / "conftest.py").write_text(fixture + engine + opening, encoding="utf-8")
        test = SAMPLE + tests.format(score=round(probability))
        (folder / name / f"test_{name}.py").write_text(test, encoding="utf-8")
    done = session(folder, "--localjudge-out", "")
    assert "4 passed" in done.stdout, done.stdout


def test_runs_are_not_written_through_a_link(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A repository could link `runs` to any folder."""
    outside = tmp_path_factory.mktemp("outside")
    (folder / "runs").symlink_to(outside)
    done = session(folder, tests=PASSING)
    assert (done.returncode, list(outside.iterdir())) == (1, [])
    assert "runs is a link" in done.stdout


def test_no_run_directory_without_the_option(folder: Path) -> None:
    assert session(folder, "--localjudge-out", "", tests=PASSING).returncode == 0
    assert not (folder / "runs").exists()


def test_a_typo_fails_only_its_own_test(folder: Path) -> None:
    """The traceback ends at the line of the test."""
    tests = """
def test_typo(assert_score):
    assert_score(S, "faithfulnes", at_least=0.5)

def test_gate(assert_gates):
    assert_gates([S], "faithfulnes>=0.5")

def test_list(assert_score):
    assert_score([S], "faithfulness")

def test_other(assert_score):
    assert_score(S, "faithfulness", at_most=0.9)
"""
    done = session(folder, "--localjudge-out", "left", tests=PASSING + tests)
    assert "3 failed, 2 passed in" in done.stdout, done.stdout
    assert "InputError: assert_score takes one sample" in done.stdout
    assert '>       assert_score(S, "faithfulnes", at_least=0.5)\n' in done.stdout
    assert re.search("InputError: no metric .*'faithfulnes'", done.stdout)
    assert ".py:" not in done.stdout.replace("test_it.py:", ""), done.stdout
    assert localjudge.Run.open(folder / "left" / "asserted-1").summary.samples == 1


@pytest.mark.parametrize("scope", ["function", "session"])
def test_a_user_s_own_fixture_called_judge_does_not_collide(folder: Path, scope: str) -> None:
    own = f"""
@pytest.fixture(scope="{scope}")
def judge():
    return "a person"
"""
    with (folder / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(own)
    done = session(
        folder,
        tests="def test_it(assert_score, judge):\n    assert judge == 'a person'\n"
        "    assert_score(S, 'faithfulness', at_least=0.5)\n",
    )
    assert done.returncode == 0, done.stdout


def test_the_suite_of_the_root_reads_below_it_only(tmp_path: Path) -> None:
    """Because the user did not name it."""
    (tmp_path / "words.txt").write_text("Geheimrat\n", encoding="utf-8")
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "localjudge.toml").write_text('abbreviations = "../words.txt"\n', encoding="utf-8")
    (folder / "test_it.py").write_text("def test_it(localjudge_judge): pass\n", encoding="utf-8")
    done = session(folder, "--rootdir", str(folder))
    assert "outside the configuration file's folder" in done.stdout, done.stdout
    assert "config.py:" not in done.stdout, done.stdout


def test_each_xdist_worker_writes_a_run(folder: Path) -> None:
    for name in ("one", "two"):
        (folder / f"test_{name}.py").write_text(SAMPLE + PASSING, encoding="utf-8")
    done = session(
        folder, "-p", "xdist", "-n", "2", "--dist", "loadfile", "--localjudge-out", "left"
    )
    assert done.returncode == 0, done.stdout
    runs = sorted((folder / "left").iterdir())
    assert [run.name for run in runs] == ["gw0", "gw1"]
    assert sum(localjudge.Run.open(run / "asserted-1").summary.samples for run in runs) == 2


def test_an_unused_plugin_imports_and_writes_nothing(tmp_path: Path) -> None:
    """pydantic, NumPy and the model library take time to import."""
    test = """
import sys

def test_nothing_is_loaded():
    ours = [name for name in sys.modules if name.startswith("localjudge")]
    assert sorted(ours) == ["localjudge", "localjudge.pytest_plugin"]
    assert not {"pydantic", "numpy", "spacy", "llama_cpp"} & set(sys.modules)
"""
    done = session(tmp_path, tests=test)
    assert done.returncode == 0, done.stdout
    assert "localjudge" not in done.stdout
    assert {path.name for path in tmp_path.iterdir()} <= {"test_it.py", "__pycache__"}
