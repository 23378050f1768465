"""A run with questions of one's own: a metric like any other, which needs no file once the run is begun."""

import json
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import Criterion, InputError, Run, ScriptedEngine, model_registry
from localjudge.analysis.check import check
from localjudge.metrics.criterion import read_criterion
from localjudge.report.tables import remarks
from localjudge.run.estimate import estimate
from localjudge.run.verify import verify_run as verify

ROWS: list[dict[str, Any]] = [
    {"id": "a", "user_input": "Why?", "retrieved_contexts": ["It rained."], "response": "It rained. So there."},
    {"id": "b", "user_input": "How?", "retrieved_contexts": ["Slowly."], "response": "I do not know."},
    {"id": "c", "user_input": "Who?", "retrieved_contexts": ["Nobody."], "response": None},
]
SCRIPT = {"It rained. So there.": 0.2, "I do not know.": 0.9, "It rained.": 0.4, "So there.": 0.9}
KIND = Criterion(name="kind", question="Is it kind?", of="sentence")
TONE = Criterion(
    name="tone", question="Which tone?", levels={1: "rude", 2: "curt", 3: "plain", 4: "warm", 5: "courteous"}
)


class Lexical(ScriptedEngine):
    """An engine with the weights of the reference judge, by its checksum."""

    @property
    def identity(self) -> dict[str, Any]:
        """As the model's engine says it."""
        return {**super().identity, "model_sha256": model_registry.registered()["reference"].sha256}


def engine() -> ScriptedEngine:
    return ScriptedEngine(SCRIPT, default=0.5)


def run(out: Path, *metrics: Any, **options: Any) -> Run:
    return localjudge.evaluate(ROWS, out=out, engine=engine(), metrics=metrics, **options)


def manifest_of(directory: Path) -> Any:
    return json.loads((directory / "manifest.json").read_text())


def test_a_criterion_is_a_metric_like_any_other(tmp_path: Path) -> None:
    """refuses: a 1 - it does not, b 0. kind: (.4 -> 0, .9 -> 1) = 1/2, and 1. tone: .2 is level 1 + 4 x .2 = 1.8."""
    found = run(tmp_path / "run", "refuses", KIND, TONE)
    assert {name: (one.mean, one.undefined) for name, one in found.summary.metrics.items()} == {
        "kind": (0.75, 1),
        "refuses": (0.5, 1),
        "tone": (pytest.approx(0.55), 1),
    }
    scores = {(row.sample_id, row.metric): row for row in found.scores}
    assert scores["a", "tone"].detail == "expected level 1.80 of 1 to 5"
    assert scores["c", "refuses"].detail == "response is null"
    assert found["refuses"].ci95 is not None
    assert check(found, gates=["refuses>=0.9"]).decisions[0].outcome == "undecided"


def test_levels_do_not_make_a_judge_undecided(tmp_path: Path) -> None:
    """An expected level of 3 is no doubt about anything; the run says so when it is made, opened and verified."""
    undecided = ScriptedEngine({}, default=0.5)
    found = localjudge.evaluate(ROWS, out=tmp_path, engine=undecided, metrics=[TONE])
    assert found.summary.verdicts == Run.open(tmp_path).summary.verdicts
    assert verify(found, engine=ScriptedEngine({}, default=0.5)).files == {}
    for metric in (None, "tone"):
        said = list(remarks(found, metric=metric))
        assert "no verdict has a probability of 1; median legal mass 1.000" in said
        assert not any("hardly decides" in line for line in said)


def test_the_prompt_holds_the_words_the_examples_and_what_is_shown(tmp_path: Path) -> None:
    asked = engine()
    localjudge.evaluate(ROWS, out=tmp_path / "run", engine=asked, metrics=["names_its_source"])
    names = read_criterion("names_its_source")
    prompt = "".join(piece.text for node in asked.asked[0].path for piece in node)
    for text in (names.question, *(example.text for example in names.examples), "It rained. So there."):
        assert text in prompt
    assert "Why?" not in prompt
    assert prompt.count("<response>") == 1 + len(names.examples)
    assert "{" not in prompt.replace('{"answer":"', "")
    assert asked.asked[0].path[:-1] == asked.asked[1].path[:-1], "samples share all but what is theirs"


def test_named_beside_metrics_it_is_one_of_them(tmp_path: Path) -> None:
    """Alone it is all that is computed; named in `metrics` as well it is computed once."""
    names = ["faithfulness", "kind"]
    assert list(run(tmp_path / "alone", KIND).summary.metrics) == ["kind"]
    assert list(run(tmp_path / "beside", KIND, "faithfulness").summary.metrics) == names
    assert list(run(tmp_path / "twice", KIND, "kind", "faithfulness").summary.metrics) == names


def test_its_words_are_in_the_signature_and_its_path_is_not(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('name = "kind"\nquestion = "Is it kind?"\nof = "sentence"\n')
    signatures = [
        run(tmp_path / name, criterion).summary.signature
        for name, criterion in (("value", KIND), ("file", file), ("other", KIND.model_copy(update={"good": "no"})))
    ]
    assert signatures[0] == signatures[1] != signatures[2]
    judge = manifest_of(tmp_path / "value")["judge"]
    assert judge["metrics"]["kind"] == {"version": 1, "criterion_sha256": KIND.sha256}
    assert judge["judge"]["special_tasks"].keys() == {"criterion"}
    assert "criterion_sha256" not in str(
        localjudge.evaluate(ROWS, out=tmp_path / "none", engine=engine(), metrics=["faithfulness"]).manifest.judge
    )


def test_a_run_is_opened_verified_and_gone_on_with_without_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('name = "kind"\nquestion = "Is it kind?"\nof = "sentence"\n')
    first = run(tmp_path / "run", file, TONE)
    file.unlink()
    found = verify(Run.open(tmp_path / "run"), engine=engine())
    assert (found.result, found.judge_changes, found.files) == ("bit-identical", (), {})
    again = engine()
    assert localjudge.evaluate(ROWS, out=tmp_path / "run", engine=again, metrics=[KIND, TONE]).summary == first.summary
    assert not again.asked
    with pytest.raises(InputError, match=r"metrics\.kind\.criterion_sha256"):
        run(tmp_path / "run", KIND.model_copy(update={"good": "no"}), TONE)


def test_it_is_rescored_without_the_file_and_another_is_added(tmp_path: Path) -> None:
    """At .95 no answer of kind is yes: 0. What is added alone is asked."""
    first = run(tmp_path / "run", KIND)
    asked = engine()
    stricter = first.rescore(threshold=0.95, out=tmp_path / "stricter", engine=asked)
    assert (stricter["kind"].mean, asked.asked) == (0, ())
    more = first.rescore(["kind", TONE], out=tmp_path / "more", engine=asked)
    assert list(more.summary.metrics) == ["kind", "tone"]
    assert len(asked.asked) == 2
    only = more.rescore(metrics=["tone"], out=tmp_path / "only", engine=asked)
    assert list(only.summary.metrics) == ["tone"]
    assert verify(only, engine=engine()).result == "bit-identical"


@pytest.mark.parametrize("criterion", ["refuses", KIND, TONE, "refusal", "context_sufficiency", "abstention"], ids=str)
def test_the_reference_judge_is_refused_before_anything_is_asked(tmp_path: Path, criterion: Any) -> None:
    """It compares words: it would answer any question with how many of them are new."""
    lexical = Lexical({})
    with pytest.raises(InputError, match=r"cannot be asked what .* asks: it does not read instructions"):
        localjudge.evaluate(ROWS, out=tmp_path / "run", metrics=[criterion, "faithfulness"], engine=lexical)
    with pytest.raises(InputError, match="does not read instructions"):
        estimate(ROWS, metrics=criterion, engine=lexical)
    assert not lexical.asked
    assert not (tmp_path / "run").exists()


def test_what_does_not_fit_is_failed_and_never_cut(tmp_path: Path) -> None:
    """That a part of the chunk answers is no answer about the chunk."""
    chunk = Criterion(name="kind", question="Is it?", of="chunk")
    rows = [{"id": "a", "retrieved_contexts": ["Word after word. " * 200]}]
    small = ScriptedEngine({}, default=0.9, capacity=1_500)
    found = localjudge.evaluate(rows, out=tmp_path / "run", engine=small, metrics=chunk)
    assert (found["kind"].failed, found["kind"].mean) == (1, None)
    assert "do not fit" in (found.scores[0].detail or "")


@pytest.mark.parametrize(
    ("kept", "complaint"),
    [
        ([], "criteria: "),
        ([{**KIND.model_dump(mode="json"), "good": "no"}], "criteria: "),
        (["/etc/hostname"], "settings.criteria"),
        ({"kind": 1}, "settings.criteria"),
        ([{"name": "kind"}], "manifest.json: a criterion cannot be asked: question"),
    ],
)
def test_words_that_a_stranger_changed_are_refused(tmp_path: Path, kept: Any, complaint: str) -> None:
    """And none of them names a file that is read."""
    run(tmp_path / "run", KIND)
    manifest = manifest_of(tmp_path / "run")
    manifest["environment"]["settings"]["criteria"] = kept
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=complaint):
        Run.open(tmp_path / "run")
