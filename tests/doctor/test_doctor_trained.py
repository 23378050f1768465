import json
from pathlib import Path
from typing import Any

import pytest
import random_model

from tests.cli.conftest import called, config_here
from tests.judge.trained_templates import CHATML

pytestmark = pytest.mark.engine

SHAPE = random_model.Shape(width=32, heads=2, kv_heads=1, feed_forward=32, context=8192)


def test_a_trained_judge_gets_only_its_own_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """10 of the 16 plain cases are statements. Random weights guess, so attempts are skipped."""
    monkeypatch.chdir(tmp_path)
    tokenizer = random_model.byte_vocabulary()
    model = random_model.write(
        tmp_path / "model.gguf", tokenizer, shape=SHAPE, chat_template=CHATML
    )
    house = tmp_path / "house"
    (house / "special").mkdir(parents=True)
    (house / "profile.toml").write_text('description = "refusals"\nchat = true')
    (house / "special" / "refusal.toml").write_text(
        'grammar = "refused"\n[[node]]\ntext = "Refused? {unit}"'
    )

    def plain_cases(profile: str | Path) -> dict[str, Any]:
        config_here(profile=str(profile))
        arguments = ("--judge", model, "--injections", "2", "--threads", "1", "--json")
        _, diagnosis, _ = called(capfd, "doctor", *arguments)
        checks: dict[str, dict[str, Any]] = {}
        for check in json.loads(diagnosis)["checks"]:
            checks[check["name"]] = check
        return checks["plain cases"]

    assert plain_cases("minicheck")["figures"]["cases"] == 10
    of_refusals = plain_cases(house)
    assert of_refusals["status"] == "warning"
    assert of_refusals["finding"].startswith("none: this judge")
