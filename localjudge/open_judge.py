"""An open judge: the model is loaded once and asked repeatedly.

    with localjudge.Judge.open("model.gguf") as judge:
        for row in judge.evaluate(rows, ["faithfulness"], out=False).scores:
            print(row.sample_id, row.score)

Every use of the model is inside `Judge.in_use`, one at a time: two threads in one llama.cpp
context, or freeing a model in use, would corrupt logits or end the process. A forked process must
open another judge.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import chain
from pathlib import Path
from threading import Lock, get_ident
from typing import Any, NoReturn, Self, Unpack

from localjudge.arguments import check_arguments
from localjudge.engine.protocol import Engine, EngineSettings
from localjudge.errors import InputError
from localjudge.judging.evaluate import evaluate
from localjudge.judging.evidence import find_evidence
from localjudge.judging.job import open_job
from localjudge.judging.jury import AnswerMemory, JudgeNames, Jury, announce, use_jury
from localjudge.judging.model_answers import ModelAnswers, earlier_answers
from localjudge.judging.plan import Data, Plan, plan
from localjudge.judging.settings import (
    JudgeSettings,
    RunSettings,
    checked,
    override,
    takes_settings,
    without_defaults,
)
from localjudge.judging.stored_data import plan_run
from localjudge.metrics import Metric
from localjudge.progress import Progress
from localjudge.report.terminal import progress_for
from localjudge.run import Output, Run, directory_for
from localjudge.run_directory.result_rows import (
    Evaluation,
    ScoreRow,
    VerdictRow,
    score_rows,
    with_evidence,
)
from localjudge.types import JudgeCard
from localjudge.words import option


class Judge:
    """An open judge, made by `Judge.open`. Close it, or use it as a context manager."""

    def __init__(self, opened: Jury, settings: RunSettings, undo: ExitStack) -> None:
        self._opened = opened
        self._opened.memory = AnswerMemory()
        self.settings = settings
        self._undo = undo
        self._lock = Lock()
        self._user: int | None = None
        self._process = os.getpid()
        self._open = True

    @classmethod
    @takes_settings
    def open(
        cls,
        judge: JudgeNames | None = None,
        *,
        engine: Engine | None = None,
        **settings: Unpack[JudgeSettings],
    ) -> Self:
        """Load a judge: a registered name, a GGUF file, or a name from `localjudge models`.

        Default: the judge in the environment variable LOCALJUDGE_JUDGE, else the bundled one.
        Several judges make one verdict together, and all of them stay in memory. Arguments as in
        `localjudge.evaluate`; `engine` is not closed. Raises ModelError, InputError, and
        OutOfResource for too little memory.
        """
        return cls.with_settings(judge, checked(without_defaults(settings)), engine)

    @classmethod
    def with_settings(
        cls,
        judge: JudgeNames | None,
        settings: RunSettings,
        engine: Engine | None = None,
    ) -> Self:
        """Open a judge with checked settings."""
        with ExitStack() as undo:
            opened = undo.enter_context(use_jury(judge, engine, settings, keep_open=True))
            return cls(opened, settings, undo.pop_all())

    @contextmanager
    def in_use(self) -> Iterator[Jury]:
        """Yield the judge for one use while other threads wait.

        Raises InputError if closed, opened by another process, or in use by this thread.
        """
        with self._alone():
            if not self._open:
                raise InputError(
                    "the judge is closed",
                    hint="use it inside its `with` block, or open another one",
                )
            yield self._opened

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self._process != os.getpid():
            message = "the judge was opened by another process and cannot be used in a forked one"
            raise InputError(message, hint="open a judge in each process, after the fork")
        if self._user == get_ident():
            user = "its own engine, metric or progress asked or closed it"
            hint = "finish the first use, or open a second judge"
            raise InputError(f"the judge is already in use by this thread: {user}", hint=hint)
        with self._lock:
            self._user = get_ident()
            try:
                yield
            finally:
                self._user = None

    @property
    def card(self) -> JudgeCard:
        """Name, sha256 and size of the model."""
        return self._opened.card

    def settings_with(self, options: Mapping[str, Any]) -> RunSettings:
        """Return its settings with changes. Raises InputError for one fixed by loading."""
        stored = {name: getattr(self.settings, name) for name in self.settings.model_fields_set}
        settings = checked(override(stored, options))
        # The profile decides about the begin token.
        for name in (*EngineSettings.model_fields, "profile"):
            if getattr(settings, name) != getattr(self.settings, name):
                hint = f"open it with {option(name)}"
                raise InputError(f"{name} cannot be changed while the judge is open", hint=hint)
        return settings

    def plan(
        self, data: Data | None, metrics: object, options: Mapping[str, Any], progress: Progress
    ) -> Plan:
        """Plan a run with its settings and these changes. Only calibrations in use apply."""
        planned = plan_run(data, metrics, self.settings_with(options), options, progress)
        if "calibration" in options:
            return planned
        return planned._replace(settings=planned.settings.for_metrics(planned.metrics))

    @check_arguments
    def evaluate(
        self,
        data: Data,
        metrics: str | Metric | Path | Sequence[str | Metric | Path] | None = None,
        *,
        out: Output = None,
        progress: Progress | bool | None = False,
    ) -> Run:
        """Score data like `localjudge.evaluate`, into the same run directory.

        That function takes other settings. `out=False` leaves no directory. Answers are reused
        while the judge is open.
        """
        return make_run(self, data, metrics, {}, out=out, progress=progress)

    def evaluations(self, rows: Data, metrics: object = None) -> list[Evaluation]:
        """Return each metric on each sample, for adapters."""
        evaluations, _ = self._evaluate(plan(rows, metrics, self.settings))
        return evaluations

    def evaluate_rows(
        self, rows: Data, metrics: object = None
    ) -> tuple[list[ScoreRow], list[VerdictRow]]:
        """Return the scores, and the verdicts with their evidence, for adapters."""
        planned = plan(rows, metrics, self.settings)
        evaluations, letters = self._evaluate(planned)
        scores = list(score_rows(evaluations))
        verdicts = chain.from_iterable(evaluation.verdicts for evaluation in evaluations)
        if planned.settings.no_evidence:
            return scores, list(verdicts)
        samples = iter(planned.dataset.samples)
        evidence = find_evidence(evaluations, samples, planned.settings, letters)
        return scores, list(with_evidence(verdicts, evidence))

    def _evaluate(self, planned: Plan) -> tuple[list[Evaluation], tuple[int, ...]]:
        """Return the evaluations, and how many letters a judge has read for each statement."""
        settings = planned.settings.for_metrics(planned.metrics)
        planned = planned._replace(settings=settings)
        with self.in_use() as opened:
            identity = announce(opened, planned.metrics, settings, Progress())
            earlier = earlier_answers(opened.memory, identity, settings.reuse, Progress())
            answers = ModelAnswers(opened, None, planned, Progress(), earlier)
            samples = planned.dataset.samples
            evaluated = evaluate(samples, planned.metrics, answers, settings.sentences)
            return list(chain.from_iterable(evaluated)), identity.letters_read

    def close(self) -> None:
        """Free the model after its current use. Does nothing in a forked process."""
        if self._process == os.getpid():
            with self._alone():
                self._open = False
                self._undo.close()

    def __reduce__(self) -> NoReturn:
        message = "an open judge cannot be pickled or copied: its model is in this process"
        raise InputError(message, hint="pass its name or path, and open a judge in each process")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._open:
            return f"<Judge {self.card.name}>"
        return f"<Judge {self.card.name}, closed>"


def make_run(
    judge: Judge | JudgeNames | None,
    data: Data | None,
    metrics: object,
    options: Mapping[str, Any],
    *,
    out: Output,
    progress: Progress | bool | None,
    **how: Any,
) -> Run:
    """Make a run by an open judge, or by one opened for it.

    Raises the errors of `localjudge.evaluate`.
    """
    directory, folder = directory_for(out)
    asked: JudgeNames | Jury | None
    with closing(progress_for(progress)) as shown, ExitStack() as stack:
        if isinstance(judge, Judge):
            planned = judge.plan(data, metrics, options, shown)
            asked = stack.enter_context(judge.in_use())
        else:
            planned = plan_run(data, metrics, checked(options), options, shown)
            asked = judge
        with open_job(planned, judge=asked, out=directory, progress=shown, **how) as job:
            run = job.run()
        types = planned.column_types
        if planned.stored_in is not None:
            types = _find_column_types(options.get("reuse"))
        return Run.of(run, folder, types)


def _find_column_types(reused: object) -> Mapping[str, Any]:
    """Return the column types of the evaluated frame of a reused run that is still in memory."""
    if isinstance(reused, Run):
        return reused.types
    if isinstance(reused, Sequence):
        for run in reused:
            if isinstance(run, Run):
                return run.types
    return {}
