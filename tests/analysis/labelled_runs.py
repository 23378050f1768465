from collections.abc import Callable, Sequence
from typing import Any

from localjudge import Run
from localjudge.analysis.labelling import Labelling
from tests.analysis.conftest import human, human_of, p_yes, text
from tests.conftest import ScriptedRun

METRIC = "context_recall"


def run_of(
    scripted_run: ScriptedRun,
    name: str,
    found: Callable[[int], str] = lambda _: "All",
    *,
    samples: int = 60,
    surer: float = 0.0,
    **options: Any,
) -> Run:
    """Create a run of 1 to 3 sentences per sample. `found` gives the retrieved text; `surer` raises confidence in 1."""
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
    script = {text(n, place): min(0.99, p_yes(n, place) + surer) for n in range(samples) for place in places[n]}
    return scripted_run(name, rows, script, metrics=[METRIC], **options)


def label(
    run: Run, n: int = 1_000, human_says: Callable[[str], int] = human_of, metrics: Sequence[str] | None = None
) -> Run:
    labelling = Labelling(run, "somebody", sample=n, metrics=metrics)
    while labelling.rows:
        row = labelling.rows[0]
        labelling.answer(1 if human_says(row["text"]) else 0)
    return run


def truth(samples: int) -> float:
    """Mean over samples of the share of sentences with the human label 1."""
    shares = [[human(number, place) for place in range(1 + number % 3)] for number in range(samples)]
    return sum(sum(share) / len(share) for share in shares) / samples
