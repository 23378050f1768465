"""`localjudge doctor`, with the bundled judge, random models and files that are none."""

import json
from pathlib import Path
from typing import Any

import pytest
import random_model

from localjudge.cli.main import main
from localjudge.engine.llamacpp.engine import LlamaCppEngine

OF_THE_MACHINE = ["packages", "memory", "state folder", "processor", "gpu"]
OF_THE_JUDGE = ["model file", "model", "model memory", "shared prompts", "chat template", "prompts", "answers"]


def called(capfd: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[object, str, str]:
    """Exit code, output and errors."""
    with pytest.raises(SystemExit) as ended:
        main(["doctor", *map(str, arguments), "--threads", "1"])
    return ended.value.code, *capfd.readouterr()


def diagnosed(capfd: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[object, dict[str, Any], list[str]]:
    """Exit code, checks by name, and the names of those that were not made."""
    code, output, errors = called(capfd, *arguments, "--json", "--quiet")
    found = json.loads(output)
    assert errors == ""
    assert (found["schema_version"], found["result"] == "failed") == (1, code == 1)
    return code, {check["name"]: check for check in found["checks"]}, found["not_made"]


@pytest.fixture(scope="module")
def random_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights behind a chat template, with room for all statements of a sample at once."""
    path = tmp_path_factory.mktemp("model") / "random.gguf"
    shape = random_model.Shape(context=4096)
    random_model.write(path, random_model.piece_vocabulary(), shape=shape, chat_template=random_model.CHAT_TEMPLATE)
    return path


def test_the_bundled_judge_is_well(capfd: pytest.CaptureFixture[str]) -> None:
    code, checks, not_made = diagnosed(capfd)
    assert (code, not_made) == (0, [])
    assert {check["status"] for check in checks.values()} == {"ok"}
    assert list(checks) == [
        *OF_THE_MACHINE,
        *OF_THE_JUDGE,
        "asked again",
        "plain cases",
        "injections",
        "speed",
        "network",
    ]
    assert checks["answers"]["figures"]["grammars"] == ["attributed", "relevant", "useful"]
    assert checks["speed"]["figures"]["tokens_per_second"] > 0


def test_the_table_fits_a_terminal_and_counts_what_it_found(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, output, errors = called(capfd, "--skip-injections", "--quiet")
    lines = output.rstrip().splitlines()
    assert (code, errors) == (0, "")
    assert max(map(len, lines)) <= 80
    assert [line.strip() for line in lines[-2:]] == ["16 ok, 0 warnings, 0 failed", "not made: injections"]


def test_random_weights_do_not_answer_and_that_is_a_warning(
    random_gguf: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Two of the tokens carry a verdict; a model that has learnt nothing gives them what it gives to any."""
    code, checks, not_made = diagnosed(capfd, "--judge", random_gguf)
    assert (code, not_made) == (0, [])
    for way in ("answers", "reasons before", "reasons after", "joint answers"):
        assert checks[way]["status"] == "warning"
        assert checks[way]["figures"]["legal"] == checks[way]["figures"]["asked"]
        assert checks[way]["figures"]["least_legal_mass"] < 0.1
    assert checks["plain cases"]["status"] == "warning"
    assert checks["prompts"]["found"] == "the tokens of 248 prompts decode to their exact text"
    assert checks["asked again"]["status"] == "ok"
    assert "holds the whole prompt of the profile 'instruct' once" in checks["chat template"]["found"]
    assert "pinned nowhere" in checks["model file"]["found"]


def test_a_file_that_was_cut_off_fails_in_words_and_stops_there(
    random_gguf: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(random_gguf.read_bytes()[:100_000])
    code, checks, not_made = diagnosed(capfd, "--judge", cut)
    assert (code, checks["model"]["status"], checks["model"]["advice"]) == (
        1,
        "failed",
        "download or copy the model again",
    )
    assert f"{cut} is cut off: it has 100,000 bytes" in checks["model"]["found"]
    assert list(checks) == [*OF_THE_MACHINE, "model file", "model", "network"]
    assert "answers" in not_made


def test_a_judge_that_is_not_there_is_a_failed_check(capfd: pytest.CaptureFixture[str]) -> None:
    code, output, _ = called(capfd, "--judge", "no-such-judge", "--quiet")
    assert code == 1
    assert "no judge is called 'no-such-judge'" in " ".join(output.split())


def test_a_template_that_refuses_every_message_is_a_failed_check(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "refusing.gguf"
    template = '{{ raise_exception("no users here") }}'
    random_model.write(path, random_model.byte_vocabulary(), chat_template=template)
    code, checks, not_made = diagnosed(capfd, "--judge", path)
    assert (code, checks["chat template"]["status"]) == (1, "failed")
    assert "no users here" in checks["chat template"]["found"]
    assert not_made[0] == "prompts"


def test_a_window_that_holds_no_prompt_is_a_failed_check(random_gguf: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, checks, not_made = diagnosed(capfd, "--judge", random_gguf, "--n-ctx", "64")
    assert (code, checks["model"]["status"], checks["answers"]["status"]) == (1, "warning", "failed")
    assert not_made == ["asked again", "plain cases", "injections", "speed"]


def test_tokens_that_decode_to_another_text_are_a_failed_check(
    random_gguf: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LlamaCppEngine, "read_back", lambda _engine, _request: "something else")
    code, checks, _ = diagnosed(capfd, "--judge", random_gguf)
    assert (code, checks["prompts"]["status"]) == (1, "failed")


def test_a_wording_that_is_none_is_a_failed_check(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Found out before the model is loaded."""
    wording = tmp_path / "own.toml"
    wording.write_text("not a wording")
    code, checks, not_made = diagnosed(capfd, "--prompt", wording)
    assert (code, checks["prompts"]["status"]) == (1, "failed")
    assert str(wording) in checks["prompts"]["found"]
    assert not_made[0] == "model"


def test_an_option_that_cannot_be_is_a_usage_error(capfd: pytest.CaptureFixture[str]) -> None:
    code, output, errors = called(capfd, "--n-ctx", "5")
    assert (code, output) == (1, "")
    assert "n_ctx = 5" in errors
