"""Comparisons, gates and verifications as people see them."""

import io
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from localjudge import Run, ScriptedEngine, check, evaluate
from localjudge.analysis.check import GateDecision, decide_gates, parse_gate, signed
from localjudge.analysis.compare import compare
from localjudge.record.result_rows import ScoreRow
from localjudge.report.checks import verification_view
from localjudge.report.ci import run_markdown
from localjudge.report.html_page import overview
from localjudge.report.tables import comparison_view, gates_view, worst_scores
from localjudge.run.verify import verify_run as verify
from tests.conftest import ScriptedRun
from tests.doctor.test_judgement import users_text

EVIL = "It \x1b[2J\x1b]0;owned\x07 rains. [bold red]Not[/] \u202etxet :smile:."


def printed(view: RenderableType) -> str:
    stream = io.StringIO()
    Console(file=stream, width=100, markup=False, emoji=False, highlight=False, color_system=None).print(view)
    return stream.getvalue()


def row(name: str, *sentences: str) -> dict[str, Any]:
    return {"id": name, "reference": " ".join(sentences), "retrieved_contexts": ["A context."]}


@pytest.fixture(scope="session")
def evil_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """Two runs on text and ids that would like to act on the terminal, with other verdicts."""
    rows = [{"id": "=evil\x1b[2J", "user_input": EVIL, "retrieved_contexts": [EVIL], "reference": EVIL}]
    out = tmp_path_factory.mktemp("evil")
    return (
        evaluate(rows, engine=ScriptedEngine({}, default=0.1), out=out / "old\x1b[2J"),
        evaluate(rows, engine=ScriptedEngine({}, default=0.9), out=out / "new\x1b[2J"),
    )


EVERY_VIEW: dict[str, Callable[[Run, Run], RenderableType]] = {
    "comparison": lambda old, new: comparison_view(compare(old, new)),
    "verification": lambda old, new: verification_view(verify(old, engine=ScriptedEngine({}, default=0.9))),
}


@pytest.mark.parametrize("name", EVERY_VIEW)
def test_no_view_lets_user_text_act_on_the_terminal(evil_runs: tuple[Run, Run], name: str) -> None:
    text = printed(EVERY_VIEW[name](*evil_runs)).replace("\n", "")
    assert not [character for character in text if unicodedata.category(character) in {"Cc", "Cs"}]
    assert "\u202e" not in text
    assert "\\x1b" in text


def lines_of(view: RenderableType) -> list[str]:
    return [line.strip() for line in printed(view).splitlines()]


def test_a_comparison_shows_scores_counts_and_what_can_be_told(scripted_run: ScriptedRun) -> None:
    """Two of three improve by 1/2; 1/2, 1/2, 1 before and 1, 1, 1 after; nothing can be told from three."""
    rows = [row("a", "A one.", "A two."), row("b", "B one.", "B two."), row("c", "C.")]
    old = scripted_run("old", rows, {"A one.": 0.0, "B two.": 0.0})
    lines = lines_of(comparison_view(compare(old, scripted_run("new", rows, {}))))
    first, second, *_ = [line.split() for line in lines if line.startswith("context_recall ")]
    assert first[:4] == ["context_recall", "0.667", "1.000", "+0.333"]
    assert second == ["context_recall", "2", "0", "1", "0", "2", "0"]
    assert "context_recall: not significant; with 3 samples, no difference can be detected" in lines
    assert "samples: 3 paired (3 by id), 3 of them with the same content" in lines
    assert "A and B: judge scripted" in lines
    assert next(line for line in lines if "signature" in line).startswith(f"A: signature {old.summary.signature}, run")


def one_each(count: int) -> list[dict[str, Any]]:
    return [row(str(number), f"Sentence {number}.") for number in range(count)]


@pytest.mark.parametrize(("swap", "word"), [(False, "better"), (True, "worse")])
def test_a_difference_that_can_be_told_is_said_in_words(scripted_run: ScriptedRun, swap: bool, word: str) -> None:
    """Twenty of twenty verdicts flip: p = 2 / 2^20."""
    rows = one_each(20)
    runs = [scripted_run("none", rows, {f"Sentence {number}.": 0.0 for number in range(20)})]
    runs.append(scripted_run("all", rows, {}))
    lines = lines_of(comparison_view(compare(*(runs[::-1] if swap else runs))))
    assert f"context_recall: B is {word} than A on samples like these" in lines
    assert "context_recall: one verdict a sample: McNemar's test gives p = 1.91e-06" in lines


def test_what_so_many_samples_could_have_shown_is_said(scripted_run: ScriptedRun) -> None:
    run = scripted_run("run", one_each(100), {})
    scores = compare(run, run).metrics["context_recall"].scores
    assert scores is not None
    expected = f"with 100 samples, differences of {scores.smallest_detectable:.3f} or more can be detected"
    assert f"context_recall: not significant; {expected}" in lines_of(comparison_view(compare(run, run)))


def test_samples_without_a_partner_are_said_wherever_two_runs_are_compared(scripted_run: ScriptedRun) -> None:
    """In the terminal, as JSON, as Markdown and in the report."""
    old, new = scripted_run("old", one_each(3), {}), scripted_run("new", one_each(2), {})
    found = check(new, baseline=old)
    assert found.comparison is not None
    warning = (
        "1 of 3 samples of A and 0 of 2 of B have no partner; means are of the 2 pairs; "
        "all of A: context_recall 1.000; all of B: context_recall 1.000"
    )
    assert f"warning: {warning}" in " ".join(lines_of(comparison_view(found.comparison)))
    assert warning in found.comparison.model_dump_json()
    assert f"warning: {warning}\n" in run_markdown(new, found)
    assert f"warning: {warning}" in overview(new, found)["comparison"]["notes"]


def test_moved_samples_show_the_units_that_moved(scripted_run: ScriptedRun) -> None:
    rows = [row("a", "A one.", "A two.")]
    old, new = scripted_run("old", rows, {"A one.": 0.25}), scripted_run("new", [{**rows[0], "id": "b"}], {})
    assert lines_of(comparison_view(compare(old, new)))[-2:] == [
        "b (in A: a): context_recall 0.500 -> 1.000",
        "0 -> 1  0.250 -> 1.000  A one.",
    ]


def test_a_sample_with_many_moved_units_shows_some(scripted_run: ScriptedRun) -> None:
    sentences = [f"This is {letter * 3} word." for letter in "abcdefghijkl"]
    rows = [row("a", *sentences)]
    old = scripted_run("old", rows, dict.fromkeys(sentences, 0.0))
    lines = lines_of(comparison_view(compare(old, scripted_run("new", rows, {}))))
    assert len([line for line in lines if "word." in line]) == 10
    assert "and 2 more" in lines


@pytest.mark.parametrize(
    ("value", "shown"), [(0.125, "+0.125"), (-0.02, "-0.020"), (0.0, "0.000"), (-0.0001, "0.000"), (1e-9, "0.000")]
)
def test_a_difference_has_a_sign_unless_it_is_nothing(value: float, shown: str) -> None:
    assert signed(value) == shown


def test_gates_are_shown_with_their_reasons(scripted_run: ScriptedRun) -> None:
    run = scripted_run("run", one_each(20), {})
    gates = [parse_gate(text) for text in ("context_recall>=0.8", "context_recall>=0.9", "context_recall<0.5")]
    lines = lines_of(gates_view(decide_gates(gates, run)))
    assert lines[2].split(maxsplit=2) == [
        "pass",
        "context_recall>=0.8",
        "1.000, 95 % interval 0.832 to 1.000, 20 samples",
    ]
    assert [line.split()[0] for line in lines if "context_recall" in line] == ["pass", "undecided", "fail"]
    assert "(counts as failed)" in " ".join(lines)


def test_a_gate_cannot_act_on_the_terminal() -> None:
    """Metrics of other packages may have any name."""
    decision = GateDecision(
        gate="\x1b[2J>=0.5",
        metric="\x1b[2J",
        outcome="pass",
        kept=True,
        value=1.0,
        ci95=(0.9, 1.0),
        samples=1,
        samples_needed=None,
        reason="\x07",
    )
    assert "\\x1b[2J>=0.5" in printed(gates_view([decision]))
    assert "\\x07" in printed(gates_view([decision]))


def test_a_verified_run_is_said_in_four_lines(scripted_run: ScriptedRun) -> None:
    run = scripted_run("run", one_each(2), {})
    assert lines_of(verification_view(verify(run, engine=ScriptedEngine({}, default=1.0)))) == [
        "bit-identical: 2 of 2 stored answers asked for again, every bit the same",
        "judge scripted",
        "data, requests and result files are as the run left them",
        f"signature {run.summary.signature}",
    ]


class OtherProcessor(ScriptedEngine):
    """Rounds otherwise, and says that it is another kind."""

    @property
    def identity(self) -> dict[str, Any]:
        """As the scripted engine of the runs here, on another processor."""
        return {**ScriptedEngine({}, default=1.0).identity, "system": "CPU : NEON = 1"}


def test_on_another_processor_bytes_are_not_promised(scripted_run: ScriptedRun) -> None:
    """One of two verdicts moves."""
    run = scripted_run("run", one_each(2), {})
    found = verify(run, engine=OtherProcessor({"Sentence 1.": 0.25}, default=1.0))
    text = " ".join(lines_of(verification_view(found)))
    assert text.startswith("not verified: 2 of 2 stored answers asked for again, 1 the same; 1 of 2 verdicts")
    assert "bytes are promised per kind of processor, not across; 1 of 2 verdicts moved" in text
    assert "changed since: engine.system: None then, CPU : NEON = 1 now" in text
    assert "1 -> 0  1.000000 -> 0.250000  1 context_recall 0: Sentence 1." in text


def test_what_was_changed_by_hand_is_said(scripted_run: ScriptedRun, tmp_path: Path) -> None:
    run = scripted_run("run", one_each(2), {})
    summary = tmp_path / "run" / "summary.json"
    summary.write_text(summary.read_text().replace('"mean": 1.0', '"mean": 0.9'))
    text = " ".join(lines_of(verification_view(verify(run, engine=ScriptedEngine({}, default=1.0)))))
    assert text.startswith(
        "not verified: the judge repeats all 2 answers, but summary.json was changed (metrics.context_recall.mean)"
    )


def test_where_lower_is_better_a_fall_is_an_improvement(tmp_path: Path) -> None:
    """One of two sentences is noise before, none after: 1/2 -> 0 in each of twenty samples."""

    def run(response: str) -> Run:
        rows = [
            {
                "id": str(number),
                "retrieved_contexts": [f"A {number}."],
                "reference": f"So {number}.",
                "response": response,
            }
            for number in range(20)
        ]
        engine = ScriptedEngine(lambda request: 0.1 if {"Wrong.", "So"} <= set(users_text(request).split()) else 0.9)
        return evaluate(rows, engine=engine, metrics=["noise_sensitivity"], out=tmp_path / response)

    lines = lines_of(comparison_view(compare(run("Right. Wrong."), run("Right. Right."))))
    first, second, *_ = [line.split() for line in lines if line.startswith("noise_sensitivity ")]
    assert first[:4] == ["noise_sensitivity", "0.500", "0.000", "-0.500"]
    assert second[:4] == ["noise_sensitivity", "20", "0", "0"]
    assert "noise_sensitivity: B is better than A on samples like these" in lines


def test_where_lower_is_better_the_highest_scores_are_looked_at_first() -> None:
    rows = [ScoreRow(str(value), "noise_sensitivity", "scored", value, None, None, None) for value in (0.0, 0.9, 0.4)]
    assert [row.score for row in worst_scores(rows, ["noise_sensitivity"], 5)] == [0.9, 0.4]
