"""Haystack: an evaluator component with the input names of Haystack's evaluators.

    from localjudge.integrations.haystack import LocaljudgeEvaluator

    evaluation = Pipeline()
    evaluation.add_component("localjudge", LocaljudgeEvaluator(["faithfulness"], judge="model.gguf"))
    result = evaluation.run({"localjudge": {"contexts": [[...]], "predicted_answers": ["..."]}})
    EvaluationRunResult("today", inputs, result["localjudge"]).aggregated_report()
    Pipeline.loads(evaluation.dumps(), allowed_modules=["localjudge.integrations.haystack"])

Each metric is an output in the form of Haystack's reports:

    score               mean of the scored samples; NaN without any, or with more failures than allowed
    individual_scores   one for each sample, NaN if missing
    results             the row of scores.jsonl of each sample, with its rows of verdicts.jsonl as "verdicts"
    ci95, scored, undefined, failed
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from math import nan
from typing import Any

from haystack import Document, component, default_to_dict
from pydantic import TypeAdapter

from localjudge.errors import ArgumentValueError
from localjudge.integrations.conversion import JudgeLike, check_options
from localjudge.metrics import Metric, catalog
from localjudge.metrics.criterion import Criterion
from localjudge.open_judge import Judge
from localjudge.result import Run
from localjudge.run.judges import DEFAULT_JUDGE
from localjudge.run.plan import wanted_metrics

_INPUTS: dict[str, tuple[str, Any]] = {
    "user_input": ("questions", list[str]),
    "retrieved_contexts": ("contexts", list[list[str | Document]]),
    "response": ("predicted_answers", list[str]),
    "reference": ("ground_truth_answers", list[str]),
    "reference_contexts": ("ground_truth_documents", list[list[str | Document]]),
}
_PLAIN = TypeAdapter(dict[str, Any])


@component
class LocaljudgeEvaluator:
    """Score questions on localjudge's metrics and criteria with a local judge.

    metrics: names such as "faithfulness", metric objects and criteria. Their inputs are mandatory.
    judge: a name, the path of a GGUF file, or an open `localjudge.Judge`. A pipeline with an open judge or a metric
        object cannot be written to YAML.
    options: as in `localjudge.Judge.open`.

    Raises InputError for unknown metrics and options.
    """

    def __init__(
        self,
        metrics: str | Sequence[str | Metric | Mapping[str, Any]],
        judge: JudgeLike = DEFAULT_JUDGE,
        **options: Any,
    ) -> None:
        check_options(judge, options)
        listed = [metrics] if isinstance(metrics, str) else metrics
        self.metrics = [Criterion(**item) if isinstance(item, Mapping) else item for item in listed]
        self.judge = judge
        self.options = options
        self._open: Judge | None = None
        wanted = wanted_metrics(self.metrics)
        self._computed = [wanted.get(name) for name in wanted.names or ()]
        needed = frozenset[str]().union(*(metric.required_fields for metric in self._computed))
        for field, (name, kind) in _INPUTS.items():
            component.set_input_type(self, name, *([kind] if field in needed else [kind | None, None]))
        component.set_output_types(self, **{metric.name: dict[str, Any] for metric in self._computed})

    def warm_up(self) -> None:
        """Load the model once. Raises the errors of `localjudge.Judge.open`."""
        if self._open is None:
            self._open = self.judge if isinstance(self.judge, Judge) else Judge.open(self.judge, **self.options)

    def close(self) -> None:
        if self._open is not None and self._open is not self.judge:
            self._open.close()
        self._open = None

    def to_dict(self) -> dict[str, Any]:
        """Serialise the component. Raises InputError for an open judge or a metric object."""
        if isinstance(self.judge, Judge) or not all(isinstance(metric, str | Criterion) for metric in self.metrics):
            raise ArgumentValueError("an open judge or a metric object cannot be serialised", hint="use their names")
        init = {"metrics": self.metrics, "judge": self.judge, **self.options}
        return default_to_dict(self, **_PLAIN.dump_python(init, mode="json", exclude_defaults=True))

    def run(self, **inputs: Any) -> dict[str, Any]:
        """Score the samples. Each input is a list with one value per sample, and each metric an output.

        Raises InputError for lists of different lengths, and the errors of `Judge.evaluate`.
        """
        self.warm_up()
        assert self._open is not None
        run = self._open.evaluate(_rows(inputs), self.metrics, out=False)
        return {metric.name: _output(run, metric) for metric in self._computed}


def _rows(inputs: Mapping[str, Sequence[Any] | None]) -> list[dict[str, Any]]:
    columns = {field: values for field, (name, _) in _INPUTS.items() if (values := inputs.get(name)) is not None}
    if len(set(map(len, columns.values()))) > 1:
        lengths = ", ".join(f"{_INPUTS[field][0]} {len(values)}" for field, values in columns.items())
        raise ArgumentValueError(f"the inputs have different lengths: {lengths}", hint="use one value for each")
    rows = zip(*columns.values(), strict=True)
    return [{"id": str(number), **dict(zip(columns, row, strict=True))} for number, row in enumerate(rows, 1)]


def _output(run: Run, metric: Metric) -> dict[str, Any]:
    name = metric.name if metric.name in run else catalog.by_id_without_texts(metric).name
    summary, scores = run[name], [row for row in run.scores if row.metric == name]
    judged = groupby((row for row in run.verdicts if row.metric == name), key=lambda row: row.sample_id)
    verdicts = {sample_id: [vars(row) for row in rows] for sample_id, rows in judged}
    mean = summary.mean
    return {
        "score": nan if mean is None else mean,
        "individual_scores": [nan if row.score is None else row.score for row in scores],
        "results": [{**vars(row), "verdicts": verdicts.get(row.sample_id, [])} for row in scores],
        **summary.model_dump(include={"ci95", "scored", "undefined", "failed"}),
    }
