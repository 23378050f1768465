"""Grammars with a reason are derived, and are what they were when each was a file of its own."""

import json
from pathlib import Path
from typing import Any

import pytest

from localjudge.errors import InputError
from localjudge.judge import profile as grammars
from localjudge.judge.wording import PromptWriter, Reasons

GOLDEN = json.loads(Path(__file__).with_name("expanded_grammars.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("expanded", GOLDEN["grammars"], ids=lambda expanded: expanded["name"])
def test_a_grammar_with_a_reason_is_the_one_that_was_a_file(expanded: dict[str, Any]) -> None:
    """Text and expression as they were when each was a file of its own, with the order of the keys."""
    assert grammars.load_grammar(expanded["name"]).json_schema == json.dumps(expanded["schema"])
    assert grammars.load_grammar(expanded["name"]).pattern == expanded["pattern"]


@pytest.mark.parametrize("reasons", ["none", "before", "after"])
def test_the_hashes_of_grammars_in_manifests_stay_what_they_are(reasons: Reasons) -> None:
    """Another hash is another judge: its stored answers would not be found again."""
    identity = PromptWriter(grammars.load_profile("instruct"), reasons=reasons).identity
    assert identity["grammars_sha256"] == GOLDEN["grammars_sha256"][reasons]


@pytest.mark.parametrize("name", ["reason_classifications", "reason_attributed_reason", "reason_"])
def test_what_is_not_a_grammar_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"grammars/{name}.json that belongs to localjudge is missing"):
        grammars.load_grammar(name)
