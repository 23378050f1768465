"""Scales of judges: how far apart the log odds of each are on the bundled labelled items.

A scale belongs to a judge and its prompts, never to the data of a run. Bundled judges have theirs
in the registry. Others are measured once, and remembered in LOCALJUDGE_HOME/scales.
`localjudge.run_directory.jury` says what they are for.
"""

import json
import math
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from localjudge import model_registry, resources
from localjudge.errors import InputError
from localjudge.judge.probes import answer_probes, probes
from localjudge.judge.profile import ANSWER_SENTENCE
from localjudge.judge.wording import PromptWriter
from localjudge.judging.judges import SingleJudge
from localjudge.judging.questions import answers_in_order
from localjudge.metrics import Metric
from localjudge.metrics.catalog import list_tasks
from localjudge.progress import Progress
from localjudge.run_directory.identity import PromptsIdentity, is_asked_as_registered
from localjudge.run_directory.jury import KINDS, SMALLEST_SCALE, compute_scale
from localjudge.run_directory.request_keys import canonical_sha256
from localjudge.types import Answer, Attribution, ScaleKind, Task
from localjudge.words import numbered, roughly

_PASSAGES = 8
"""Passages of twelve items: 64 statements and 32 items of relevance."""
_MIN_ANSWERS = 8
_TIMED = 2
"""Items after which the time of the others is known."""
_RELEVANCE = frozenset({"relevance_chunk", "relevance_sentence", "usefulness", ANSWER_SENTENCE})
_SPECIAL: Mapping[str, ScaleKind] = {ANSWER_SENTENCE: "answers", "relevance_chunk": "passages"}


def scale_kind(metric: Metric, special: Collection[str]) -> ScaleKind:
    """Return which scale a metric's questions have.

    A metric that does not say what it asks counts as attribution. `special` are the tasks for which
    a judge has a special prompt.
    """
    tasks = list_tasks([metric])
    for task, kind in _SPECIAL.items():
        if tasks == {task} and task in special:
            return kind
    if tasks and tasks <= _RELEVANCE:
        return "relevance"
    return "attribution"


def find_scales(
    engine: Mapping[str, Any],
    prompts: PromptWriter,
    kind: ScaleKind,
    open_judge: Callable[[], SingleJudge],
    progress: Progress,
) -> Mapping[ScaleKind, float]:
    """Return a judge's known scales, including this kind: registered, remembered, or measured now.

    `engine` is the identity of its engine. Raises InputError if it gives too few answers.
    """
    identity = PromptsIdentity(**prompts.identity)
    registered = model_registry.registered_as(str(engine.get("model_sha256")))
    if registered is not None and registered.profile is not None:
        has_scale = kind in registered.scales
        if has_scale and is_asked_as_registered(registered, identity):
            return registered.scales
    checksum = engine.get("model_sha256")
    file: Path | None = None
    if checksum:
        key = canonical_sha256({"model_sha256": checksum, "judge": identity.answering})
        file = resources.state_directory() / "scales" / f"{key}.json"
    scales = _read_scales(file)
    if kind not in scales:
        scales[kind] = _measure_scale(open_judge(), kind, progress)
        if file is not None:
            resources.remember(file, json.dumps(scales, sort_keys=True))
    return scales


def _measure_scale(judge: SingleJudge, kind: ScaleKind, progress: Progress) -> float:
    """Ask a judge about the bundled items. Raises InputError if it gives too few answers."""
    tasks: list[Task] = []
    items = probes(_PASSAGES)
    if kind == "answers":
        items = answer_probes()
    for probe in items:
        task = probe.task
        is_asked = isinstance(task, Attribution) == (kind == "attribution")
        if kind == "passages" and task.unit.kind != "chunk":
            is_asked = False
        if is_asked and judge.prompts.has_words_for(task):
            tasks.append(task)
    count = numbered(len(tasks), "bundled item")
    progress.note(
        f"measuring the scale of {judge.card.name} on {count} of {kind}, once on this machine",
    )
    progress.expect(len(tasks))
    requests = judge.prompts.requests(tasks)
    first = requests[:_TIMED]
    others = requests[_TIMED:]
    started = monotonic()
    answers = answers_in_order(judge.engine, first, progress)
    if others:
        seconds = (monotonic() - started) / len(first) * len(others)
        progress.note(f"this takes {roughly(seconds)}")
        answers += answers_in_order(judge.engine, others, progress)
    probabilities = [answer.p_yes for answer in answers if isinstance(answer, Answer)]
    if len(probabilities) < _MIN_ANSWERS:
        problem = f"the judge {judge.card.name} answered {len(probabilities)} of {count} of {kind}"
        hint = "omit this judge, or register it with its scale (docs/judges.md)"
        raise InputError(f"{problem}, so it has no scale", hint=hint)
    return compute_scale(probabilities)


def _read_scales(file: Path | None) -> dict[ScaleKind, float]:
    """Return the remembered scales, without invalid ones."""
    if file is None:
        return {}
    try:
        values = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    scales: dict[ScaleKind, float] = {}
    if isinstance(values, dict):
        for kind in KINDS:
            scale = values.get(kind)
            if isinstance(scale, float) and SMALLEST_SCALE <= scale < math.inf:
                scales[kind] = scale
    return scales
