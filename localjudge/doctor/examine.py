"""Examine a judge and the machine that it runs on. A step that cannot be done ends the examination.

    machine      packages, state folder, processor, GPU
    model        file, architecture, memory, self-check of shared prompts, chat template
    judge        prompts ─ asked again ─ plain cases ─ probes ─ injections ─ speed
                                         └── skipped for a judge that guesses, unless probes were
                                         requested
    admission    recommended uses: ranking, means, thresholds or none

Problems are findings, not errors.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from localjudge import model_registry
from localjudge.doctor import fitness, judgement, machine
from localjudge.doctor.fitness import ProbeFigures
from localjudge.doctor.health_check import ADMISSION, Diagnosis, HealthCheck, failed
from localjudge.engine import hardware, opening
from localjudge.engine.protocol import InspectableEngine
from localjudge.errors import InputError, OutOfResource, SampleError
from localjudge.judge.probes import PER_PASSAGE, probe_tasks
from localjudge.judge.wording import PromptWriter
from localjudge.judging import judges
from localjudge.judging.settings import RunSettings, checked
from localjudge.model_registry import ModelFile
from localjudge.progress import Progress, Silence
from localjudge.run_directory.examination import Examination, remember_examination
from localjudge.run_directory.manifest import EngineIdentity, PromptsIdentity
from localjudge.types import Use
from localjudge.words import option

_OF_THE_JUDGE = (
    *(
        "model file",
        "model",
        "model memory",
        "shared prompts",
        "chat template",
        "prompts",
        "asked again",
    ),
    *("plain cases", "probes", "injections", "speed", ADMISSION),
)
_PROBED = ("attribution", "relevance_sentence", "relevance_chunk")
_OTHER_MINUTES = 3
"""Loading, the self-test, prompts and plain cases of a slow judge."""
_Checks = Iterator[HealthCheck]


def examine(
    judge: str | None = None,
    *,
    injections: int | None = None,
    probes: int | None = None,
    required: Use | None = None,
    progress: Progress | None = None,
    on_check: Callable[[HealthCheck], object] | None = None,
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
    progress = progress or Silence()
    examiner = _Examiner(judge, checked(options), injections, probes, required, progress)
    checks: list[HealthCheck] = []
    steps = {
        "probes": (probes, fitness.PROBE_SECONDS),
        "injections": (injections, judgement.INJECTION_SECONDS),
    }
    chosen = {name: seconds // 60 for name, (count, seconds) in steps.items() if count is None}
    if chosen:
        parts = " and ".join(f"{minutes} for {name}" for name, minutes in chosen.items())
        total = sum(chosen.values()) + _OTHER_MINUTES
        progress.note(
            f"a slow judge takes about {total} minutes, including {parts} (--{', --'.join(chosen)} N)",
        )
    try:
        for check in examiner.checks():
            progress.pause()
            checks.append(check)
            if on_check is not None:
                on_check(check)
    finally:
        progress.close()
    made, statuses = ({getattr(check, field) for check in checks} for field in ("name", "status"))
    return Diagnosis(
        judge=judge,
        result="failed" if "failed" in statuses else "warning" if "warning" in statuses else "ok",
        checks=tuple(checks),
        not_made=tuple(name for name in _OF_THE_JUDGE if name not in made),
    )


@dataclass
class _Examiner:
    """Run the checks. An error ends the current `step`."""

    judge: str
    settings: RunSettings
    injections: int | None
    probes: int | None
    required: Use | None
    progress: Progress
    step: str = "model file"

    def checks(self) -> _Checks:
        packages = machine.check_packages()
        yield packages
        yield machine.check_state_folder()
        if packages.status == "failed":
            return
        yield machine.check_processor(self.settings)
        try:
            yield from self._model_checks(opening.find_model(self.judge))
        except (InputError, SampleError, OutOfResource) as error:
            name = (
                "model memory"
                if isinstance(error, OutOfResource) and self.step == "model"
                else self.step
            )
            yield failed(name, error.message, error.hint)

    def _model_checks(self, model: ModelFile) -> _Checks:
        settings = self.settings
        yield machine.check_gpu(opening.engine_build(), settings.gpu_layers)
        yield machine.check_file(model)
        self.step = "model"
        metadata = opening.model_metadata(model)
        self.step = "prompts"
        profile = settings.profile_for(model.profile, metadata).profile
        self.step = "model"
        free = hardware.available_bytes()
        begin_of_text, progress = profile.begin_of_text, self.progress
        engine = opening.open_engine(
            model, settings.engine, begin_of_text=begin_of_text, progress=progress
        )
        with closing(engine):
            yield from machine.check_engine(engine, free)
            self.step = "chat template"
            ends = judges.chat_around(profile, engine)
            writer = PromptWriter(profile, ends)
            yield machine.check_template(profile, ends)
            yield from self._interview(engine, judgement.Examinee(writer, engine, self.progress))

    def _interview(self, engine: InspectableEngine, judge: judgement.Examinee) -> _Checks:
        self._next("prompts")
        cases = [*judgement.plain_cases(), *judgement.attacked_cases()]
        cases += [attempt.attacked for attempt in judgement.attempts()]
        tasks = [*(case.task() for case in cases), *probe_tasks()]
        requests = [
            judge.writer.request(task) for task in tasks if judge.writer.has_words_for(task)
        ]
        prompts = machine.check_prompts(engine, requests)
        yield prompts
        if prompts.status == "failed":
            return
        self._next("asked again")
        yield judgement.check_again(judge)
        self._next("plain cases")
        judge.start_clock()
        plain = judgement.check_plain_cases(judge)
        yield plain
        is_judge = plain.status != "failed"
        figures = yield from self._probe(judge, is_judge=is_judge)
        selected, why = judgement.choose_attempts(judge, self.injections) if is_judge else ([], "")
        if selected:
            self._next("injections")
            yield judgement.check_injections(judge, selected, why)
        yield judge.check_speed()
        if figures is None and is_judge and not self.required:
            return
        admission = fitness.check_admission(
            figures, passes_plain_cases=is_judge, required=self.required
        )
        if (uses := admission.figures["uses"]) is not None:
            items = PER_PASSAGE * figures.passages if figures else 0
            asked = EngineIdentity(**engine.identity), PromptsIdentity(**judge.writer.identity)
            remember_examination(*asked, Examination(uses=uses, items=items))
        yield admission

    def _probe(
        self, judge: judgement.Examinee, *, is_judge: bool
    ) -> Generator[HealthCheck, None, ProbeFigures | None]:
        if judge.writer.unsupported(_PROBED) or not (is_judge or self.probes):
            return None
        count, why = fitness.choose_passages(judge, self.probes)
        if not count:
            return None
        self._next("probes")
        figures, checks = fitness.measure_skills(count, why, judge.ask(probe_tasks(count)))
        yield from checks
        return figures

    def _next(self, step: str) -> None:
        self.step = step
        self.progress.phase(step)
