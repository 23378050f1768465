import json
from pathlib import Path
from typing import Any

import pytest
from command_line import printed_summary

import localjudge
from localjudge import Criterion, InputError, Run, ScriptedEngine, evaluate, model_registry

ROWS: list[dict[str, Any]] = [
    {
        "id": "a",
        "user_input": "Why?",
        "retrieved_contexts": ["It rained."],
        "response": "It rained. So there.",
    },
    {
        "id": "b",
        "user_input": "How?",
        "retrieved_contexts": ["Slowly."],
        "response": "I do not know.",
    },
    {"id": "c", "user_input": "Who?", "retrieved_contexts": ["Nobody."], "response": None},
]
SCRIPT = {"It rained. So there.": 0.2, "I do not know.": 0.9, "It rained.": 0.4, "So there.": 0.9}
KIND = Criterion(name="kind", question="Is it kind?", of="sentence")
TONE = Criterion(
    name="tone",
    question="Which tone?",
    levels={1: "rude", 2: "curt", 3: "plain", 4: "warm", 5: "courteous"},
)


class Lexical(ScriptedEngine):
    """An engine that has the weights of the lexical judge, by its checksum."""

    @property
    def identity(self) -> dict[str, Any]:
        """Return the identity of the model's engine."""
        return {**super().identity, "model_sha256": model_registry.registered()["lexical"].sha256}


def engine() -> ScriptedEngine:
    return ScriptedEngine(SCRIPT, default=0.5)


def run(out: Path, *metrics: Any, **options: Any) -> Run:
    return localjudge.evaluate(ROWS, out=out, engine=engine(), metrics=metrics, **options)


def read_manifest(directory: Path) -> Any:
    return json.loads((directory / "manifest.json").read_text())


def test_a_criterion_is_a_metric_like_any_other(tmp_path: Path) -> None:
    """refuses: a 1 - it does not, b 0. kind: (.4 -> 0, .9 -> 1) = 1/2, and 1. tone: 1 + 4 x .2."""
    judged = run(tmp_path / "run", "refuses", KIND, TONE)
    assert {name: (one.mean, one.undefined) for name, one in judged.summary.metrics.items()} == {
        "kind": (0.75, 1),
        "refuses": (0.5, 1),
        "tone": (pytest.approx(0.55), 1),
    }
    scores = {(row.sample_id, row.metric): row for row in judged.scores}
    assert scores["a", "tone"].detail == "expected level 1.80 of 1 to 5"
    assert scores["c", "refuses"].detail == "response is null"
    assert judged["refuses"].ci95 is not None
    assert judged.check(["refuses>=0.9"]).decisions[0].outcome == "undecided"


def test_levels_do_not_make_a_judge_undecided(tmp_path: Path) -> None:
    """An expected level of 3 expresses no doubt, in a new run and in an opened one."""
    rubric_run = localjudge.evaluate(
        ROWS, out=tmp_path, engine=ScriptedEngine({}, default=0.5), metrics=[TONE]
    )
    assert rubric_run.summary.verdicts == Run.open(tmp_path).summary.verdicts
    assert "may be guessing" not in printed_summary(rubric_run, "--metrics", "tone")


def test_criteria_are_signed_and_stored_in_the_run(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('name = "kind"\nquestion = "Is it kind?"\nof = "sentence"\n')
    other = KIND.model_copy(update={"good": "no"})
    runs = [
        run(tmp_path / name, value, TONE)
        for name, value in (("value", KIND), ("file", file), ("other", other))
    ]
    file.unlink()
    assert runs[0].summary.signature == runs[1].summary.signature != runs[2].summary.signature
    judge = read_manifest(tmp_path / "value")["judge"]
    assert judge["metrics"]["kind"] == {"version": 2, "criterion_sha256": KIND.sha256}
    assert judge["judge"]["special_tasks"].keys() == {"criterion", "rubric"}
    plain = localjudge.evaluate(
        ROWS, out=tmp_path / "plain", engine=engine(), metrics=["faithfulness"]
    ).manifest.judge
    assert not plain.judge.special_tasks, "their words are signed only where they are asked"
    verification = Run.open(tmp_path / "file").verify(engine=engine())
    assert (verification.result, verification.judge_changes, verification.files) == (
        "bit-identical",
        (),
        {},
    )
    again = engine()
    same = localjudge.evaluate(ROWS, out=tmp_path / "file", engine=again, metrics=[KIND, TONE])
    assert (same.summary, again.asked) == (runs[1].summary, ())
    with pytest.raises(InputError, match=r"metrics\.kind\.criterion_sha256"):
        run(tmp_path / "file", other, TONE)


def test_rescoring_needs_no_criteria_file_and_can_add_a_criterion(tmp_path: Path) -> None:
    """At .95 no answer to `kind` is yes: 0. Only the added criterion is asked."""
    first = run(tmp_path / "run", KIND)
    asked = engine()
    assert (
        evaluate(reuse=first, threshold=0.95, out=tmp_path / "stricter", engine=asked)["kind"].mean
        == 0
    )
    assert asked.asked == ()
    more = evaluate(reuse=first, metrics=["kind", TONE], out=tmp_path / "more", engine=asked)
    assert (list(more), len(asked.asked)) == (["kind", "tone"], 2)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([KIND, "faithfulness"], ["faithfulness"]),
        ([KIND, TONE], ["tone"]),
        ([KIND, TONE], [KIND]),
    ],
)
def test_a_run_stores_only_its_own_criteria(
    tmp_path: Path, first: list[Any], second: list[Any]
) -> None:
    """A run that reuses another one without its criterion can be opened again."""
    reused = run(tmp_path / "run", *first)
    evaluate(reuse=reused, metrics=second, out=tmp_path / "less", engine=engine())
    opened = Run.open(tmp_path / "less")
    wanted = [metric if isinstance(metric, str) else metric.name for metric in second]
    assert list(opened) == wanted
    assert list(opened.manifest.criteria) == [name for name in wanted if name != "faithfulness"]


@pytest.mark.parametrize(
    "criterion",
    ["refuses", KIND, TONE, "refusal", "context_sufficiency", "abstention"],
    ids=str,
)
def test_criteria_refuse_the_lexical_judge_early(tmp_path: Path, criterion: Any) -> None:
    lexical = Lexical({})
    with pytest.raises(InputError, match=r"cannot answer"):
        localjudge.evaluate(
            ROWS, out=tmp_path / "run", metrics=[criterion, "faithfulness"], engine=lexical
        )
    assert not lexical.asked
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("kept", "complaint"),
    [
        ([], "criteria: "),
        ([{**KIND.model_dump(mode="json"), "good": "no"}], "criteria: "),
        (["/etc/hostname"], "criteria"),
        ([{"name": "kind"}], "question: Field required"),
    ],
)
def test_criteria_edited_in_a_run_are_refused(tmp_path: Path, kept: Any, complaint: str) -> None:
    """No file named by it is read."""
    run(tmp_path / "run", KIND)
    manifest = read_manifest(tmp_path / "run")
    manifest["environment"]["settings"]["criteria"] = kept
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=complaint):
        Run.open(tmp_path / "run")
