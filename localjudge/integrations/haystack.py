"""Haystack: an evaluator component, with inputs called as those of Haystack's own evaluators.

    from localjudge.integrations.haystack import LocaljudgeEvaluator

    evaluation = Pipeline()
    evaluation.add_component("localjudge", LocaljudgeEvaluator(["faithfulness"], judge="model.gguf"))
    result = evaluation.run({"localjudge": {"contexts": [[...]], "predicted_answers": ["..."]}})
    EvaluationRunResult("today", inputs, result["localjudge"]).aggregated_report()
    Pipeline.loads(evaluation.dumps(), allowed_modules=["localjudge.integrations.haystack"])

One component computes all its metrics, so that the model is loaded once and what several of them ask is asked once. It
has an output for each metric, which is what Haystack's reports take:

    score               mean over the samples that were scored; NaN without any, and where more failed than may
    individual_scores   one for each sample; NaN where there is none, as Haystack's reports take floats alone
    results             of each sample its row of scores.jsonl, with its rows of verdicts.jsonl as "verdicts"
    ci95, scored, undefined, failed

The model is loaded by `warm_up`, or when it is first run, and freed by `close`. `Pipeline.run` reports to Haystack's
makers unless HAYSTACK_TELEMETRY_ENABLED is False; nothing here does.
"""

from collections.abc import Mapping, Sequence
from math import nan
from typing import Any, Unpack

from haystack import Document, component, default_from_dict, default_to_dict
from pydantic import TypeAdapter

from localjudge.errors import UsageError
from localjudge.integrations.conversion import GivenJudge, open_given, refuse_options
from localjudge.metrics import catalog
from localjudge.metrics.criterion import criteria_of
from localjudge.open_judge import Judge
from localjudge.record.files import MetricSummary, Totals
from localjudge.record.result_rows import Evaluation, row_values, score_rows, verdict_rows
from localjudge.run.judges import DEFAULT_JUDGE
from localjudge.run.settings import Options, settings_with

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
    """Scores questions on one or more of localjudge's metrics, and on criteria, with a local judge.

    metrics: names such as "faithfulness". Inputs that they need are mandatory, all others may be given.
    judge: a registered name, the path of a GGUF file, or an open `localjudge.Judge`, which stays
        open; a pipeline with that one cannot be written to YAML.
    options: those of `localjudge.evaluate` that are not about the data; names of files where they take files.

    Raises UsageError for metrics that do not exist and options that cannot be.
    """

    def __init__(self, metrics: Sequence[str], judge: GivenJudge = DEFAULT_JUDGE, **options: Unpack[Options]) -> None:
        refuse_options(judge, options)
        if named := [name for name in settings_with("data") if name in options]:
            raise UsageError(f"{named[0]} is about the data of a run, and a component has none", hint="leave it out")
        self.metrics = [metrics] if isinstance(metrics, str) else list(metrics)
        self.judge = judge
        self.options = options
        self._open: Judge | None = None
        criteria = judge.settings.criteria if isinstance(judge, Judge) else criteria_of(options.get("criteria"))
        self._computed = [*map(catalog.get, self.metrics), *criteria]
        needed = frozenset[str]().union(*(metric.required_fields for metric in self._computed))
        for field, (name, kind) in _INPUTS.items():
            if field in needed:
                component.set_input_type(self, name, kind)
            else:
                component.set_input_type(self, name, kind | None, None)
        component.set_output_types(self, **{metric.name: dict[str, Any] for metric in self._computed})

    def warm_up(self) -> None:
        """Load the model. A second call does nothing. Raises what `localjudge.Judge.open` raises."""
        if self._open is None:
            self._open = open_given(self.judge, self.options)

    def close(self) -> None:
        """Free the model, unless it was open before."""
        if self._open is not None and self._open is not self.judge:
            self._open.close()
        self._open = None

    def to_dict(self) -> dict[str, Any]:
        """The component as Haystack writes it. Raises UsageError for an open judge, which is no name."""
        if isinstance(self.judge, Judge):
            raise UsageError("an open judge cannot be written into a pipeline's file", hint="name its model instead")
        init = {"metrics": self.metrics, "judge": self.judge, **self.options}
        return default_to_dict(self, **_PLAIN.dump_python(init, mode="json", exclude_defaults=True))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "LocaljudgeEvaluator":
        """The component that `to_dict` wrote."""
        return default_from_dict(cls, data)

    def run(self, **inputs: Any) -> dict[str, Any]:
        """Score the samples: each input is a list with one value for each. An output for each metric.

        Raises UsageError for lists of different lengths, and what `Judge.evaluations` raises.
        """
        self.warm_up()
        assert self._open is not None
        rows = _rows(inputs)
        found = self._open.evaluations(rows, self.metrics)
        settings = self._open.settings
        totals = Totals({one.metric for one in found}, settings.rule_for(self._computed))
        totals.add(found)
        summaries, outputs = totals.metrics, {}
        for metric in self._computed:
            name = metric.name if metric.name in summaries else catalog.by_id_without_texts(metric).name
            of_metric = [one for one in found if one.metric == name]
            outputs[metric.name] = _output(of_metric, summaries[name], settings.max_failed)
        return outputs


def _rows(inputs: Mapping[str, Sequence[Any] | None]) -> list[dict[str, Any]]:
    given = {field: values for field, (name, _) in _INPUTS.items() if (values := inputs.get(name)) is not None}
    counts = {_INPUTS[field][0]: len(values) for field, values in given.items()}
    if len(set(counts.values())) > 1:
        raise UsageError(
            f"the inputs have different lengths: {', '.join(f'{name} {count}' for name, count in counts.items())}",
            hint="give each of them one value for each question",
        )
    rows = zip(*given.values(), strict=True)
    return [{"id": str(number), **dict(zip(given, row, strict=True))} for number, row in enumerate(rows, 1)]


def _output(found: Sequence[Evaluation], summary: MetricSummary, max_failed: int) -> dict[str, Any]:
    scores = list(score_rows(found))
    return {
        "score": _or_nan(summary.mean if summary.failed <= max_failed else None),
        "individual_scores": [_or_nan(row.score) for row in scores],
        "results": [
            {**row_values(row), "verdicts": [row_values(verdict) for verdict in verdict_rows([one])]}
            for row, one in zip(scores, found, strict=True)
        ],
        **summary.model_dump(include={"ci95", "scored", "undefined", "failed"}),
    }


def _or_nan(score: float | None) -> float:
    return nan if score is None else score
