import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import random_model

import localjudge
from localjudge.engine import memory
from localjudge.engine.llamacpp.engine import LlamaCppEngine
from localjudge.judging.job import open_job
from localjudge.judging.plan import plan
from localjudge.judging.settings import checked
from localjudge.types import Answer, NoAnswer, VerdictRequest
from tests.cli.conftest import Call, called

pytestmark = pytest.mark.engine

OF_THE_MACHINE = ["packages", "gpu"]
OF_THE_PROBES = ["attribution", "relevance", "answers", "sensitivity", "order"]
ROWS = [{"user_input": "Rain?", "retrieved_contexts": ["It rains."], "response": "It rains."}]
OF_THE_MODEL = ["model", "memory", "prompts"]


def doctor(call: Call, *arguments: str | Path) -> tuple[object, str, str]:
    return call("doctor", *arguments, "--threads", "1")


def diagnosed(call: Call, *arguments: str | Path) -> tuple[object, dict[str, Any], list[str]]:
    """Return exit code, checks by name, and the names of skipped checks."""
    code, output, errors = doctor(call, *arguments, "--json", "--quiet")
    report = json.loads(output)
    assert (errors, report["schema_version"], report["result"] == "failed") == ("", 1, code == 1)
    return code, {check["name"]: check for check in report["checks"]}, report["not_made"]


@pytest.fixture(scope="module")
def random_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "random.gguf"
    shape = random_model.Shape(context=4096)
    random_model.write(
        path,
        random_model.piece_vocabulary(),
        shape=shape,
        chat_template=random_model.CHAT_TEMPLATE,
    )
    return path


def test_the_bundled_judge_passes_but_is_not_recommended(call: Call) -> None:
    """It counts shared words, and the items defeat that, so the doctor warns."""
    code, checks, not_made = diagnosed(call, "--probes", "120")
    assert (code, not_made) == (0, [])
    asked = [
        "repeatability",
        "plain cases",
        "probes",
        *OF_THE_PROBES,
        "injections",
        "speed",
        "admission",
    ]
    assert list(checks) == [*OF_THE_MACHINE, *OF_THE_MODEL, *asked]
    told = {name for name, check in checks.items() if check["status"] != "ok"}
    assert {"attribution", "relevance", "answers", "admission"} <= told
    assert told <= {*OF_THE_PROBES, "admission"}
    uses = checks["admission"]["figures"]["uses"]
    assert uses == {"attribution": [], "relevance": [], "answers": []}
    of_answers = checks["answers"]["figures"]
    assert (of_answers["questions"], of_answers["items"], of_answers["pairs"]) == (12, 24, 12)
    assert of_answers["auc"]["low"] < 0.5
    assert "no better than guessing" in checks["answers"]["finding"]
    assert checks["probes"]["figures"]["items"] == 120
    assert 0.3 < checks["attribution"]["figures"]["auc"]["value"] < 0.7
    assert checks["order"]["figures"]["order_flip_rate"] == 0
    assert checks["speed"]["figures"]["tokens_per_second"] > 0


def test_the_table_fits_a_terminal_and_counts_the_findings(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, output, errors = doctor(call, "--injections", "0", "--probes", "120", "--quiet")
    lines = output.rstrip().splitlines()
    assert (code, errors) == (0, "")
    assert max(map(len, lines)) <= 80
    counts, skipped = map(str.strip, lines[-5:-3])
    assert re.fullmatch(r"(?:9|10) ok, [45] warnings, 0 failed", counts)
    assert skipped == "skipped: injections"


def test_the_duration_of_a_slow_examination_is_printed_first(call: Call) -> None:
    errors = doctor(call, "--injections", "0")[2]
    assert errors.startswith(
        "a slow judge takes about 8 minutes, including 5 for probes (--probes N)\n"
    )
    assert "minutes" not in doctor(call, "--injections", "0", "--probes", "0")[2]


def test_a_missed_requirement_is_exit_code_1(tmp_path: Path, call: Call) -> None:
    """Every later run with the judge repeats it until the next examination."""
    code, checks, not_made = diagnosed(
        call, "--injections", "0", "--probes", "120", "--require", "ranking"
    )
    assert (code, not_made) == (1, ["injections"])
    assert [name for name, check in checks.items() if check["status"] == "failed"] == ["admission"]
    assert "localjudge label" in checks["admission"]["advice"]
    _, output, _ = call(
        "run", "--demo", "--metrics", "context_recall", "--out", tmp_path, "--json", "--quiet"
    )
    assert (
        json.loads(output)["judge"]["examined"]
        == "not recommended for: ranking, means, thresholds (doctor, 120 items)"
    )


def test_the_recommended_uses_of_a_judge_are_shown_with_its_runs(
    tmp_path: Path, call: Call
) -> None:
    """Also of a judge that reads only what is near, which is part of who it is."""
    diagnosed(call, "--judge", "reader", "--injections", "0", "--probes", "120")
    command = ["run", "--demo", "--metrics", "context_recall", "--judge", "reader"]
    _, output, _ = call(*command, "--out", tmp_path, "--json", "--quiet")
    examined = json.loads(output)["judge"]["examined"]
    assert examined.startswith("recommended for: ranking")
    assert "not attribution (doctor, " in examined


def test_random_weights_fail(random_gguf: Path, call: Call) -> None:
    """Injection attempts are skipped, as the results would be noise."""
    code, checks, not_made = diagnosed(call, "--judge", random_gguf)
    assert (code, not_made) == (1, ["probes", "injections"])
    assert checks["plain cases"]["status"] == "failed"
    assert checks["plain cases"]["figures"]["min_valid_mass"] < 0.1
    assert checks["plain cases"]["figures"]["right"] < 12
    assert checks["speed"]["figures"]["verdicts"] == 16
    assert checks["prompts"]["figures"] == {"prompts": 955, "changed": 0, "refused": 0}
    assert (checks["admission"]["status"], checks["repeatability"]["status"]) == ("failed", "ok")


@pytest.mark.parametrize(
    ("problem", "name", "finding", "skipped"),
    [
        ("missing", "model", "no judge is called", "memory"),
        ("truncated", "model", "cut.gguf", "memory"),
        ("template", "prompts", "no users here", "repeatability"),
        ("memory", "memory", "0 MiB are free", "model"),
    ],
)
def test_a_judge_that_cannot_be_used_is_a_failed_check(
    random_gguf: Path,
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
    problem: str,
    name: str,
    finding: str,
    skipped: str,
) -> None:
    judge = Path("cut.gguf") if problem == "truncated" else random_gguf
    if problem == "missing":
        judge = Path("no-such-judge")
    elif problem == "truncated":
        judge.write_bytes(random_gguf.read_bytes()[:100_000])
    elif problem == "template":
        template = '{{ raise_exception("no users here") }}'
        judge = random_model.write(
            Path("refusing.gguf"), random_model.byte_vocabulary(), chat_template=template
        )
    else:
        monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    code, checks, not_made = diagnosed(call, "--judge", judge)
    assert (code, checks[name]["status"], not_made[0]) == (1, "failed", skipped)
    assert finding in checks[name]["finding"]


def test_findings_are_printed_at_once(
    random_gguf: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    answers = LlamaCppEngine.answers

    def watched(
        self: LlamaCppEngine, requests: Sequence[VerdictRequest]
    ) -> Iterator[tuple[int, Answer | NoAnswer]]:
        shown.append(capfd.readouterr().out)
        return answers(self, requests)

    monkeypatch.setattr(LlamaCppEngine, "answers", watched)
    shown.append(called(capfd, "doctor", "--judge", random_gguf, "--threads", "1", "--quiet")[1])
    name = re.compile(r"^ (?:ok|warning|failed) +(\w+(?: \w+)?)  ", re.MULTILINE)
    assert name.findall(shown[0]) == [*OF_THE_MACHINE, *OF_THE_MODEL]
    assert name.findall(shown[-1]) == ["plain cases", "speed", "admission"]


@pytest.mark.parametrize("number", ["some", "-1", "1.5", ""])
def test_an_impossible_number_of_items_is_a_usage_error(number: str, call: Call) -> None:
    code, output, errors = doctor(call, "--probes", number)
    assert (code, output) == (1, "")
    assert f"or all, got {number!r}" in errors


def test_a_jury_is_examined_and_its_runs_carry_the_finding(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both judges, and what they say together; with other weights, nothing is known."""
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))
    options = ("--injections", "0", "--probes", "120", "--threads", "1", "--json", "--quiet")
    code, output, _ = call("doctor", "--judge", "bundled", *options)
    report = json.loads(output)
    assert (code, report["judge"]) == (0, "bundled")
    assert report["not_made"] == ["reader: injections", "lexical: injections"]
    judges = dict.fromkeys(check["judge"] for check in report["checks"])
    assert list(judges) == ["", "reader", "lexical", "bundled"]
    of_jury = {check["name"]: check for check in report["checks"] if check["judge"] == "bundled"}
    assert set(of_jury) == {"probes", *OF_THE_PROBES, "admission"}
    assert of_jury["probes"]["figures"]["answered"] == 120
    uses = of_jury["admission"]["figures"]["uses"]
    assert set(uses) == {"attribution", "relevance", "answers"}
    by_the_reader = ("answer_relevancy", "context_relevancy_chunk")
    for metric in ("faithfulness", "context_relevancy", *by_the_reader):
        run = localjudge.evaluate(
            ROWS, judge="bundled", metrics=metric, out=tmp_path / metric, progress=False
        )
        assert "120 items" in str(run.judge.examined)
    settings = checked({}).model_copy(update={"weights": {"reader": 1.0, "lexical": 1.0}})
    with open_job(
        plan(ROWS, "faithfulness", settings), judge="bundled", out=tmp_path / "other"
    ) as job:
        assert "120 items" not in str(job.run().judge.examined)
