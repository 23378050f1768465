from collections.abc import Callable
from typing import Any

from localjudge import Run, ScriptedEngine
from tests.analysis.conftest import human, p_yes, text
from tests.conftest import ScriptedRun

METRIC = "context_recall"


def make_run(
    scripted_run: ScriptedRun,
    name: str,
    found: Callable[[int], str] = lambda _: "All",
    *,
    samples: int = 60,
    surer: float = 0.0,
    **options: Any,
) -> Run:
    """Create a run of 1 to 3 sentences per sample.

    `found` gives the retrieved text; `surer` raises confidence in 1.
    """
    places = {number: range(1 + number % 3) for number in range(samples)}
    rows = [
        {
            "id": f"s{number}",
            "user_input": f"What of {number}?",
            "document": number // 4,
            "retrieved_contexts": [f"{found(number)} of {number}."],
            "reference": " ".join(text(number, place) for place in places[number]),
        }
        for number in range(samples)
    ]
    script = {
        text(n, place): min(0.99, p_yes(n, place) + surer)
        for n in range(samples)
        for place in places[n]
    }
    return scripted_run(name, rows, script, metrics=[METRIC], **options)


def same_judge(run: Run) -> ScriptedEngine:
    return ScriptedEngine(
        {row.text: row.p_yes for row in run.verdicts if row.p_yes is not None}, default=1.0
    )


def truth(samples: int) -> float:
    """Mean over samples of the share of sentences with the human label 1."""
    shares = [
        [human(number, place) for place in range(1 + number % 3)] for number in range(samples)
    ]
    return sum(sum(share) / len(share) for share in shares) / samples
