"""Outputs fit terminals of 80 to 200 columns: words whole, no blanks at the ends of lines, with colour or without."""

import io
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console, RenderableType

from localjudge import Run, ScriptedEngine, compare, evaluate, verify
from localjudge.analysis.check import decide_gates, parse_gate
from localjudge.record.manifest import ReliabilityFigure
from localjudge.report.checks import verification_view
from localjudge.report.label_tables import reliability_plot
from localjudge.report.sample import sample_view, verdicts_view
from localjudge.report.tables import comparison_view, gates_view, summary_view, worst_view
from localjudge.report.terminal import Table, drawn

WIDTHS = (80, 200)
METRICS = ["context_recall", "context_relevancy_chunk", "matrix_recall", "noise_sensitivity"]
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """Two runs with other verdicts, on texts of many words."""
    rows = [
        {
            "id": f"sample-with-a-rather-long-id-{number}",
            "user_input": "Which of the bridges across the river was built first, and by whom was it paid for?",
            "retrieved_contexts": [f"Bridge {number} was built by the guild of the millers.", "The river is wide."],
            "reference": f"The first bridge, number {number}, was paid for by the guild. It stood for 300 years.",
            "response": "The millers paid for it. Nobody knows when, though many have tried to find it out since then.",
        }
        for number in range(3)
    ]
    out = tmp_path_factory.mktemp("runs")
    engines = [ScriptedEngine({}, default=0.3), ScriptedEngine({}, default=0.7)]
    before, after = (
        evaluate(rows, engine=engine, metrics=METRICS, out=out / name)
        for name, engine in zip(("before", "after"), engines, strict=True)
    )
    return before, after


VIEWS: dict[str, Callable[[Run, Run], RenderableType]] = {
    "summary": lambda before, after: summary_view(before),
    "verdicts": lambda before, after: verdicts_view(before),
    "sample": lambda before, after: sample_view(before, "2"),
    "comparison": lambda before, after: comparison_view(compare(before, after)),
    "gates": lambda before, after: gates_view(
        decide_gates([parse_gate("context_relevancy_chunk>=0.8"), parse_gate("context_recall>=0.1")], before)
    ),
    "verification": lambda before, after: verification_view(verify(before, engine=ScriptedEngine({}, default=0.7))),
}


def text_of(view: RenderableType, width: int, *, colour: bool) -> str:
    console = Console(
        file=io.StringIO(),
        width=width,
        markup=False,
        highlight=False,
        force_terminal=colour,
        color_system="standard" if colour else None,
    )
    text = drawn(view, console)
    assert colour == bool(_COLOUR.search(text))
    return _COLOUR.sub("", text)


def words_of(text: str) -> Counter[str]:
    """Every word, but for the rule under a heading, which is as long as the table is wide."""
    return Counter(word for word in text.split() if not word.startswith("─"))


@pytest.mark.parametrize("colour", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", VIEWS)
def test_lines_fit_have_no_blanks_at_their_ends_and_break_no_word(
    runs: tuple[Run, Run], name: str, width: int, colour: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words are those of a terminal on which nothing has to be broken."""
    monkeypatch.chdir(runs[0].directory.parent)
    before, after = (Run(Path(run.directory.name), run.summary, run.manifest) for run in runs)
    view = VIEWS[name](before, after)
    text = text_of(view, width, colour=colour)
    assert [line for line in text.splitlines() if cell_len(line) > width or line.endswith(" ")] == []
    assert words_of(text) == words_of(text_of(view, 1_000, colour=colour))


@pytest.mark.parametrize("width", WIDTHS)
def test_the_worst_samples_stand_once_each_with_their_question_on_one_line(runs: tuple[Run, Run], width: int) -> None:
    lines = text_of(worst_view(runs[0], count=10), width, colour=False).splitlines()
    assert [line for line in lines if cell_len(line) > width or line.endswith(" ")] == []
    assert len([line for line in lines if "Which of the" in line]) == 3
    assert len([line for line in lines if "sample-with-a-rather-lo…" in line]) == 3


def test_what_does_not_fit_is_folded() -> None:
    """One blank, the name of 10, two blanks and 5, two blanks and 5, one blank: 26 columns."""
    table = Table(("name", "first", "next"), [("ten_letter", "1", "12345")], ["a note"])
    assert text_of(table, 26, colour=False).splitlines() == [
        " name        first   next",
        " ────────────────────────",
        " ten_letter      1  12345",
        "",
        " a note",
    ]
    assert text_of(table, 22, colour=False).splitlines()[2:4] == [" ten_le      1  12345", " tter"]


def test_a_bin_of_a_reliabilityreliability_plot_stands_below_the_scale() -> None:
    """Its share of .2 is 6 of 30 columns from the 0."""
    share = ReliabilityFigure(low=0, high=1, mean_p=0.5, share=0.2, ci95=(0.1, 0.3), verdicts=9)
    scale, _, plot, *_ = text_of(reliability_plot((share,)), 80, colour=False).splitlines()
    assert plot.index("o") - scale.index("0") == 6
    assert plot.index("|") == scale.index("5")


@given(st.lists(st.text(), min_size=1, max_size=5), st.text())
def test_nothing_ends_in_blanks_whatever_is_shown(labels: list[str], text: str) -> None:
    lines = drawn(Table((), [[*labels, text]] * 2), Console(file=io.StringIO(), width=60)).split("\n")
    assert [line for line in lines if line.endswith(" ")] == []
