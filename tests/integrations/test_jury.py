"""Each adapter opens its judge with `open_judge`, which takes what `localjudge.evaluate` takes."""

import pytest

import localjudge
from localjudge import InputError
from localjudge.integrations.conversion import check_options, open_judge

ROW = {"id": "1", "response": "It is blue.", "retrieved_contexts": ["The river is blue."]}
JUDGES = ["lexical", "reader"]


@pytest.mark.engine
def test_a_list_of_judges_gives_the_verdict_of_a_run_by_both() -> None:
    check_options(JUDGES, {"threshold": 0.4})
    with open_judge(JUDGES, {"threshold": 0.4}) as jury:
        [evaluation] = jury.evaluations([ROW], ["faithfulness"])
    [verdict] = evaluation.verdicts
    run = localjudge.evaluate(
        [ROW], judge=JUDGES, metrics=["faithfulness"], threshold=0.4, out=False
    )
    [expected] = run.verdicts
    assert verdict.judges is not None
    assert set(verdict.judges) == set(JUDGES)
    assert (verdict.judges, verdict.p_yes, verdict.label) == (
        expected.judges,
        expected.p_yes,
        expected.label,
    )


@pytest.mark.engine
def test_the_same_judge_twice_is_refused() -> None:
    with pytest.raises(InputError):
        open_judge(["lexical", "lexical"], {})


def test_an_open_judge_stays_the_same(judge: localjudge.Judge) -> None:
    assert open_judge(judge, {}) is judge


def test_options_of_an_open_judge_are_refused(judge: localjudge.Judge) -> None:
    with pytest.raises(InputError):
        check_options(judge, {"threshold": 0.4})
