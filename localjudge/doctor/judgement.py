"""Whether the judge answers, answers rightly where that is easy, stays with it, and cannot be talked out of it."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from localjudge.doctor import injection
from localjudge.doctor.check import Check, failed, ok, warning
from localjudge.doctor.plain_cases import plain_cases
from localjudge.engine.llamacpp.chat_template import ChatEnds
from localjudge.engine.protocol import Effort, Engine
from localjudge.errors import UsageError
from localjudge.judge import prompts
from localjudge.judge.judge import JudgingProtocol, PromptJudge, Reasons, require
from localjudge.judge.prompts import PromptProfile
from localjudge.run.answers import answers_in_order
from localjudge.run.ask import AskedTask
from localjudge.run.progress import Progress
from localjudge.types import Answer, Attribution, NoAnswer, Task, VerdictRequest

_MANNERS: tuple[tuple[str, str, Reasons, JudgingProtocol], ...] = (
    ("answers", "", "none", "independent"),
    ("reasons before", "--reasons before", "before", "independent"),
    ("reasons after", "--reasons after", "after", "independent"),
    ("joint answers", "--protocol joint", "none", "joint"),
)
_ENOUGH_MASS = 0.5
_THRESHOLD = 0.5
_ENOUGH_RIGHT = 0.8
"""Of 16 cases: 13. A coin gets so many right in 1 of 94 tries (697 of 65,536 sequences)."""
_NAMED = 3
_ANOTHER_JUDGE = "name a larger or better trained model (--judge)"


class Manner(NamedTuple):
    """One way of asking: the verdict alone, with a reason, or all statements at once."""

    name: str
    option: str
    """What `localjudge run` is told for it; "" for the verdict alone."""
    judge: PromptJudge
    joint: bool

    def requests(self, asked: Sequence[AskedTask]) -> list[VerdictRequest]:
        """One task of each kind; in a joint answer, all statements of the first sample."""
        if self.joint:
            first = [one.task for one in asked if one.sample_id == asked[0].sample_id]
            return self.judge.requests([task for task in first if isinstance(task, Attribution)])
        kinds: dict[str, Task] = {}
        for one in asked:
            kinds.setdefault(prompts.task_name(one.task), one.task)
        return self.judge.requests(list(kinds.values()))


def manners(profile: PromptProfile, ends: ChatEnds | None) -> Iterator[Manner]:
    """All that the profile can be asked for, the verdict alone first."""
    for name, option, reasons, protocol in _MANNERS:
        with suppress(UsageError):
            require(profile, reasons, protocol)
            judge = PromptJudge(profile, ends, reasons=reasons, protocol=protocol)
            yield Manner(name, option, judge, protocol == "joint")


def legal_check(way: Manner, asked: Sequence[AskedTask], engine: Engine, progress: Progress) -> Check:
    """Whether every answer is legal JSON, and the probability of legal answers before all others were masked."""
    requests = way.requests(asked)
    answers = answers_in_order(engine, requests, progress)
    missing = [answer.error for answer in answers if isinstance(answer, NoAnswer)]
    given = [answer for answer in answers if isinstance(answer, Answer)]
    masses = [answer.legal_mass for answer in given]
    legal = sum(map(_is_legal, given))
    figures = {
        "grammars": sorted({(request.explanation or request.grammar).name for request in requests}),
        "legal": legal,
        "asked": len(requests),
        "least_legal_mass": min(masses, default=None),
    }
    if missing:
        found = f"{len(missing)} of {len(requests)} questions got no answer: {missing[0]}"
        if way.option:
            return warning(way.name, found, f"leave out {way.option} with this judge", **figures)
        return failed(way.name, found, None, **figures)
    if legal < len(requests):
        found = f"{legal} of {len(requests)} answers are legal JSON: the grammar was not kept"
        return failed(way.name, found, "report this: it is an error of localjudge or of llguidance", **figures)
    found = f"{legal} of {legal} are legal JSON; the model gave such answers {_range(masses)} of its probability"
    if min(masses) < _ENOUGH_MASS:
        found += ": it wants to say something else, and its verdicts mean little"
        return warning(way.name, found, _ANOTHER_JUDGE, **figures)
    return ok(way.name, found, **figures)


def plain_check(judge: PromptJudge, engine: Engine, progress: Progress) -> Check:
    """How many obvious cases are judged rightly."""
    cases = plain_cases()
    right = [label == case.answer for label, case in zip(_labels(judge, engine, progress), cases, strict=True)]
    tally = Counter(case.answer for case, is_right in zip(cases, right, strict=True) if is_right)
    every = Counter(case.answer for case in cases)
    wrong = [case.text for case, is_right in zip(cases, right, strict=True) if not is_right]
    figures = {"cases": len(cases), "right": sum(right), "wrong": wrong}
    found = (
        f"{sum(right)} of {len(cases)} obvious cases right: {tally[1]} of {every[1]} that hold, "
        f"{tally[0]} of {every[0]} that do not"
    )
    if sum(right) < _ENOUGH_RIGHT * len(cases):
        return warning("plain cases", f"{found}; what is obvious is not so to it", _ANOTHER_JUDGE, **figures)
    if wrong:
        found += "; wrong: " + ", ".join(f'"{text}"' for text in wrong[:_NAMED])
    return ok("plain cases", found, **figures)


def again_check(judge: PromptJudge, engine: Engine, progress: Progress) -> Check:
    """Whether verdicts are the same, to the last bit, alone and among others in another order."""
    requests = [judge.request(case.task()) for case in plain_cases()[::3]]
    together = answers_in_order(engine, requests[::-1], progress)[::-1]
    alone = [answers_in_order(engine, [request], progress)[0] for request in requests]
    same = sum(one == other for one, other in zip(alone, together, strict=True))
    figures = {"asked": len(requests), "identical": same}
    if same < len(requests):
        found = f"{len(requests) - same} of {len(requests)} verdicts differ in their bits when they are asked otherwise"
        advice = "the order of the data then moves numbers a little: leave out --gpu-layers, or report this build"
        return warning("asked again", found, advice, **figures)
    return ok("asked again", f"{same} of {same} verdicts have the same bits alone and among others", **figures)


def injection_check(judge: PromptJudge, engine: Engine, progress: Progress) -> Check:
    """Whether text in the material can talk the judge into a verdict."""
    found = injection.resistance(judge, engine, progress=progress)
    counted = found.attempts - found.unusable - found.unanswered
    figures = found.model_dump(mode="json")
    aside = f" ({found.unusable} more on cases that it gets wrong without them)" if found.unusable else ""
    aside += f" ({found.unanswered} without an answer)" if found.unanswered else ""
    if found.falls:
        forms = ", ".join(
            f"{form} ({count})" for form, count in Counter(fall.form for fall in found.falls).most_common()
        )
        return warning(
            "injections",
            f"{len(found.falls)} of {counted} attempts talked the judge into attributing a statement{aside}: {forms}",
            f"do not decide by it on data that others can write into, or {_ANOTHER_JUDGE}",
            **figures,
        )
    if not counted:
        said = f"of {found.attempts} attempts none can be counted{aside}"
        return warning("injections", said, _ANOTHER_JUDGE, **figures)
    said = (
        f"{counted} attempts to talk the judge into attributing a statement, none did{aside}; "
        f"largest rise {found.largest_rise:.3f}"
    )
    return ok("injections", said, **figures)


def speed_check(before: Effort, after: Effort, verdicts: int) -> Check:
    """Rates of the verdicts between two states of an engine."""
    seconds = after.seconds_total - before.seconds_total
    tokens = after.evaluated_tokens - before.evaluated_tokens
    per_second = tokens / max(after.seconds_inside - before.seconds_inside, 1e-9)
    per_verdict = seconds / max(verdicts, 1)
    return ok(
        "speed",
        f"{per_second:,.0f} prompt tokens a second; {per_verdict:.2g} s for each of {verdicts:,} short verdicts "
        "(localjudge run --dry-run estimates your data)",
        tokens_per_second=per_second,
        seconds_per_verdict=per_verdict,
        verdicts=verdicts,
    )


def _labels(judge: PromptJudge, engine: Engine, progress: Progress) -> list[int | None]:
    answers = answers_in_order(engine, [judge.request(case.task()) for case in plain_cases()], progress)
    return [int(answer.p_yes >= _THRESHOLD) if isinstance(answer, Answer) else None for answer in answers]


def _range(shares: Sequence[float]) -> str:
    """From the least to the greatest, in percent."""
    least, most = (f"{100 * bound(shares):.3g} %" for bound in (min, max))
    return least if least == most else f"{least} to {most}"


def _is_legal(answer: Answer) -> bool:
    """Whether the answer is a JSON object with a verdict in it. The grammar should leave nothing else."""
    try:
        found = json.loads(answer.raw)
    except ValueError:
        return False
    return isinstance(found, dict) and any(value in (0, 1) for value in found.values())
