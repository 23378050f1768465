"""Haystack: an evaluator component with the input names of Haystack's evaluators.

    from localjudge.integrations.haystack import LocaljudgeEvaluator

    evaluation = Pipeline()
    evaluator = LocaljudgeEvaluator(["faithfulness"], judge="model.gguf")
    evaluation.add_component("localjudge", evaluator)
    result = evaluation.run({"localjudge": {"contexts": [[...]], "predicted_answers": ["..."]}})
    EvaluationRunResult("today", inputs, result["localjudge"]).aggregated_report()
    Pipeline.loads(evaluation.dumps(), allowed_modules=["localjudge.integrations.haystack"])

Each metric is an output in the form of Haystack's reports:

    score               mean of the scored samples; NaN without any, or with too many failures
    individual_scores   one for each sample, NaN if missing
    expected            mean of the expected scores, NaN like the mean; each is in `results`
    results             row of scores.jsonl of each sample, with its rows of verdicts.jsonl, and
                        theirs of evidence.jsonl
    ci95, expected_ci95, scored, undefined, failed
"""

from collections.abc import Mapping, Sequence
from math import nan
from typing import Any

from haystack import Document, component, default_to_dict
from pydantic import TypeAdapter

from localjudge.errors import ArgumentValueError
from localjudge.integrations.conversion import JudgeLike, check_options, open_judge
from localjudge.judging.metric_choice import requested_metrics
from localjudge.metrics import Metric, catalog
from localjudge.metrics.criterion import Criterion
from localjudge.open_judge import Judge
from localjudge.run import Run

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
    judge: a name, the path of a GGUF file, a list of them for one verdict together, or an open
        `localjudge.Judge`. A pipeline with an open judge or a metric object cannot be written to
        YAML.
    options: as in `localjudge.Judge.open`.

    Raises InputError for unknown metrics and options.
    """

    def __init__(
        self,
        metrics: str | Sequence[str | Metric | Mapping[str, Any]],
        judge: JudgeLike | None = None,
        **options: Any,
    ) -> None:
        check_options(judge, options)
        self.metrics: list[str | Metric] = []
        if isinstance(metrics, str):
            metrics = [metrics]
        for metric in metrics:
            if isinstance(metric, Mapping):
                self.metrics.append(Criterion(**metric))
            else:
                self.metrics.append(metric)
        self.judge = judge
        self.options = options
        self._open: Judge | None = None
        self._computed = requested_metrics(self.metrics) or []
        self._declare_inputs()
        outputs = {metric.name: dict[str, Any] for metric in self._computed}
        component.set_output_types(self, **outputs)

    def _declare_inputs(self) -> None:
        """Declare the inputs: mandatory ones of the metrics, and all others as optional."""
        needed: set[str] = set()
        for metric in self._computed:
            needed |= metric.required_fields
        for field, (name, kind) in _INPUTS.items():
            if field in needed:
                component.set_input_type(self, name, kind)
            else:
                component.set_input_type(self, name, kind | None, None)

    def warm_up(self) -> None:
        """Load the model once. Raises the errors of `localjudge.Judge.open`."""
        if self._open is not None:
            return
        self._open = open_judge(self.judge, self.options)

    def close(self) -> None:
        if self._open is not None and self._open is not self.judge:
            self._open.close()
        self._open = None

    def to_dict(self) -> dict[str, Any]:
        """Serialise the component. Raises InputError for an open judge or a metric object."""
        are_plain = all(isinstance(metric, str | Criterion) for metric in self.metrics)
        if isinstance(self.judge, Judge) or not are_plain:
            problem = "an open judge or a metric object cannot be serialised"
            raise ArgumentValueError(problem, hint="use their names")
        init = {"metrics": self.metrics, "judge": self.judge, **self.options}
        return default_to_dict(self, **_PLAIN.dump_python(init, mode="json", exclude_defaults=True))

    def run(self, **inputs: Any) -> dict[str, Any]:
        """Score the samples. An input is a list with one value per sample, an output a metric.

        Raises InputError for lists of different lengths, and the errors of `Judge.evaluate`.
        """
        self.warm_up()
        assert self._open is not None
        run = self._open.evaluate(_rows(inputs), self.metrics, out=False)
        return {metric.name: _output(run, metric) for metric in self._computed}


def _rows(inputs: Mapping[str, Sequence[Any] | None]) -> list[dict[str, Any]]:
    columns: dict[str, Sequence[Any]] = {}
    for field, (name, _) in _INPUTS.items():
        values = inputs.get(name)
        if values is not None:
            columns[field] = values
    lengths = {_INPUTS[field][0]: len(values) for field, values in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        problem = f"the inputs have different lengths: {listed}"
        raise ArgumentValueError(problem, hint="use one value for each")
    rows: list[dict[str, Any]] = []
    for number, values in enumerate(zip(*columns.values(), strict=True), start=1):
        rows.append({"id": str(number), **dict(zip(columns, values, strict=True))})
    return rows


def _output(run: Run, metric: Metric) -> dict[str, Any]:
    name = metric.name
    if name not in run:
        name = catalog.by_id_without_texts(metric).name
    verdicts: dict[str, list[dict[str, Any]]] = {}
    for verdict in run.verdicts:
        if verdict.metric == name:
            verdicts.setdefault(verdict.sample_id, []).append(verdict.values_with_evidence)
    scores: list[float] = []
    results: list[dict[str, Any]] = []
    for row in run.scores:
        if row.metric == name:
            scores.append(_as_number(row.score))
            results.append({**vars(row), "verdicts": verdicts.get(row.sample_id, [])})
    summary = run[name]
    others = {"ci95", "expected_ci95", "scored", "undefined", "failed"}
    return {
        "score": _as_number(summary.mean),
        "individual_scores": scores,
        "expected": _as_number(summary.expected),
        "results": results,
        **summary.model_dump(include=others),
    }


def _as_number(value: float | None) -> float:
    """Return NaN for a missing number, as Haystack's reports have it."""
    if value is None:
        return nan
    return value
