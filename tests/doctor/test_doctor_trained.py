from pathlib import Path

import pytest
import random_model

from localjudge.doctor.examine import examine
from tests.judge.trained_templates import CHATML

pytestmark = pytest.mark.engine

SHAPE = random_model.Shape(width=32, heads=2, kv_heads=1, feed_forward=32, context=8192)


def test_a_trained_judge_gets_only_its_own_questions(tmp_path: Path) -> None:
    """10 of the 16 plain cases are statements. Random weights guess, so attempts are skipped."""
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
    minicheck, refusals = (
        {
            check.name: check
            for check in examine(str(model), injections=2, profile=profile, threads=1).checks
        }
        for profile in ("minicheck", str(house))
    )
    assert minicheck["plain cases"].figures["cases"] == 10
    assert refusals["plain cases"].status == "warning"
    assert refusals["plain cases"].finding.startswith("none: this judge")
