"""Examine whether a model can judge on this machine, and for what.

A step that fails ends the examination.

    machine      packages, GPU                  can it run here?
    model        file, memory, prompts          can the model be loaded, and shown the exact text?
    judge        repeatability, plain cases     does it judge at all?
                 probes, injections, speed      how well, how safely, how fast?
                 └── skipped for a judge that guesses, unless probes were requested
    admission    recommended uses: ranking, means, thresholds or none

Problems are findings, not errors.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from localjudge import model_registry
from localjudge.doctor import machine, probing
from localjudge.doctor.admission import check_admission
from localjudge.doctor.check_result import ADMISSION, CheckResult, Diagnosis, Status, failed
from localjudge.doctor.examinee import Examinee, check_repeatability
from localjudge.doctor.injections import (
    INJECTION_SECONDS,
    attacked_cases,
    attempts,
    check_injections,
    choose_attempts,
)
from localjudge.doctor.plain_cases import check_plain_cases, plain_cases, plain_tasks
from localjudge.engine import hardware, opening
from localjudge.engine.protocol import InspectableEngine
from localjudge.errors import InputError, OutOfResource, SampleError
from localjudge.judge.probes import probe_tasks
from localjudge.judge.wording import PromptWriter
from localjudge.judging import judges
from localjudge.judging.settings import RunSettings, checked
from localjudge.model_registry import ModelFile
from localjudge.progress import Progress
from localjudge.run_directory.examination import Examination, remember_examination
from localjudge.run_directory.identity import EngineIdentity, PromptsIdentity
from localjudge.types import Task, Use, VerdictRequest
from localjudge.words import option

_CHECKS_OF_JUDGE = (
    "model",
    "memory",
    "prompts",
    "repeatability",
    "plain cases",
    "probes",
    "injections",
    "speed",
    ADMISSION,
)
_SEVERITY: Sequence[Status] = ("ok", "warning", "failed")
_OTHER_MINUTES = 3
"""Loading, the self-test, prompts and plain cases of a slow judge."""
_REPEAT_EVERY = 3
"""Of the plain cases, one in three is asked again."""


def examine(
    judge: str | None = None,
    *,
    injections: int | None = None,
    probes: int | None = None,
    required: Use | None = None,
    progress: Progress | None = None,
    on_check: Callable[[CheckResult], object] | None = None,
    **options: Any,
) -> Diagnosis:
    """Examine a judge and the machine that it runs on, by default the (first) bundled judge.

    `injections` and `probes` (labelled items, in passages of twelve) are numbers; None chooses as
    many as take about two and five minutes, but 0 if the judge fails the plain cases. Admission
    fails below `required`. `on_check` receives each finding at once. Raises InputError for invalid
    options.
    """
    judge = judge or judges.default_single_judge()
    names = model_registry.expand_jury(judge)
    if len(names) > 1:
        hint = f"examine them one by one: {option('judge', names[0])}"
        raise InputError(f"{judge} consists of the judges {' and '.join(names)}", hint=hint)
    progress = progress or Progress()
    examiner = _Examiner(judge, checked(options), injections, probes, required, progress)
    examiner.announce_duration()
    checks: list[CheckResult] = []
    worst: Status = "ok"
    not_made = list(_CHECKS_OF_JUDGE)
    try:
        for check in examiner.checks():
            progress.pause()
            checks.append(check)
            worst = max(worst, check.status, key=_SEVERITY.index)
            if check.name in not_made:
                not_made.remove(check.name)
            if on_check is not None:
                on_check(check)
    finally:
        progress.close()
    return Diagnosis(judge=judge, result=worst, checks=tuple(checks), not_made=tuple(not_made))


@dataclass
class _Examiner:
    """Run the checks. An error ends the current `step`."""

    judge: str
    settings: RunSettings
    injections: int | None
    probes: int | None
    required: Use | None
    progress: Progress
    step: str = "model"

    def announce_duration(self) -> None:
        """Note how long a slow judge takes, unless the user chose the numbers."""
        minutes = {}
        if self.probes is None:
            minutes["probes"] = probing.PROBE_SECONDS // 60
        if self.injections is None:
            minutes["injections"] = INJECTION_SECONDS // 60
        if minutes:
            total = sum(minutes.values()) + _OTHER_MINUTES
            parts = [f"{count} for {name}" for name, count in minutes.items()]
            options = f"--{', --'.join(minutes)} N"
            self.progress.note(
                f"a slow judge takes about {total} minutes, including {' and '.join(parts)} "
                f"({options})"
            )

    def checks(self) -> Iterator[CheckResult]:
        packages = machine.check_packages()
        yield packages
        if packages.status == "failed":
            return
        try:
            model = opening.find_model(self.judge)
            yield from self._check_model(model)
        except (InputError, SampleError) as error:
            yield failed(self.step, error.message, error.hint)
        except OutOfResource as error:
            if self.step == "model":
                self.step = "memory"
            yield failed(self.step, error.message, error.hint)

    def _check_model(self, model: ModelFile) -> Iterator[CheckResult]:
        library, backends, uses_gpu = opening.engine_build()
        yield machine.check_gpu(library, backends, self.settings.gpu_layers, uses_gpu=uses_gpu)
        metadata = opening.model_metadata(model)
        self.step = "prompts"
        profile, _ = self.settings.profile_for(model.profile, metadata)
        self.step = "model"
        free = hardware.available_bytes()
        engine = opening.open_engine(
            model,
            self.settings.engine,
            begin_of_text=profile.begin_of_text,
            progress=self.progress,
        )
        with closing(engine):
            yield machine.check_model(model, opening.model_facts(model.path), engine)
            yield machine.check_memory(engine, free)
            self._begin("prompts")
            writer = PromptWriter(profile, judges.find_chat_ends(profile, engine))
            prompts = machine.check_prompts(engine, _all_requests(writer))
            yield prompts
            if prompts.status != "failed":
                yield from self._interview(engine, Examinee(writer, engine, self.progress))

    def _interview(self, engine: InspectableEngine, judge: Examinee) -> Iterator[CheckResult]:
        self._begin("repeatability")
        yield check_repeatability(judge, plain_tasks(judge.writer)[::_REPEAT_EVERY])
        self._begin("plain cases")
        judge.start_clock()
        plain = check_plain_cases(judge)
        yield plain
        can_judge = plain.status != "failed"
        figures = yield from self._probe(judge, can_judge=can_judge)
        if can_judge:
            yield from self._attack(judge)
        yield judge.check_speed()
        if figures is None and can_judge and not self.required:
            return
        admission = check_admission(
            figures,
            passes_plain_cases=can_judge,
            required=self.required,
            tasks=probing.find_probed_tasks(judge.writer),
        )
        _remember(engine, judge, admission, figures)
        yield admission

    def _probe(
        self, judge: Examinee, *, can_judge: bool
    ) -> Generator[CheckResult, None, probing.ProbeFigures | None]:
        """Yield the findings on labelled items, and return the figures, None without items."""
        tasks = probing.find_probed_tasks(judge.writer)
        is_wanted = can_judge or self.probes
        if not is_wanted or not tasks:
            return None
        count, why = probing.choose_passages(judge, self.probes)
        if not count:
            return None
        self._begin("probes")
        answers = judge.ask(probing.list_questions(count, tasks))
        figures, checks = probing.measure_skills(count, why, answers, tasks)
        yield from checks
        return figures

    def _attack(self, judge: Examinee) -> Iterator[CheckResult]:
        selected, why = choose_attempts(judge, self.injections)
        if selected:
            self._begin("injections")
            yield check_injections(judge, selected, why)

    def _begin(self, step: str) -> None:
        self.step = step
        self.progress.phase(step)


def _all_requests(writer: PromptWriter) -> list[VerdictRequest]:
    """Return every prompt that an examination may show to the judge."""
    cases = [*plain_cases(), *attacked_cases()]
    for attempt in attempts():
        cases.append(attempt.attacked)
    tasks: list[Task] = probe_tasks()
    for case in cases:
        tasks.append(case.task)
    return [writer.request(task) for task in tasks if writer.has_words_for(task)]


def _remember(
    engine: InspectableEngine,
    judge: Examinee,
    admission: CheckResult,
    figures: probing.ProbeFigures | None,
) -> None:
    """Store the recommended uses, if they are decided, to show them with the judge's numbers."""
    uses = admission.figures["uses"]
    if not uses:
        return
    items = 0
    if figures is not None:
        items = figures.items
    remember_examination(
        EngineIdentity(**engine.identity),
        PromptsIdentity(**judge.writer.identity),
        Examination(uses=uses, items=items),
    )
