"""What a run tells while it runs."""

import io

import pytest

from localjudge.progress import Silence
from localjudge.report.terminal import Bar, Lines, progress_on


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """It does."""
        return True


def test_a_log_gets_a_line_now_and_then_with_rate_and_time_left() -> None:
    """One answer a second, 100 expected: lines after 10, 30, 70 seconds. At 10 of 100, 90 are left at 1 a second."""
    seconds = iter(range(1000))
    now = [0.0]
    stream = io.StringIO()
    lines = Lines(stream, clock=lambda: now[0])
    lines.expect(100)
    for second in seconds:
        if second == 100:
            break
        now[0] = second + 1.0
        lines.advance()
    assert stream.getvalue().splitlines() == [
        "10 of 100 verdicts, 1.0 a second, 0:01:30 left",
        "30 of 100 verdicts, 1.0 a second, 0:01:10 left",
        "70 of 100 verdicts, 1.0 a second, 0:00:30 left",
    ]


def test_the_time_of_a_log_runs_from_the_first_question_that_is_expected() -> None:
    """The model was loaded for 100 s; then 10 answers took 20 s: 2.0 s each, and 10 more take 20 s."""
    now = [0.0]
    stream = io.StringIO()
    lines = Lines(stream, clock=lambda: now[0])
    now[0] = 100.0
    lines.expect(20)
    for answered in range(10):
        now[0] = 102.0 + 2 * answered
        lines.advance()
    assert stream.getvalue().splitlines() == ["5 of 20 verdicts, 2.0 s each, 0:00:30 left"]


def test_a_line_names_the_phase_and_the_whole_work() -> None:
    """Of 4 + 96 expected, 80 are taken back; after 10 s, 10 of 20 are answered."""
    now = [0.0]
    stream = io.StringIO()
    lines = Lines(stream, clock=lambda: now[0])
    lines.expect(100)
    lines.phase("plain cases")
    lines.pause()
    lines.phase("injections")
    lines.expect(-80)
    for answered in range(10):
        now[0] = answered + 1.0
        lines.advance()
    assert stream.getvalue().splitlines() == ["injections: 10 of 20 verdicts, 1.0 a second, 0:00:10 left"]


@pytest.mark.parametrize(("answered", "pace"), [(1, "4.0 s each"), (8, "2.0 a second")])
def test_a_slow_judge_has_seconds_for_each_verdict_not_a_rate_of_nothing(
    monkeypatch: pytest.MonkeyPatch, answered: int, pace: str
) -> None:
    """4 s for one verdict, or for 8 of them."""
    now = [0.0]
    monkeypatch.setattr("localjudge.report.terminal.time.monotonic", lambda: now[0])
    stream = Terminal()
    bar = Bar(stream)
    bar.expect(10)
    now[0] = 4.0
    for _ in range(answered):
        bar.advance()
    bar._progress.refresh()
    bar.close()
    assert pace in stream.getvalue()


def test_a_bar_is_labelled_with_its_phase_and_leaves_the_terminal_in_a_pause() -> None:
    """What others print in between is not drawn over: the bar comes back with the next phase, and knows its count."""
    stream = Terminal()
    bar = Bar(stream)
    bar.expect(20)
    bar.phase("plain cases")
    bar.advance()
    bar.pause()
    before = len(stream.getvalue())
    bar._progress.console.print("a finding")
    assert stream.getvalue()[before:] == "a finding\n"
    bar.phase("injections")
    bar.expect(-5)
    bar._progress.refresh()
    shown = stream.getvalue()[before:]
    bar.close()
    assert "plain cases" in stream.getvalue()[:before]
    assert "injections" in shown
    assert "1 of 15 verdicts" in shown


def test_a_bar_counts_rows_before_there_are_questions() -> None:
    """First without their number, then with it; the first question takes the bar over."""
    stream = Terminal()
    bar = Bar(stream)
    told = []
    for rows in [("reading a\x1b[2J.jsonl", 1_000, None), ("checking", 2_000, 3_000)]:
        before = len(stream.getvalue())
        bar.rows(*rows)
        bar._progress.refresh()
        told.append(stream.getvalue()[before:])
    bar.expect(7)
    bar._progress.refresh()
    told.append(stream.getvalue()[sum(map(len, told)) :])
    bar.close()
    assert "reading a\\x1b[2J.jsonl" in told[0]
    assert "1,000 rows" in told[0]
    assert "checking" in told[1]
    assert "2,000 of 3,000 rows" in told[1]
    assert "0 of 7 verdicts" in told[2]
    assert "rows" not in told[2]


def test_a_log_counts_rows_and_then_verdicts_each_from_their_own_beginning() -> None:
    """Rows for 25 s: lines after 10 and, twice that later, not yet; verdicts from then on: a line after 10 s."""
    now = [0.0]
    stream = io.StringIO()
    lines = Lines(stream, clock=lambda: now[0])
    for second in range(26):
        now[0] = float(second)
        lines.rows("checking", 1_000 * (second + 1), 50_000)
    lines.expect(20)
    for second in range(26, 37):
        now[0] = float(second)
        lines.advance()
    assert stream.getvalue().splitlines() == [
        "checking: 11,000 of 50,000 rows",
        "10 of 20 verdicts, 1.0 a second, 0:00:10 left",
    ]


def test_answers_of_earlier_are_done_and_in_no_rate() -> None:
    """90 of 100 were there; 5 more took 10 s: 2 s each, and the last 5 take 10 s."""
    now = [0.0]
    stream = io.StringIO()
    lines = Lines(stream, clock=lambda: now[0])
    lines.expect(100)
    lines.recall(90)
    for answered in range(5):
        now[0] = 2.0 * (answered + 1)
        lines.advance()
    assert stream.getvalue().splitlines() == ["95 of 100 verdicts, 2.0 s each, 0:00:10 left"]


def test_a_terminal_gets_a_bar_a_log_gets_lines_and_quiet_gets_nothing() -> None:
    assert isinstance(progress_on(Terminal()), Bar)
    assert isinstance(progress_on(io.StringIO()), Lines)
    assert isinstance(progress_on(Terminal(), quiet=True), Silence)


def test_user_text_in_a_note_cannot_act_on_the_terminal() -> None:
    for stream in (Terminal(), io.StringIO()):
        progress_on(stream).note("column \x1b[2J [bold]")
        assert "column \\x1b[2J [bold]" in stream.getvalue()
