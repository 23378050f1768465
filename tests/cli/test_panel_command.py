"""Several judges by the command: the bundled one, and one of random weights."""

import csv
import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import random_model

from localjudge.engine import hardware
from tests.cli.conftest import called

ROWS = [
    {"id": "eiffel", "retrieved_contexts": ["It opened in 1889."], "reference": "It opened in 1889. It is in Paris."},
    {"id": "mars", "retrieved_contexts": ["The king lives."], "reference": "Mars is red."},
]
FILES = ("scores.jsonl", "verdicts.jsonl", "summary.json")
JUDGES = ("--judge", "reference", "--judge", "random.gguf")
RUN = ("run", "data.jsonl", "--metrics", "context_recall", "--threads", "1", "--min-legal-mass", "0")
# Kills itself, as nobody can catch, when it has stored so many answers.
KILLED = """
import os, signal, sys
from localjudge.cli.main import main
from localjudge.record.store import Store

left = int(sys.argv[1])
add_answer = Store.add_answer

def add_and_die(*arguments):
    global left
    add_answer(*arguments)
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

Store.add_answer = add_and_die
main(sys.argv[2:])
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose verdicts mean nothing."""
    path = tmp_path_factory.mktemp("model") / "random.gguf"
    random_model.write(path, random_model.byte_vocabulary())
    return path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data.jsonl").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    Path("random.gguf").hardlink_to(model)


def done(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command prints that ends well."""
    code, output, errors = called(capfd, *arguments)
    assert code == 0, errors
    return output


def test_every_command_works_with_a_panel(capfd: pytest.CaptureFixture[str]) -> None:
    said = done(capfd, *RUN, *JUDGES, "--out", "run", "--report")
    assert "random, " in " ".join(said.split())
    assert "+ reference (lexical, not for decisions), 10.7 MiB, sha256 4844085b4a92" in " ".join(said.split())
    assert "bit-identical: 6 of 6" in done(capfd, "verify", "run", "--quiet")
    shown = json.loads(done(capfd, "show", "run", "eiffel", "--json"))
    assert [card["name"] for card in shown["judge"]["panel"]] == ["random", "reference"]
    assert [list(row["judges"]) for row in shown["verdicts"]] == [["random", "reference"]] * 2
    prompts = done(capfd, "show", "run", "eiffel", "--prompts")
    assert prompts.count("of 4 (random)") == prompts.count("of 4 (reference)") == 2
    table = list(csv.DictReader(io.StringIO(done(capfd, "export", "run", "--as", "csv", "--rows", "verdicts"))))
    assert [float(row["p_yes of reference"]) for row in table] == [
        json.loads(line)["judges"]["reference"] for line in Path("run/verdicts.jsonl").read_text().splitlines()
    ]
    page = Path("run/report.html").read_text(encoding="utf-8")
    assert "judged by <strong><bdi>random + reference</bdi></strong>" in page
    assert "mean log odds" in page
    assert "0 verdicts" in called(capfd, "rescore", "run", "--threshold", "0.3", "--out", "again")[2]
    assert "the judges differ" not in done(capfd, "compare", "run", "run")
    taken = json.loads(done(capfd, *RUN, *JUDGES, "--dry-run", "--json"))
    assert set(taken["by_judge"]) == {"random", "reference"}
    assert "random" in done(capfd, *RUN, *JUDGES, "--dry-run")


def test_killed_and_begun_again_with_the_judges_the_other_way_round(capfd: pytest.CaptureFixture[str]) -> None:
    """After the second answer of six, which is of the first judge, and after the fifth, of the second."""
    done(capfd, *RUN, *JUDGES, "--out", "whole")
    for judges, left in ((JUDGES, 2), ((*JUDGES[2:], *JUDGES[:2]), 3)):
        process = subprocess.run([sys.executable, "-c", KILLED, str(left), *RUN, *judges, "--out", "run"], check=False)
        assert process.returncode == -9
    hint = called(capfd, "show", "run")[2].splitlines()[-1]
    words = shlex.split(hint.removeprefix("  hint: go on with it: "))
    assert words[:6] == ["localjudge", "run", "--judge", os.path.abspath("random.gguf"), "--judge", "reference"]
    assert "asked 1 verdict in" in called(capfd, *words[1:])[2]
    for name in FILES:
        assert Path("run", name).read_bytes() == Path("whole", name).read_bytes()


def test_judges_that_do_not_fit_together_are_refused_with_the_numbers(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each alone would fit into 30 MiB."""
    monkeypatch.setattr(hardware, "available_bytes", lambda: 30 << 20)
    code, _, errors = called(capfd, *RUN, *JUDGES)
    assert code == 4
    assert "the judges of the panel do not fit into memory together: they need about" in errors
    assert "and 30 MiB are free" in errors
    assert "leave one out" in errors


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--judge", "reference", "--judge", "reference"), "a judge of the panel is named twice"),
        ((*JUDGES, "--reasons", "before"), "reference, a judge of the panel: the prompt profile"),
        ((*JUDGES, "--protocol", "joint"), "reference, a judge of the panel: the prompt profile"),
        ((*JUDGES, "--criterion", "formal_register"), "the judge reference cannot be asked what formal_register asks"),
    ],
)
def test_what_one_judge_cannot_be_asked_none_is(
    capfd: pytest.CaptureFixture[str], options: tuple[str, ...], said: str
) -> None:
    """A verdict of those who can would be another panel's, without saying so."""
    Path("data.jsonl").write_text(json.dumps({**ROWS[0], "user_input": "When?", "response": "1889."}))
    code, _, errors = called(capfd, *RUN, *options)
    assert code == 1
    assert said in errors
    assert not Path("runs").exists()
