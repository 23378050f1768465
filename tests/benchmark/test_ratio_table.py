"""The bench's table says what its figures are made of, whatever there is of it."""

from dataclasses import replace
from pathlib import Path

import pytest
from benchmark.table import markdown
from benchmark.turns import Measurement, Table

pytestmark = pytest.mark.engine

HOUSE = Table("house", "ab" * 32, 94, 2, "localjudge 1")
OURS = Measurement(HOUSE, "ours", "short", "a", "done", 2.0, 4, 311, verdicts=4)
SECOND = replace(OURS, sample="b", seconds=6.0)
JOINT = replace(OURS, way="joint", seconds=12.0, verdicts=2)
ENDLESS = replace(JOINT, sample="b", outcome="not done", seconds=108.0, verdicts=0)
DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_a_column_for_each_judge_and_both_contexts_in_a_cell() -> None:
    """Ours 2 s for 4 verdicts and 8 s for 4; the joint answer 12 s for 2, 6 / .5 = 12 times; none of the long ones."""
    large = replace(OURS, table=Table("large", "cd" * 32, 1066, 2, "localjudge 1"))
    long = replace(OURS, context="long", prompt_tokens=1642, seconds=8.0)
    assert markdown([large, OURS, JOINT, long, replace(ENDLESS, sample="a", context="long")]).splitlines() == [
        "| | house, 94 MiB | large, 1,066 MiB |",
        "|---|---|---|",
        "| ours, seconds a verdict | 0.50 / 2.00 | 0.50 / - |",
        "| one chat completion for all statements | x 12.0 / not done after 108 s | - |",
        "",
        "short contexts: prompts of 311 tokens, 1 sample of 4 statements; "
        "long contexts: prompts of 311 to 1,642 tokens, 1 sample of 4 statements; 2 threads, localjudge 1.",
    ]
    assert markdown([]) == ""
