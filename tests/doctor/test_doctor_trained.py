"""The doctor and judges that were trained on a few questions: each is asked what it has words for, and nothing else."""

from pathlib import Path

import pytest
import random_model

from localjudge.doctor.examine import examine
from localjudge.doctor.health_check import HealthCheck
from tests.judge.trained_templates import CHATML

pytestmark = pytest.mark.engine

SHAPE = random_model.Shape(width=32, heads=2, kv_heads=1, feed_forward=32, context=8192)


@pytest.fixture
def model(tmp_path: Path) -> str:
    tokenizer = random_model.byte_vocabulary()
    return str(random_model.write(tmp_path / "model.gguf", tokenizer, shape=SHAPE, chat_template=CHATML))


def checks(model: str, profile: str) -> dict[str, HealthCheck]:
    diagnosis = examine(model, injections=2, profile=profile, threads=1)
    return {check.name: check for check in diagnosis.checks}


def test_a_judge_of_statements_is_asked_about_statements(model: str) -> None:
    """10 of the 16 plain cases; random weights guess, so that no attempt is made."""
    by_name = checks(model, "minicheck")
    assert by_name["chat template"].found.startswith("shows every part of the profile 'minicheck' once")
    assert by_name["plain cases"].figures["cases"] == 10


def test_a_judge_of_rubrics_is_asked_nothing_and_that_is_said(model: str) -> None:
    by_name = checks(model, "prometheus")
    assert by_name["plain cases"].status == "warning"
    assert by_name["plain cases"].found.startswith("none: this judge")
