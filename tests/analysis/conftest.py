import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import printed, printed_lines
from human_labels import answer_all, draw, second_opinion

from localjudge import Run

JudgedRun = Callable[..., Run]


@pytest.fixture
def judged_run(scripted_run: Callable[..., Run]) -> JudgedRun:
    """Create runs of 1 to 3 sentences per sample; human label 0 for every fourth, judge wrong on
    every fifth.
    """

    def run(
        name: str = "run",
        *,
        samples: int = 40,
        metrics: Any = ("context_recall",),
        **options: Any,
    ) -> Run:
        places = {number: range(1 + number % 3) for number in range(samples)}
        rows = [
            {
                "id": f"s{number}",
                "user_input": f"What of {number}?",
                "retrieved_contexts": [f"All about {number}.", "More."],
                "reference": " ".join(text(number, place) for place in places[number]),
                "response": "An answer.",
            }
            for number in range(samples)
        ]
        script = {
            text(number, place): p_yes(number, place)
            for number in range(samples)
            for place in places[number]
        }
        return scripted_run(name, rows, script, metrics=list(metrics), **options)

    return run


def text(number: int, place: int) -> str:
    return f"Fact {place} of sample {number} is so."


def human(number: int, place: int) -> int:
    return 0 if (number + place) % 4 == 0 else 1


def label_words(words: str) -> int:
    _, place, _, _, number, *_ = words.split()
    return human(int(number), int(place))


def p_yes(number: int, place: int) -> float:
    right = (2 * number + 3 * place) % 5 != 0
    sure = 0.6 + 0.03 * ((number + place) % 10)
    return sure if (human(number, place) == 1) == right else 1 - sure


def corrected(run: Run, metric: str = "context_recall") -> Any:
    """Return the mean of a labelled run, corrected by its labels."""
    return labels_of(run).corrected[metric]


def labels_of(run: Any) -> Any:
    labels = run.labels
    assert labels is not None
    return labels


def expect(found: object, **values: object) -> None:
    """Compare the attributes with these names."""
    assert {name: getattr(found, name) for name in values} == values


def written(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def effects(run: Run, file: Path, annotator: str | None = None) -> dict[str, Any]:
    """Read the labels of a file, and return the counts and remarks, without zeros."""
    counts = run.read_labels(file, annotator)._asdict()
    return {name: value for name, value in counts.items() if value}


def read_together(
    run: Run, files: Sequence[str | Path], annotator: str = ""
) -> list[dict[str, Any]]:
    """Read several files with one command, and return the counts of each, without zeros."""
    options: list[str | Path] = ["--json"]
    for file in files:
        options += ["--read", file]
    if annotator:
        options += ["--annotator", annotator]
    read = json.loads(printed("label", run, *options))
    return [{name: value for name, value in counts.items() if value} for counts in read.values()]


def remarks_on(before: Run | Path, after: Run | Path, metric: str = "context_recall") -> list[str]:
    """Return the remarks of a printed comparison on a metric."""
    lines = printed_lines("compare", before, after, width=1_000)
    start = f"{metric}: "
    return [line.removeprefix(start) for line in lines if line.startswith(start)]


def label(
    run: Run,
    say: Callable[[str], Any] = label_words,
    n: int = 1_000,
    annotator: str | None = "ann",
    *,
    again: bool = False,
    **how: Any,
) -> Run:
    """Give human labels to `n` drawn statements, or to all. `say` returns None to skip.

    `again` labels statements that others may have labelled.
    """
    if again:
        with second_opinion(run, annotator, n, **how) as labelling:
            answer_all(labelling, say)
    else:
        answer_all(draw(run, annotator, n, **how), say)
    return run
