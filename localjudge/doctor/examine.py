"""Examine whether a model can judge on this machine, and for what.

A step that fails ends the examination.

    machine      packages, GPU                  can it run here?
    model        file, memory, prompts          can the model be loaded, and shown the exact text?
    judge        repeatability, plain cases     does it judge at all?
                 probes, injections, speed      how well, how safely, how fast?
                 └── skipped for a judge that guesses, unless probes were requested
    admission    recommended uses: ranking, means, thresholds or none

Of a jury, each judge is examined, and then the probabilities that they give together.

Problems are findings, not errors.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from localjudge import model_registry
from localjudge.doctor import probing
from localjudge.doctor.checks import (
    ADMISSION,
    CheckResult,
    Diagnosis,
    Status,
    check_gpu,
    check_memory,
    check_model,
    check_packages,
    check_prompts,
    failed,
)
from localjudge.doctor.examinee import (
    INJECTION_SECONDS,
    Examinee,
    attacked_cases,
    attempts,
    check_injections,
    check_plain_cases,
    check_repeatability,
    choose_attempts,
    plain_cases,
    plain_tasks,
)
from localjudge.doctor.probing import check_admission
from localjudge.engine import gguf, memory, opening
from localjudge.engine.protocol import InspectableEngine
from localjudge.errors import InputError, OutOfResource, SampleError
from localjudge.judge.probes import probe_tasks
from localjudge.judging import judges
from localjudge.judging.jury import Jury, use_jury
from localjudge.judging.settings import RunSettings, checked
from localjudge.metrics import catalog
from localjudge.model_registry import ModelFile
from localjudge.progress import Progress
from localjudge.run_directory.identity import EngineIdentity, JudgeIdentity, PromptsIdentity
from localjudge.run_directory.measured_judges import Examination, remember_examination
from localjudge.run_directory.verdict_rule import combine
from localjudge.types import ONE_HALF, Answer, Combination, Task, Use

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
_CHECKS_OF_JURY = ("probes", ADMISSION)
METRICS_OF_TASKS: Mapping[probing.ProbedTask, str] = {
    "attribution": "faithfulness",
    "relevance": "context_relevancy",
    "answers": "answer_relevancy",
}
"""A metric of each kind of question, whose weights a jury uses."""
_METRIC_OF_PASSAGES = "context_relevancy_chunk"
"""Asks whether a whole passage is relevant; some judges can answer that and not about sentences."""
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
    """Examine a judge or a registered jury, by default the bundled one, on this machine.

    `injections` and `probes` (labelled items, 15 for each passage) are numbers; None chooses as
    many as take about two and five minutes, but 0 if the judge fails the plain cases. Admission
    fails below `required`. `on_check` receives each finding at once. Raises InputError for invalid
    options.
    """
    judge = judge or judges.default_judge()
    names = model_registry.expand_jury(judge)
    progress = progress or Progress()
    examiner = _Examiner(judge, checked(options), injections, probes, required, progress)
    examiner.announce_duration()
    checks: list[CheckResult] = []
    worst: Status = "ok"
    not_made = list(_CHECKS_OF_JUDGE)
    if len(names) > 1:
        not_made = [f"{name}: {check}" for name in names for check in _CHECKS_OF_JUDGE]
        not_made += [f"{judge}: {check}" for check in _CHECKS_OF_JURY]
    try:
        for check in examiner.checks(names):
            progress.pause()
            checks.append(check)
            worst = max(worst, check.status, key=_SEVERITY.index)
            if check.title in not_made:
                not_made.remove(check.title)
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
    examinee: Examinee | None = None
    passages: int = 0
    """Passages whose labelled items the last judge was asked about."""
    passes_plain_cases: bool = True

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

    def checks(self, names: Sequence[str]) -> Iterator[CheckResult]:
        """Examine the judge, or the jury of these `names`."""
        packages = check_packages()
        yield packages
        if packages.status == "failed":
            return
        if len(names) > 1:
            yield from self._check_jury(names)
        else:
            yield from self._check_judge()

    def _check_jury(self, names: Sequence[str]) -> Iterator[CheckResult]:
        """Examine each judge, and what they say together. A judge that cannot be asked ends it."""
        answers: dict[str, Mapping[Task, Answer]] = {}
        passages: list[int] = []
        passes_plain_cases = True
        for name in names:
            member = replace(self, judge=name, required=None, examinee=None, passages=0)
            for check in member._check_judge():
                if check.name != "gpu":
                    yield check.model_copy(update={"judge": name})
                elif name == names[0]:
                    yield check
            if member.examinee is None:
                return
            answers[opening.find_model(name).source] = member.examinee.answers
            passages.append(member.passages)
            passes_plain_cases = passes_plain_cases and member.passes_plain_cases
        self._begin("admission")
        self.passes_plain_cases = passes_plain_cases
        self.passages = min(passages)
        try:
            with use_jury(self.judge, None, self.settings, self.progress) as jury:
                of_jury = list(self._check_together(jury, answers))
        except (InputError, OutOfResource) as error:
            of_jury = [failed(self.step, error.message, error.hint)]
        for check in of_jury:
            yield check.model_copy(update={"judge": self.judge})

    def _check_together(
        self, jury: Jury, answers: Mapping[str, Mapping[Task, Answer]]
    ) -> Iterator[CheckResult]:
        """Measure the judges' combined answers to the labelled items. `answers` are by source."""
        names = [*METRICS_OF_TASKS.values(), _METRIC_OF_PASSAGES]
        metrics = [catalog.get(name) for name in names]
        able = [metric for metric in metrics if jury.judges_for(metric)]
        combinations = jury.rule_for(able, self.settings, self.progress).combinations
        by_member = {judge.name: answers[str(judge.source)] for judge in jury.judges}
        tasks = [task for task in probing.TASKS if METRICS_OF_TASKS[task] in combinations]
        together: dict[Task, Answer] = {}
        for task in tasks:
            for question in probing.list_questions(self.passages, [task]):
                metric = METRICS_OF_TASKS[task]
                if question.unit.kind == "chunk":
                    metric = _METRIC_OF_PASSAGES
                combination = combinations[metric]
                by_name = {name: by_member[name].get(question) for name in combination.weights}
                together |= _combine_answers(question, by_name, combination)
        figures = None
        if self.passages:
            figures, checks = probing.measure_skills(self.passages, "", together, tasks)
            yield from checks
        identity = jury.identify(able, self.settings, self.progress)
        yield from self._admit(figures, tasks, identity)

    def _check_judge(self) -> Iterator[CheckResult]:
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
        yield check_gpu(library, backends, self.settings.gpu_layers, uses_gpu=uses_gpu)
        metadata = gguf.read(model.path).metadata
        self.step = "prompts"
        profile, _ = self.settings.profile_for(model.profile, metadata)
        self.step = "model"
        free = memory.available_bytes()
        engine = opening.open_engine(
            model,
            self.settings.engine,
            begin_of_text=profile.begin_of_text,
            progress=self.progress,
        )
        with closing(engine):
            yield check_model(model, gguf.read_model(model.path), engine)
            yield check_memory(engine, free)
            self._begin("prompts")
            writer = judges.make_prompts(profile, engine, self.settings.language)
            cases = [*plain_cases(), *attacked_cases()]
            for attempt in attempts():
                cases.append(attempt.attacked)
            tasks: list[Task] = probe_tasks()
            for case in cases:
                tasks.append(case.task)
            requests = [writer.request(task) for task in tasks if writer.has_words_for(task)]
            prompts = check_prompts(engine, requests)
            yield prompts
            if prompts.status != "failed":
                yield from self._interview(engine, Examinee(writer, engine, self.progress))

    def _interview(self, engine: InspectableEngine, judge: Examinee) -> Iterator[CheckResult]:
        self.examinee = judge
        self._begin("repeatability")
        yield check_repeatability(judge, plain_tasks(judge.writer)[::_REPEAT_EVERY])
        self._begin("plain cases")
        judge.start_clock()
        plain = check_plain_cases(judge)
        yield plain
        self.passes_plain_cases = plain.status != "failed"
        figures = yield from self._probe(judge)
        if self.passes_plain_cases:
            selected, why = choose_attempts(judge, self.injections)
            if selected:
                self._begin("injections")
                yield check_injections(judge, selected, why)
        yield judge.check_speed()
        identity = JudgeIdentity(
            engine=EngineIdentity(**engine.identity),
            judge=PromptsIdentity(**judge.writer.identity()),
            metrics={},
            threshold=ONE_HALF,
        )
        yield from self._admit(figures, probing.find_probed_tasks(judge.writer), identity)

    def _probe(self, judge: Examinee) -> Generator[CheckResult, None, probing.ProbeFigures | None]:
        """Yield the findings on labelled items, and return the figures, None without items."""
        tasks = probing.find_probed_tasks(judge.writer)
        is_wanted = self.passes_plain_cases or self.probes
        if not is_wanted or not tasks:
            return None
        count, why = probing.choose_passages(judge, self.probes)
        if not count:
            return None
        self._begin("probes")
        self.passages = count
        questions = probing.list_questions(count, tasks)
        if "relevance" not in tasks:  # a jury may ask this judge about passages alone
            others = probing.list_questions(count, ["relevance"])
            questions += filter(judge.writer.has_words_for, others)
        answers = judge.ask(questions)
        figures, checks = probing.measure_skills(count, why, answers, tasks)
        yield from checks
        return figures

    def _admit(
        self,
        figures: probing.ProbeFigures | None,
        tasks: Sequence[probing.ProbedTask],
        identity: JudgeIdentity,
    ) -> Iterator[CheckResult]:
        """Recommend uses, and remember them for the judge's numbers, unless nothing is known."""
        if figures is None and self.passes_plain_cases and not self.required:
            return
        admission = check_admission(
            figures,
            passes_plain_cases=self.passes_plain_cases,
            required=self.required,
            tasks=tasks,
        )
        uses = admission.figures["uses"]
        if uses:
            items = 0
            if figures is not None:
                items = figures.items
            remember_examination(identity, Examination(uses=uses, items=items))
        yield admission

    def _begin(self, step: str) -> None:
        self.step = step
        self.progress.phase(step)


def _combine_answers(
    question: Task, by_name: Mapping[str, Answer | None], combination: Combination
) -> dict[Task, Answer]:
    """Return the answer of several judges to a question, by the question; none if one lacks."""
    answers: dict[str, Answer] = {}
    for name, answer in by_name.items():
        if answer is None:
            return {}
        answers[name] = answer
    probability = combine({name: each.p_yes for name, each in answers.items()}, combination)
    mass = min(each.valid_mass for each in answers.values())
    return {question: Answer(p_yes=probability, valid_mass=mass, raw="")}
