"""The number of expected questions while the judges of a jury take turns."""

from localjudge.judging.model_answers import ExpectedQuestions
from localjudge.progress import Progress


class Expected(Progress):
    """Progress that adds up the expected questions."""

    def __init__(self) -> None:
        self.total = 0
        self.is_counted = False

    def expect(self, count: int, *, counted: bool = True) -> None:
        self.total += count
        self.is_counted = counted


def test_later_judges_count_from_the_start() -> None:
    """Ten samples, the first two in a block: 2 / 0.2 = 10 for each of three judges."""
    expected = Expected()
    total = ExpectedQuestions()
    for later in (2, 1, 0):
        total.begin_judge()
        total.count_tasks(2, 2 * later)
        total.share = 0.2
        total.report(2, expected)
        assert expected.total == 30
        total.count_tasks(8, 8 * later)
        total.share = 1.0
        total.report(8, expected)
        assert (expected.total, expected.is_counted) == (30, later == 0)


def test_the_total_follows_a_judge_with_more_windows() -> None:
    """The first judge has 10 questions, so 10 are expected of the second, which has 30."""
    expected = Expected()
    total = ExpectedQuestions()
    total.begin_judge()
    total.count_tasks(10, 10)
    total.report(10, expected)
    assert expected.total == 20
    total.begin_judge()
    total.count_tasks(10, 0)
    total.report(30, expected)
    assert expected.total == 40


def test_a_judge_that_answers_some_tasks_counts_for_these() -> None:
    """The second judge answers 4 of 10 tasks, and the third none."""
    expected = Expected()
    total = ExpectedQuestions()
    total.begin_judge()
    total.count_tasks(10, 4 + 0)
    total.report(20, expected)
    assert expected.total == 28
    total.begin_judge()
    total.count_tasks(4, 0)
    total.report(8, expected)
    total.begin_judge()
    total.count_tasks(0, 0)
    total.report(0, expected)
    assert expected.total == 28


def test_batches_add_up() -> None:
    """Two batches of five questions for each of two judges."""
    expected = Expected()
    total = ExpectedQuestions()
    totals = []
    for _batch in range(2):
        for later in (1, 0):
            total.begin_judge()
            total.count_tasks(5, 5 * later)
            total.report(5, expected)
            totals.append(expected.total)
    assert totals == [10, 10, 20, 20]
