"""The scale of a judge: how far apart its log odds are on the bundled labelled items.

A scale belongs to the judge and its prompts, never to the data of a run. Bundled judges have theirs
in the registry. Others are measured once, and remembered in LOCALJUDGE_HOME/scales.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from localjudge import model_registry, resources
from localjudge.errors import InputError
from localjudge.judge.probes import probes
from localjudge.judge.wording import PromptWriter
from localjudge.judging.judges import LoadedJudge
from localjudge.judging.loop import answers_in_order
from localjudge.progress import Progress
from localjudge.run_directory.jury import KINDS, ScaleKind, scale_of
from localjudge.run_directory.manifest import PromptsIdentity
from localjudge.run_directory.store import canonical_sha256
from localjudge.types import Answer, Attribution
from localjudge.words import numbered, option_name

PASSAGES = 8
"""Passages of twelve items: 64 statements and 32 items of relevance."""
_FEWEST_ANSWERS = 8


def scales_of(
    engine: Mapping[str, Any],
    judge: PromptWriter,
    kind: ScaleKind,
    opened: Callable[[], LoadedJudge],
    progress: Progress,
) -> Mapping[ScaleKind, float]:
    """Return a judge's known scales, including this kind: registered, remembered, or measured now.

    `opened` opens the judge. Raises InputError if it gives too few answers.
    """
    prompts = PromptsIdentity(**judge.identity)
    registered = model_registry.registered_as(str(engine.get("model_sha256")))
    if registered and kind in registered.scales and _asked_as_registered(registered, prompts):
        return {name: registered.scales[name] for name in KINDS if name in registered.scales}
    file = _file(engine, prompts)
    scales = _read(file)
    if kind not in scales:
        scales = {**scales, kind: measure_scale(opened(), kind, progress)}
        if file:
            resources.remember(file, json.dumps(scales, sort_keys=True))
    return scales


def measure_scale(judge: LoadedJudge, kind: ScaleKind, progress: Progress) -> float:
    """Ask a judge about the bundled items. Raises InputError if it gives too few answers."""
    tasks = []
    for probe in probes(PASSAGES):
        is_statement = isinstance(probe.task, Attribution)
        if is_statement == (kind == "attribution") and judge.prompts.has_words_for(probe.task):
            tasks.append(probe.task)
    question = numbered(len(tasks), "bundled item")
    progress.note(
        f"measuring the scale of {judge.card.name} on {question} of {kind}, once on this machine",
    )
    progress.expect(len(tasks))
    answers = answers_in_order(judge.engine, judge.prompts.requests(tasks), progress)
    probabilities = [answer.p_yes for answer in answers if isinstance(answer, Answer)]
    if len(probabilities) < _FEWEST_ANSWERS:
        problem = (
            f"the judge {judge.card.name} answered {len(probabilities)} of {question} of {kind}"
        )
        raise InputError(
            f"{problem}, so it has no scale", hint=f"give its weight: {option_name('weights')}"
        )
    return scale_of(probabilities)


def _asked_as_registered(
    registered: model_registry.RegisteredModel, prompts: PromptsIdentity
) -> bool:
    return prompts.profile == registered.profile and prompts.reasons == "none"


def _file(engine: Mapping[str, Any], prompts: PromptsIdentity) -> Path | None:
    checksum = engine.get("model_sha256")
    if not checksum:
        return None
    key = canonical_sha256({"model_sha256": checksum, "judge": prompts.answering})
    return resources.state_directory() / "scales" / f"{key}.json"


def _read(file: Path | None) -> dict[ScaleKind, float]:
    try:
        scales = json.loads(file.read_bytes()) if file else {}
    except (OSError, ValueError):
        return {}
    if not isinstance(scales, dict):
        return {}
    return {
        kind: scales[kind]
        for kind in KINDS
        if isinstance(scales.get(kind), float) and scales[kind] > 0
    }
