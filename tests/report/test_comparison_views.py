import re
from pathlib import Path

import pytest
from command_line import printed_lines

from localjudge import Run, ScriptedEngine, evaluate
from localjudge.report.verification_views import verification_view
from tests.conftest import OneJudge, ScriptedRun
from tests.doctor.scripted_judges import users_text
from tests.judging.test_verify import Another
from tests.report.conftest import one_each, row


def test_a_comparison_shows_scores_counts_and_conclusion(scripted_run: ScriptedRun) -> None:
    """Two of three improve by 1/2: 1/2, 1/2, 1 before, 1, 1, 1 after; three are too few."""
    rows = [row("a", "A one.", "A two."), row("b", "B one.", "B two."), row("c", "C.")]
    old = scripted_run("old", rows, {"A one.": 0.0, "B two.": 0.0})
    lines = printed_lines("compare", old, scripted_run("new", rows, {}))
    first, second, *_ = [line.split() for line in lines if line.startswith("context_recall ")]
    assert first[:4] == ["context_recall", "0.667", "1.000", "+0.333"]
    assert second == ["context_recall", "2", "0", "1", "0", "2", "0"]
    assert (
        "context_recall: not significant; with 3 samples, no difference can be detected"
        in " ".join(lines)
    )
    assert any(line.startswith("samples: 3 paired (3 by id), 3 with") for line in lines)
    assert lines.count("judge scripted") == 1


@pytest.mark.parametrize(("swap", "word"), [(False, "better"), (True, "worse")])
def test_a_significant_difference_is_stated_in_words(
    scripted_run: ScriptedRun, swap: bool, word: str
) -> None:
    wrong = {f"Sentence {number}.": 0.0 for number in range(20)}
    runs = [scripted_run("none", one_each(20), wrong), scripted_run("all", one_each(20), {})]
    lines = printed_lines("compare", *(runs[::-1] if swap else runs))
    assert any(line.startswith(f"context_recall: B is {word} than A") for line in lines)


def test_no_run_is_called_better_with_different_judges(scripted_run: ScriptedRun) -> None:
    """Another judge raises all twenty probabilities; "B is better" appeared next to a warning."""
    runs: list[Run] = []
    for p_yes, threshold in ((0.6, 0.7), (0.9, 0.5)):
        script = {f"Sentence {number}.": p_yes for number in range(20)}
        runs.append(scripted_run(f"t{p_yes}", one_each(20), script, threshold=threshold))
    lines = printed_lines("compare", *runs, width=200)
    assert [line for line in lines if "but the judges differ" in line]
    assert not [line for line in lines if "better than" in line]


def test_no_run_is_called_better_with_different_questions(scripted_run: ScriptedRun) -> None:
    other = {f"Wrong {number}.": 0.0 for number in range(20)}
    rows = [row(str(number), f"Wrong {number}.") for number in range(20)]
    runs = [scripted_run("none", rows, other), scripted_run("all", one_each(20), {})]
    lines = printed_lines("compare", *runs, width=200)
    assert [line for line in lines if "questions or references differ" in line]
    assert not [line for line in lines if "better than" in line]


def test_changed_samples_show_at_most_ten_changed_units(scripted_run: ScriptedRun) -> None:
    rows = [row("a", "A one.", "A two.")]
    old = scripted_run("old", rows, {"A one.": 0.25})
    new = scripted_run("new", [{**rows[0], "id": "b"}], {})
    lines = printed_lines("compare", old, new)
    changed = lines.index("b (in A: a): context_recall 1.000, was 0.500")
    assert lines[changed : changed + 2] == [
        "b (in A: a): context_recall 1.000, was 0.500",
        "1, was 0  1.000, was 0.250  A one.",
    ]
    sentences = [f"This is {letter * 3} word." for letter in "abcdefghijkl"]
    many = [row("a", *sentences)]
    old = scripted_run("none", many, dict.fromkeys(sentences, 0.0))
    new = scripted_run("all", many, {})
    lines = printed_lines("compare", old, new)
    assert len([line for line in lines if "word." in line]) == 10
    assert "and 2 more" in lines


def test_a_fall_is_an_improvement_where_lower_is_better(tmp_path: Path) -> None:
    """One of two sentences is noise before, none after: 1/2 -> 0 in each of twenty samples.

    Expected: a sentence by a relevant context .9 x .9 = .81; wrong .9 x .81, right .1 x .81. Before
    (.729 + .081) / 2 = .405, after .081.
    """

    def run(response: str) -> Run:
        rows = [
            {
                "id": name,
                "retrieved_contexts": [f"A {name}."],
                "reference": f"So {name}.",
                "response": response,
            }
            for name in map(str, range(20))
        ]
        engine = ScriptedEngine(
            lambda request: 0.1 if {"Wrong.", "So"} <= set(users_text(request).split()) else 0.9,
        )
        return evaluate(rows, engine=engine, metrics=["noise_sensitivity"], out=tmp_path / response)

    lines = printed_lines("compare", run("Right. Wrong."), run("Right. Right."))
    first, second, *_ = [line.split() for line in lines if line.startswith("noise_sensitivity ")]
    assert first[:4] == ["noise_sensitivity", "0.405", "0.081", "-0.324"]
    counted = next(line.split() for line in lines if line.startswith("counted"))
    assert counted[:4] == ["counted", "0.500", "0.000", "-0.500"]
    assert second[:4] == ["noise_sensitivity", "20", "0", "0"]
    assert any(line.startswith("noise_sensitivity: B is better") for line in lines)


def test_gates_are_shown_with_their_reasons(scripted_run: ScriptedRun) -> None:
    run = scripted_run("run", one_each(20), {})
    gates = []
    for condition in (">=0.8", ">=0.9", "<0.5"):
        gates += ["--gate", f"context_recall{condition}"]
    _, _, first, *others = printed_lines("report", run, *gates)
    assert first.split(maxsplit=2) == [
        "pass",
        "context_recall>=0.8",
        "1.000, 95 % interval 0.832 to 1.000, 20 samples",
    ]
    assert [line.split()[0] for line in others if "context_recall" in line] == ["undecided", "fail"]
    assert "(counts as failed)" in " ".join(others)


def test_verify_expects_no_identical_bytes_on_another_processor(scripted_run: ScriptedRun) -> None:
    engine = Another(
        {"Sentence 1.": 0.25}, ScriptedEngine({}, default=1.0), system="CPU : NEON = 1"
    )
    found = scripted_run("run", one_each(2), {}).verify(engine=engine)
    assert (found.result, found.other_machine) == ("different", True)
    text = " ".join(map(str, verification_view(found).notes))
    assert re.search("^not verified: 2 of 2 .* 1 the same; 1 of 2 verdicts changed", text)
    assert "this machine's processor differs" in text


def test_a_verified_run_is_reported_in_a_few_lines(scripted_run: ScriptedRun) -> None:
    run = scripted_run("run", one_each(2), {})
    found = run.verify(engine=OneJudge({}, default=1.0))
    assert list(map(str, verification_view(found).notes)) == [
        "bit-identical: 2 of 2 stored answers repeated, every bit the same",
        "judge scripted",
        "data, requests and result files are unchanged",
        "labels: none",
        "report.html: none in the run directory",
    ]
