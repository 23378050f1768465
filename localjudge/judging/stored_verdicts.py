"""Verdicts from stored answers: of a single judge, or of a jury by all of its judges.

answers of a judge about the windows of a unit ──> its verdict ──┐
...                                                              ├──combination──> the jury's
answers of another judge                       ──> its verdict ──┘
"""

from collections.abc import Iterable, Mapping, Sequence

from localjudge.judging.questions import TaskRef
from localjudge.judging.verdicts import decide_label, decide_verdict
from localjudge.run_directory.jury import combine
from localjudge.run_directory.store_reader import AskedUnit, AskedWindow
from localjudge.types import Answer, NoAnswer, Verdict, VerdictRule

StoredAnswers = Mapping[AskedUnit, Sequence[AskedWindow]]
"""Windows of each unit with their answers so far, by judge."""
NOT_YET = NoAnswer(error="a judge has not answered yet")
"""Verdict of a unit with a missing answer."""


def jury_verdict(
    parts: Mapping[str, Verdict | NoAnswer], rule: VerdictRule, metric: str
) -> Verdict | NoAnswer:
    """Return the jury's verdict from its judges' verdicts by name.

    There is no answer if one of them has none.
    """
    verdicts: dict[str, Verdict] = {}
    probabilities: dict[str, float] = {}
    for name in sorted(parts):
        part = parts[name]
        if part is NOT_YET:
            return NOT_YET
        if isinstance(part, NoAnswer):
            return NoAnswer(error=f"{name}: {part.error}", valid_mass=part.valid_mass)
        if part.p_yes is None:
            return part
        verdicts[name] = part
        probabilities[name] = part.p_yes
    masses: list[float] = []
    reasons: list[str] = []
    for name, verdict in verdicts.items():
        if verdict.valid_mass is not None:
            masses.append(verdict.valid_mass)
        if verdict.reason:
            reasons.append(f"{name}: {verdict.reason}")
    p_yes = combine(probabilities, rule.combinations[metric])
    return Verdict(
        label=decide_label(p_yes, rule.for_metric(metric)),
        p_yes=p_yes,
        valid_mass=min(masses),
        reason="; ".join(reasons) or None,
        window=_common_window(verdicts.values()),
        judges=probabilities,
    )


def _common_window(verdicts: Iterable[Verdict]) -> int | None:
    """Return the window that decided for all judges with windows, or None if they differ."""
    windows = {verdict.window for verdict in verdicts if verdict.window is not None}
    if len(windows) != 1:
        return None
    return windows.pop()


def stored_verdict(
    task: TaskRef,
    names: Sequence[str],
    answers: StoredAnswers,
    unasked: Mapping[AskedUnit, Verdict | NoAnswer],
    rule: VerdictRule,
) -> Verdict | NoAnswer:
    """Return the verdict of a jury, or of a single judge without `names`, from stored answers.

    `unasked` has the verdicts of judges without a question.
    """
    if not names:
        return _judge_verdict(task, 0, answers, unasked, rule)
    parts: dict[str, Verdict | NoAnswer] = {}
    for place in find_judges_for(task.metric, names, rule):
        verdict = _judge_verdict(task, place, answers, unasked, rule)
        if verdict is NOT_YET:
            return NOT_YET
        parts[names[place]] = verdict
    return jury_verdict(parts, rule, task.metric)


def find_judges_for(metric: str, names: Sequence[str], rule: VerdictRule) -> list[int]:
    """Return the numbers of the judges that take part in a metric: in a jury, those with a weight.

    Without `names`, it is the single judge.
    """
    if not names:
        return [0]
    weights = rule.combinations[metric].weights
    return [place for place, name in enumerate(names) if name in weights]


def _judge_verdict(
    task: TaskRef,
    place: int,
    answers: StoredAnswers,
    unasked: Mapping[AskedUnit, Verdict | NoAnswer],
    rule: VerdictRule,
) -> Verdict | NoAnswer:
    """Return the verdict of one judge from its answers about the windows of a unit."""
    unit = task.asked(place)
    if unit in unasked:
        return unasked[unit]
    windows: list[tuple[Answer | NoAnswer, int | None]] = []
    for window in answers.get(unit, ()):
        if window.answer is None:
            return NOT_YET
        windows.append((window.answer, window.number))
    if not windows:
        return NOT_YET
    return decide_verdict(windows, rule.for_metric(task.metric))


def select_tasks(tasks: Sequence[TaskRef], name: str, rule: VerdictRule) -> list[TaskRef]:
    """Return the tasks of the metrics for which a judge has a weight."""
    return [task for task in tasks if name in rule.combinations[task.metric].weights]
