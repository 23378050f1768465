"""How a judge asks for reasons, and who cannot be asked."""

import pytest

from localjudge.errors import InputError
from localjudge.judge import profile as prompts
from localjudge.judge.wording import PromptWriter, Reasons
from localjudge.types import Task
from tests.judge.test_prompts import special_tasks, tasks

TASKS = (*tasks("It is 8 m."), *special_tasks("It is 8 m.")[:2])


def judge(reasons: Reasons) -> PromptWriter:
    return PromptWriter(prompts.load_profile("instruct"), reasons=reasons)


@pytest.mark.parametrize("task", TASKS)
def test_a_reason_after_the_verdict_changes_no_word_of_the_prompt_and_one_before_is_announced(task: Task) -> None:
    """The verdict of `after` is that of `none`: same path, same grammar, and an explanation behind."""
    plain, explained, before = (judge(reasons).request(task) for reasons in ("none", "after", "before"))
    assert explained._replace(explanation=None) == plain
    assert explained.explanation is not None
    assert '{"reason":"...","' in before.path[0][0].text
    assert before.grammar.pattern.startswith(r'(\{"reason":"')
    assert before.explanation is None


def test_reasons_and_the_protocol_are_part_of_the_identity() -> None:
    """Order matters to a verdict, and a joint one depends on its siblings: four ways of asking are four judges."""
    joint = PromptWriter(prompts.load_profile("instruct"), protocol="joint").identity
    assert (joint["protocol"], judge("none").identity["protocol"]) == ("joint", "independent")
    identities = [judge(reasons).identity for reasons in ("none", "before", "after")]
    assert [identity["reasons"] for identity in identities] == ["none", "before", "after"]
    assert identities[0]["grammars_sha256"] != identities[1]["grammars_sha256"]


@pytest.mark.parametrize("reasons", ["before", "after"])
def test_the_reference_judge_cannot_give_reasons(reasons: Reasons) -> None:
    """It reads no instructions: an error before any work, naming the way out."""
    with pytest.raises(InputError, match="'reference' cannot give reasons") as caught:
        PromptWriter(prompts.load_profile("reference"), reasons=reasons)
    assert "judge=..." in (caught.value.hint or "")
