"""What a run tells while it runs."""

import io

from localjudge.run.progress import Bar, Lines, Silence, progress_on


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


def test_a_terminal_gets_a_bar() -> None:
    assert isinstance(progress_on(Terminal()), Bar)


def test_a_bar_shows_count_and_rate() -> None:
    stream = Terminal()
    bar = Bar(stream)
    bar.expect(1204)
    bar.advance()
    bar._progress.refresh()
    bar.close()
    assert "1/1,204 verdicts" in stream.getvalue()


def test_a_log_gets_lines_and_quiet_gets_nothing() -> None:
    assert isinstance(progress_on(io.StringIO()), Lines)
    assert isinstance(progress_on(Terminal(), quiet=True), Silence)


def test_user_text_in_a_note_cannot_act_on_the_terminal() -> None:
    for stream in (Terminal(), io.StringIO()):
        progress_on(stream).note("column \x1b[2J [bold]")
        assert "column \\x1b[2J [bold]" in stream.getvalue()
