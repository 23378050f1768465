"""The arithmetic on the answers to the items, by hand."""

from math import log

import pytest

from localjudge.doctor.probes import (
    JudgedArrangement,
    JudgedProbe,
    PairFigures,
    Probe,
    ProbeAnswers,
    ProbeFigures,
    Rearranged,
    at_most_probes,
    limits_json,
    probe_checks,
    probe_figures,
    probes,
    rearranged,
    shown,
    shown_lean,
    skill,
)


def figures_of(items: list[JudgedProbe], arrangements: list[JudgedArrangement] | None = None) -> ProbeFigures:
    masses = tuple(0.9 for item in items if item.p_yes is not None)
    return probe_figures(ProbeAnswers(at_most_probes(None), tuple(items), tuple(arrangements or ()), masses))


def first(kind: str) -> Probe:
    return next(item for item in probes() if item.kind == kind)


def test_the_figures_of_the_picture() -> None:
    """Labels 0 0 1 1 with .2 .7 .6 .9: three of four pairs in order; at .5, 0 1 1 1: (1 + 1/2) / 2, and 3/4 - 2/4.

    The calibration error has each in a bin of its own: (.2 + .7 + .4 + .1) / 4.
    """
    kinds = (("number", 0.2), ("relation", 0.7), ("copied", 0.6), ("paraphrase", 0.9))
    found = skill([JudgedProbe(first(kind), p) for kind, p in kinds])
    assert found.auc.mean == 0.75
    assert found.balanced_accuracy.mean == 0.75
    assert found.lean.mean == 0.25
    assert found.calibration_error == pytest.approx(0.35)
    assert found.right == {"number": (1, 1), "relation": (0, 1), "copied": (1, 1), "paraphrase": (1, 1)}


def test_one_passage_has_figures_and_no_interval() -> None:
    """However many items: what another passage would give is not known. The figures bar what a limit has to reach."""
    passage = [item for item in probes() if item.passage == probes()[0].passage]
    figures = figures_of([JudgedProbe(item, 0.9 if item.answer else 0.1) for item in passage])
    for one in figures.skills.values():
        assert (shown(one.auc), shown_lean(one.lean)) == (
            "1.00 (1 passage: no interval)",
            "+0.00 (1 passage: no interval)",
        )
        assert limits_json(one.auc) == {"value": 1.0, "low": None, "high": None}
    assert figures.sensitivity is not None
    assert shown(figures.sensitivity.falls) == "1.00 (1 passage: no interval)"
    assert [check.name for check in probe_checks(figures) if check.status == "ok"] == []


def test_a_judge_that_knows_all_has_every_figure_at_its_best() -> None:
    found = figures_of([JudgedProbe(item, 0.99 if item.answer else 0.01) for item in probes()])
    for task, items in (("attribution", 256), ("relevance", 128)):
        one = found.skills[task]  # type: ignore[index]
        assert (one.auc.n, one.auc.clusters, one.auc.low, one.balanced_accuracy.low) == (items, 32, 1.0, 1.0)
        assert (one.lean.low, one.lean.high, one.slope) == (0.0, 0.0, None)
        assert one.calibration_error == pytest.approx(0.01)
        assert all(right == of for right, of in one.right.values())
    assert found.sensitivity is not None
    assert found.sensitivity.every == pytest.approx(PairFigures(64, 64, 64, 0.98))


def test_pairs_are_those_of_one_passage_and_their_kinds_add_up() -> None:
    """A changed number takes .2 off, anything else changed adds .1; nothing crosses .5."""
    p = {"number": 0.6, "name": 0.9, "negation": 0.9}
    found = figures_of([JudgedProbe(item, p.get(item.kind, 0.8)) for item in probes()]).sensitivity
    assert found is not None
    assert found.by_kind["number"] == pytest.approx(PairFigures(24, 24, 0, 0.2))
    assert sum(one.pairs for one in found.by_kind.values()) == found.every.pairs == 64
    assert found.every.fell == 24
    assert found.every.mean_fall == pytest.approx((24 * 0.2 - 40 * 0.1) / 64)
    assert found.falls.mean == 24 / 64


def test_an_equal_probability_has_not_fallen() -> None:
    found = figures_of([JudgedProbe(item, 0.5) for item in probes()]).sensitivity
    assert found is not None
    assert (found.every.fell, found.every.turned) == (0, 0)


def test_a_pair_of_which_a_half_has_no_answer_is_not_counted() -> None:
    items = [JudgedProbe(item, None if item.kind in ("copied", "combination") else 0.5) for item in probes()]
    found = figures_of(items).sensitivity
    assert found is not None
    assert found.every.pairs == sum(item.changed_from == "paraphrase" for item in probes())


def test_moves_are_in_log_odds_and_flips_are_across_the_threshold() -> None:
    """From .8 to .6: log 4 - log 1.5 = .981, no flip; from .4 to .5: log 1 - log(2/3) = .405, a flip."""
    last = [one for one in rearranged() if one.effect == "needed chunk last"][:2]
    moved = [JudgedArrangement(last[0], 0.8, 0.6), JudgedArrangement(last[1], 0.4, 0.5)]
    found = figures_of([], moved)
    effect = found.order["needed chunk last"]
    assert (effect.asked, effect.flipped, found.flipped) == (2, 1, 0.5)
    assert effect.largest_move == pytest.approx(log(4) - log(1.5))
    assert effect.mean_move == pytest.approx((log(4) - log(1.5) + log(1.5)) / 2)


def test_certainty_moves_by_a_finite_number() -> None:
    """From 0 to 1 is from log(1e-6) to its opposite, about 27.6."""
    one: Rearranged = rearranged()[0]
    effect = figures_of([], [JudgedArrangement(one, 0.0, 1.0)]).order[one.effect]
    assert effect.largest_move == pytest.approx(2 * log(1e6), abs=1e-5)


def test_a_task_with_answers_to_one_label_alone_has_no_figures() -> None:
    found = figures_of([JudgedProbe(item, 0.7 if item.answer else None) for item in probes()])
    assert (found.skills, found.sensitivity, found.flipped, found.median_mass) == ({}, None, None, 0.9)
    assert figures_of([]).median_mass is None


def test_figures_do_not_depend_on_the_order_of_the_items() -> None:
    items = [JudgedProbe(item, 0.3 + 0.4 * ((place * 7) % 10) / 10) for place, item in enumerate(probes(8))]
    one, other = figures_of(items), figures_of(items[::-1])
    for task, measured in one.skills.items():
        assert (measured.auc, measured.balanced_accuracy, measured.lean, measured.slope) == (
            other.skills[task].auc,
            other.skills[task].balanced_accuracy,
            other.skills[task].lean,
            other.skills[task].slope,
        )
