'''Metrics: one file, one definition, its questions and its arithmetic. `catalog` is the one table of them.

What the author of a metric needs is here. A whole one, judged:

    """Correctness: how much of the response can be attributed to the reference."""

    from localjudge.metrics import Attribution, Sample, Scored, Sentences, Steps, Undefined, Unit


    class Correctness:
        """How much of the response is in the reference?"""

        name = "correctness"
        version = 1  # raise it whenever the same verdicts could give another number
        required_fields = frozenset({"response", "reference"})  # a sample where one is null is Undefined

        def steps(self, sample: Sample, sentences: Sentences) -> Steps:
            statements = sentences(sample.response or "")
            if not statements:
                return Undefined(reason="the response has no sentence")
            verdicts = yield [
                Attribution(
                    unit=Unit(kind="statement", index=index, source="response", span=span, against="reference"),
                    contexts=(sample.reference or "",),
                    user_input=sample.user_input,
                )
                for index, span in enumerate(statements)
            ]
            return Scored.fraction(verdict.label for verdict in verdicts)


    correctness = Correctness()

It is installed by an entry point under the name that the metric gives itself:

    [project.entry-points."localjudge.metrics"]
    correctness = "own_metrics:correctness"

Then `localjudge run data.jsonl --metrics correctness` computes it. A metric that asks nothing says `yield from ()`. A
task is one question about one unit of text: `Attribution` (can the statement be attributed to these contexts?),
`Relevance` (is the sentence or chunk needed for the question?), `Usefulness` (does the chunk help to arrive at the
reference?), or a `CustomQuestion` in any words, which only a judge that reads instructions can be asked: its metric
says `special_tasks = frozenset({"criterion"})`. Optionally, `about = About(question=..., unit=..., source=...)` is what
`run --list-metrics` shows and annotators are asked; without it, the list shows the first line of the docstring. A
metric that says what else it asks, `common_tasks =
frozenset({"attribution"})`, is refused before anything is asked of a judge that was trained on other tasks. A verdict's
`label` is 1 for yes and 0 for no; `steps` may yield again once it knows them. A sample that cannot be scored raises
SampleError. Whatever else the metric raises fails that sample.
'''

from localjudge.errors import SampleError
from localjudge.metrics.metric import About, Metric, Sentences, Steps
from localjudge.types import (
    Attribution,
    Context,
    CustomQuestion,
    Failed,
    Label,
    Outcome,
    Relevance,
    Sample,
    Scored,
    Span,
    Task,
    Undefined,
    Unit,
    Usefulness,
    Verdict,
)

__all__ = [
    "About",
    "Attribution",
    "Context",
    "CustomQuestion",
    "Failed",
    "Label",
    "Metric",
    "Outcome",
    "Relevance",
    "Sample",
    "SampleError",
    "Scored",
    "Sentences",
    "Span",
    "Steps",
    "Task",
    "Undefined",
    "Unit",
    "Usefulness",
    "Verdict",
]
