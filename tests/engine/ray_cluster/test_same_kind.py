"""Which workers may judge, and what the signature says of them."""

from typing import Any

import pytest

from localjudge.engine.hardware import processor_name
from localjudge.engine.ray_cluster.judge_worker import WorkerReport, package_versions
from localjudge.engine.ray_cluster.same_kind import KindRule

HERE = {"engine": "e", "system": "CPU : AVX2 = 1 | AVX512 = 1 | REPACK = 1"}
OURS = {**HERE, "self_check": "bit-identical"}
OLDER = {**OURS, "system": "CPU : AVX2 = 1 | REPACK = 1"}


def report(
    identity: dict[str, Any], node: str = "n1", processor: str = processor_name(), **versions: str
) -> WorkerReport:
    return WorkerReport(node, 1, processor, identity, {**package_versions(), **versions}, forks=True)


def test_workers_of_our_kind_have_the_identity_of_an_engine_in_process() -> None:
    rule = KindRule(HERE, allow_others=False)
    assert [rule.refusal(report(OURS, node)) for node in ("n1", "n2")] == [None, None]
    assert rule.identity() == OURS


def test_another_processor_is_refused_by_name_and_by_what_differs() -> None:
    rule = KindRule(HERE, allow_others=False)
    refusal = rule.refusal(report(OLDER, "old-node"))
    assert refusal is not None
    assert "on node old-node" in refusal.message
    assert "system: nothing there, AVX512 = 1 here" in refusal.message
    assert "allow_other_processors=True" in str(refusal.hint)


def test_another_processor_is_refused_where_the_build_is_the_same() -> None:
    """A build that suits many processors says the same of itself on all of them."""
    rule = KindRule(HERE, allow_others=False)
    for _ in range(2):  # also once one of ours is let in
        refusal = rule.refusal(report(OURS, "amd-node", processor="EPYC 9"))
        assert refusal is not None
        assert "on node amd-node" in refusal.message
        assert "processor: EPYC 9 there" in refusal.message
        assert "system" not in refusal.message
        assert rule.refusal(report(OURS)) is None
    assert rule.identity() == OURS


def test_processors_that_are_allowed_are_named_and_one_that_all_have_is_not() -> None:
    """Of two kinds both names are in the signature; of one kind, whatever this machine is, none."""
    rule = KindRule(HERE, allow_others=True)
    assert rule.refusal(report(OURS, processor="EPYC 9")) is None
    assert rule.refusal(report(OURS, processor="Xeon 6")) is None
    identity = rule.identity()
    assert sorted(one["processor"] for one in identity.pop("workers")) == ["EPYC 9", "Xeon 6"]
    assert identity == OURS
    rule = KindRule(HERE, allow_others=True)
    assert [rule.refusal(report(OURS, node, processor="EPYC 9")) for node in ("n1", "n2")] == [None, None]
    assert rule.identity() == OURS


@pytest.mark.parametrize("package", ["localjudge", "llguidance"])
def test_another_version_of_a_package_is_refused(package: str) -> None:
    refusal = KindRule(HERE, allow_others=False).refusal(report(OURS, **{package: "9.9"}))
    assert refusal is not None
    assert f"{package} 9.9 there" in refusal.message


def test_what_only_a_trial_finds_out_has_to_be_the_same_everywhere() -> None:
    """The self-check of the first worker counts: this machine has made none."""
    rule = KindRule(HERE, allow_others=False)
    assert rule.refusal(report(OURS)) is None
    refusal = rule.refusal(report({**OURS, "self_check": "not forked", "repack": False}))
    assert refusal is not None
    assert "self_check: not forked there, bit-identical here" in refusal.message
    assert "repack: False there" in refusal.message


def test_others_that_are_allowed_are_named_whoever_came_first() -> None:
    found = []
    for order in ([OURS, OLDER], [OLDER, OURS], [OURS, OLDER, OURS]):
        rule = KindRule(HERE, allow_others=True)
        assert [rule.refusal(report(one)) for one in order] == [None] * len(order)
        found.append(rule.identity())
    assert found[0] == found[1] == found[2]
    workers = found[0].pop("workers")
    assert found[0] == {"engine": "e", "self_check": "bit-identical"}
    assert sorted(one["system"] for one in workers) == sorted([OURS["system"], OLDER["system"]])


def test_others_that_are_allowed_and_all_alike_judge_as_one_of_them_alone_would() -> None:
    """Started from a machine that does not judge: a run on one of the nodes has the same signature."""
    rule = KindRule(HERE, allow_others=True)
    assert rule.refusal(report(OLDER)) is None
    assert rule.identity() == OLDER


def test_once_the_signature_is_written_no_new_kind_is_let_in() -> None:
    rule = KindRule(HERE, allow_others=True)
    assert rule.refusal(report(OURS)) is None
    rule.identity()
    assert rule.refusal(report(OLDER, "late")) is not None
    assert rule.refusal(report(OURS, "late")) is None


def test_no_name_of_a_node_is_in_the_identity() -> None:
    rule = KindRule(HERE, allow_others=True)
    for identity, node in ((OURS, "secret-node-1"), (OLDER, "secret-node-2")):
        rule.refusal(report(identity, node))
    assert "secret-node" not in str(rule.identity())
