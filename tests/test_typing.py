"""Documented calls, checked by mypy and run by the tests."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, get_origin, get_type_hints

import pytest

import localjudge
from localjudge import Metric, Sample
from localjudge.metrics import Scored, Sentences, Steps, catalog

ROWS = [{"id": "a", "user_input": "?", "retrieved_contexts": ["Rain."], "response": "It rains."}]
KIND = localjudge.Criterion(name="kind", question="Is it kind?")


class Halves:
    """Metric with plain class attributes, and without a judge."""

    name = "halves"
    version = 1
    required_fields = frozenset({"response"})

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Ask nothing."""
        yield from ()
        return Scored(value=0.5)


@dataclass(frozen=True)
class Part(Halves):
    """Metric with instance attributes."""

    name: str = "part"
    version: int = 1


def test_metrics_may_be_names_objects_and_criteria(tmp_path: Path) -> None:
    """A single metric needs no list. Names find bundled metrics and criteria."""
    engine = localjudge.ScriptedEngine({}, default=1)
    how = localjudge.evaluate(ROWS, metrics=Halves(), engine=engine, out=False)
    again = localjudge.evaluate(
        ROWS, metrics=KIND, engine=engine, reuse=[how], out=False, progress=False
    )
    assert (list(how), list(again)) == (["halves"], ["kind"])
    run = localjudge.evaluate(
        ROWS,
        metrics=[KIND, Halves(), Part(), "faithfulness", "refuses"],
        engine=engine,
        out=tmp_path / "run",
    )
    means: Mapping[str, object] = {name: metric.mean for name, metric in run.items()}
    assert means == {"faithfulness": 1, "kind": 1, "refuses": 0, "halves": 0.5, "part": 0.5}
    assert run.verify(engine=engine, metrics=[Halves(), Part()]).result == "bit-identical"
    assert list(
        localjudge.evaluate(
            reuse=run, metrics=[Halves(), "kind"], engine=engine, out=tmp_path / "again"
        )
    ) == [
        "halves",
        "kind",
    ]
    with pytest.raises(localjudge.InputError, match="'halves'"):
        localjudge.evaluate(reuse=run, engine=engine)


@pytest.mark.parametrize(
    "metric",
    [KIND, *(catalog.example(name) for name in catalog.our_names())],
    ids=lambda metric: metric.name,
)
def test_metrics_declare_no_class_variables_of_the_protocol(metric: Metric) -> None:
    """Pyright refuses `metrics=[Criterion(...)]` if the class declares `version: ClassVar[int]`."""
    hints: dict[str, Any] = get_type_hints(type(metric))
    assert not [
        name
        for name in ("name", "version", "required_fields")
        if get_origin(hints.get(name)) is ClassVar
    ]


@pytest.mark.parametrize("name", localjudge.__all__)
def test_every_public_name_and_method_is_documented(name: str) -> None:
    public = getattr(localjudge, name)
    members = vars(public).items() if isinstance(public, type) else []
    methods = [
        member
        for label, member in members
        if callable(member) and not label.startswith(("_", "model_"))
    ]
    assert [entry for entry in (public, *methods) if not entry.__doc__] == []


def test_a_type_checker_refuses_other_types_as_data() -> None:
    """Mypy reports an unused ignore comment if `data` accepts any object."""
    with pytest.raises(localjudge.InputError):
        localjudge.evaluate(3)  # type: ignore[arg-type]
