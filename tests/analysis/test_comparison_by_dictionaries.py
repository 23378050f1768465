"""A comparison of random runs is, to the last bit, the one that dictionaries of ids give."""

import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge import Run, ScriptedEngine, evaluate
from localjudge.analysis.comparison import (
    MetricChange,
    SampleChange,
    VerdictChanges,
    compare,
)
from localjudge.analysis.score_changes import ScoreChanges
from localjudge.analysis.unit_changes import UnitChange, labelled_in_both, unit_changes
from localjudge.stats import mcnemar, paired_difference
from tests.analysis.test_pairing import reference

Rows = list[dict[str, Any]]
Script = dict[str, float | str]

_SENTENCES = ["One is so.", "Two is so.", "Three is so."]
_TEXTS = st.lists(st.sampled_from(_SENTENCES), max_size=2).map(" ".join)
_ROWS: st.SearchStrategy[Rows] = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.sampled_from("abcdefgh"),
            "user_input": st.sampled_from(["p", "q", "r"]),
            "reference": _TEXTS,
            "response": _TEXTS,
            "retrieved_contexts": st.lists(st.sampled_from(["C.", "D."]), min_size=1, max_size=2),
            "topic": st.sampled_from(["x", "y", "z"]),
        }
    ),
    unique_by=lambda row: str(row["id"]),
    min_size=1,
    max_size=8,
)
_SCRIPTS: st.SearchStrategy[Script] = st.fixed_dictionaries(
    {text: st.sampled_from([0.1, 0.9, 0.9, "broken"]) for text in (*_SENTENCES, "C.", "D.")}
)
_METRICS = ["context_recall", "faithfulness", "context_relevancy"]


class _Side:
    """A run as dictionaries by id."""

    def __init__(self, run: Run, rows: Rows) -> None:
        self.samples = list(run.samples)
        self.scores = {(row.metric, row.sample_id): row.score for row in run.scores}
        self.groups = {str(row["id"]): str(row["topic"]) for row in rows}
        self.summary = run.summary.metrics
        self._run = run

    def verdicts(self, metric: str, sample_id: str) -> list[Any]:
        return [row for row in self._run.verdicts if (row.metric, row.sample_id) == (metric, sample_id)]


def _expected(metric: str, before: _Side, after: _Side, *, grouped: bool, moved: int) -> MetricChange:
    pairing = reference(before.samples, after.samples)
    old, new, groups, moves = [], [], [], []
    labels: list[Any] = []
    units_of: list[list[UnitChange]] = []
    for one, other, _, same_content, _ in pairing.pairs:
        first, second = before.scores[metric, one], after.scores[metric, other]
        if first is None or second is None:
            continue
        units = unit_changes(before.verdicts(metric, one), after.verdicts(metric, other), same_content=same_content)
        group = after.groups[other] if grouped else other
        labels += [(label, group) for label in labelled_in_both(units)]
        units_of.append(units)
        old.append(first)
        new.append(second)
        groups.append(group)
        if first != second:
            changed = tuple(unit for unit in units if unit.before != unit.after)
            moves.append(SampleChange(sample_id=other, baseline_id=one, before=first, after=second, units=changed))
    moves.sort(key=lambda move: (-abs(move.after - move.before), move.after > move.before))
    return MetricChange(
        compared=len(old),
        unpaired=len(pairing.only_before) + len(pairing.only_after),
        unscored=len(pairing.pairs) - len(old),
        failed_in_baseline=before.summary[metric].failed,
        baseline_mean=before.summary[metric].mean,
        run_mean=after.summary[metric].mean,
        scores=_scores(old, new, groups if grouped else None) if old else None,
        verdicts=_verdicts(labels, units_of, grouped=grouped) if labels else None,
        moved=tuple(moves[:moved]),
    )


def _scores(old: list[float], new: list[float], groups: list[str] | None) -> ScoreChanges:
    change = paired_difference(old, new, clusters=groups)
    return ScoreChanges(
        before=math.fsum(old) / len(old),
        after=math.fsum(new) / len(new),
        difference=change.difference.mean,
        ci95=(change.difference.low, change.difference.high),
        method=change.difference.method,
        clusters=change.difference.clusters,
        improved=change.improved,
        worsened=change.worsened,
        tied=change.tied,
        smallest_detectable=change.smallest_detectable,
    )


def _verdicts(labels: list[Any], units_of: list[list[UnitChange]], *, grouped: bool) -> VerdictChanges:
    before, after = ([float(label[side]) for label, _ in labels] for side in (0, 1))
    change = paired_difference(before, after, clusters=[group for _, group in labels])
    alone = not grouped and all(len(units) <= 1 for units in units_of)
    return VerdictChanges(
        paired=len(labels),
        unpaired=sum(map(len, units_of)) - len(labels),
        up=change.improved,
        down=change.worsened,
        difference=change.difference.mean,
        ci95=(change.difference.low, change.difference.high),
        mcnemar_p=mcnemar(change.improved, change.worsened) if alone else None,
    )


@given(_ROWS, _ROWS, _SCRIPTS, _SCRIPTS, st.booleans(), st.integers(0, 3))
@settings(deadline=None, max_examples=12)
def test_a_comparison_is_that_of_dictionaries(
    old: Rows, new: Rows, script: Script, other: Script, grouped: bool, moved: int
) -> None:
    """Samples that are shared, renamed, changed, doubled, undefined or failed."""
    cluster_by = "topic" if grouped else None
    with tempfile.TemporaryDirectory() as folder:
        baseline, run = _runs(Path(folder), [(old, script), (new, other)], cluster_by)
        found = compare(baseline, run, moved=moved)
        before, after = _Side(baseline, old), _Side(run, new)
        assert found.metrics.keys() == set(_METRICS)
        for metric, change in found.metrics.items():
            expected = _expected(metric, before, after, grouped=grouped, moved=moved)
            assert change == expected


def _runs(folder: Path, runs: list[tuple[Rows, Script]], cluster_by: str | None) -> Iterator[Run]:
    for number, (rows, script) in enumerate(runs):
        engine = ScriptedEngine(script, default=1.0)
        yield evaluate(rows, out=folder / str(number), engine=engine, metrics=_METRICS, cluster_by=cluster_by)
