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
    assert "1 of 1 are valid;" in by_name["answers"].found
    assert by_name["plain cases"].figures["cases"] == 10


def test_a_judge_of_passages_is_not_talked_into_statements(model: str) -> None:
    by_name = checks(model, "qwen3-reranker")
    assert by_name["chat template"].found.startswith("none is used")
    assert "2 of 2 are valid;" in by_name["answers"].found
    assert by_name["plain cases"].figures["cases"] == 6
    assert "injections" not in by_name


def test_a_judge_of_rubrics_is_asked_nothing_and_that_is_said(model: str) -> None:
    by_name = checks(model, "prometheus")
    assert by_name["answers"].status == by_name["plain cases"].status == "warning"
    assert by_name["answers"].found.startswith("not looked at")
