import io
from collections.abc import Callable, Iterable

import pytest

from localjudge.report.terminal import Bar, Lines, progress_on


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


Event = tuple[float, Callable[[Lines], None]]
"""Time, and the progress call."""


def answers(times: Iterable[float]) -> list[Event]:
    return [(time, Lines.advance) for time in times]


def expects(count: int, at: float = 0) -> Event:
    return at, lambda lines: lines.expect(count)


def rows(done: int, at: float) -> Event:
    return at, lambda lines: lines.rows("checking", done, 50_000)


LOGS: dict[str, tuple[list[Event], list[str]]] = {
    "after 10, 30 and 70 seconds": (
        [expects(100), *answers(range(1, 101))],
        [
            "10 of 100 answers, 1.0 a second, 0:01:30 left",
            "30 of 100 answers, 1.0 a second, 0:01:10 left",
            "70 of 100 answers, 1.0 a second, 0:00:30 left",
        ],
    ),
    "in phases: 4 of 4 and 6 of 16": (
        [
            expects(4),
            (0, lambda lines: lines.phase("plain cases")),
            *answers(range(1, 5)),
            (4, Lines.pause),
            (4, lambda lines: lines.phase("injections")),
            expects(16, at=4),
            *answers(range(5, 11)),
        ],
        ["injections: 10 of 20 answers, 1.0 a second, 0:00:10 left"],
    ),
    "rows for 25 s, then verdicts from their own beginning": (
        [
            *(rows(1_000 * (second + 1), second) for second in range(26)),
            expects(20, at=25),
            *answers(range(26, 37)),
        ],
        ["checking: 11,000 of 50,000 rows", "10 of 20 answers, 1.0 a second, 0:00:10 left"],
    ),
    "a self-test for 35 s, then verdicts from their own beginning": (
        [
            *(
                (second, lambda lines, second=second: lines.elapsed("self-test", second, 130))
                for second in range(36)
            ),
            expects(20, at=36),
            *answers(range(37, 48)),
        ],
        [
            "self-test: 10 s of about 2 minutes",
            "self-test: 30 s of about 2 minutes",
            "10 of 20 answers, 1.0 a second, 0:00:10 left",
        ],
    ),
    "574 are expected by the first of two blocks, and 360 are asked": (
        [
            (0, lambda lines: lines.expect(574, counted=False)),
            *answers(range(1, 20)),
            expects(-214, at=20),
            *answers(range(20, 40)),
        ],
        [
            "10 of about 570 answers, 1.0 a second, 0:09:24 left",
            "30 of 360 answers, 1.0 a second, 0:05:30 left",
        ],
    ),
    "90 of 100 were there; 5 more took 10 s": (
        [expects(100), (0, lambda lines: lines.recall(90)), *answers(range(2, 12, 2))],
        ["95 of 100 answers, 2.0 s each, 0:00:10 left"],
    ),
}


@pytest.mark.parametrize("name", LOGS)
def test_a_log_gets_occasional_lines_with_rate_and_time_left(name: str) -> None:
    now = [0.0]
    stream = io.StringIO()
    lines = Lines(stream, clock=lambda: now[0])
    events, expected = LOGS[name]
    for now[0], event in events:
        event(lines)
    assert stream.getvalue().splitlines() == expected


def draw_after(bar: Bar, stream: Terminal, event: Callable[[], None]) -> str:
    before = len(stream.getvalue())
    event()
    bar._live.refresh()
    return stream.getvalue()[before:]


def test_a_bar_counts_rows_then_verdicts_and_pauses() -> None:
    """Rows without their number, then with it. During a pause the bar overwrites no output."""
    stream = Terminal()
    bar = Bar(stream)
    reading = draw_after(bar, stream, lambda: bar.rows("reading a\x1b[2J.jsonl", 1_000, None))
    assert "reading a\\x1b[2J.jsonl" in reading
    assert "1,000 rows" in reading
    assert "2,000 of 3,000 rows" in draw_after(
        bar, stream, lambda: bar.rows("checking", 2_000, 3_000)
    )
    judging = draw_after(bar, stream, lambda: bar.expect(15))
    assert "0 of 15 answers" in judging
    assert "rows" not in judging
    assert "plain cases" in draw_after(bar, stream, lambda: bar.phase("plain cases"))
    bar.advance()
    bar.pause()
    before = len(stream.getvalue())
    bar._live.console.print("a finding")
    assert stream.getvalue()[before:] == "a finding\n"
    later = draw_after(bar, stream, lambda: bar.phase("injections"))
    bar.close()
    assert "injections" in later
    assert "1 of 15 answers" in later


def test_user_text_in_a_note_cannot_act_on_the_terminal() -> None:
    for stream in (Terminal(), io.StringIO()):
        progress_on(stream).note("column \x1b[2J [bold]")
        assert "column \\x1b[2J [bold]" in stream.getvalue()


def test_the_state_of_gates_is_below_the_bar_until_it_changes() -> None:
    stream = Terminal()
    bar = Bar(stream)
    bar.expect(15)
    drawn = draw_after(bar, stream, lambda: bar.standing("faithfulness>=0.8 [bold]\x1b[2J"))
    lines = drawn.splitlines()
    assert "0 of 15 answers" in lines[-2]
    assert "faithfulness>=0.8 [bold]\\x1b[2J" in lines[-1]
    assert "hit_rate@3" in draw_after(bar, stream, lambda: bar.standing("hit_rate@3<0.2"))
    bar.close()


def test_the_bar_of_an_unknown_number_of_rows_is_not_full() -> None:
    """A file of 1,000 rows that is being read has no total yet."""
    bar = Bar(Terminal())
    bar.rows("reading", 1_000, None)
    [task] = bar._bar.tasks
    assert (task.completed, task.total, task.finished) == (1_000, None, False)
    bar.rows("checking", 2_000, 3_000)
    assert (task.completed, task.total) == (2_000, 3_000)
    bar.close()
