"""The recommendations of `doctor` appear with every number of that judge and change no result."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import gate_file, printed, printed_summary

import localjudge
from localjudge import Run, ScriptedEngine, resources
from localjudge.run_directory.measured_judges import Examination, remember_examination

ROWS = [
    {
        "id": "a",
        "retrieved_contexts": ["Rain."],
        "reference": "It rains. It is red.",
        "response": "It rains.",
    }
]
ANSWERED = [{"user_input": "Is it wet?", "response": "It is.", "retrieved_contexts": ["Rain."]}]
UNFIT = Examination(uses={"attribution": (), "relevance": ()}, items=384)
SAID = "not recommended for: ranking, means, thresholds (doctor, 384 items)"


class Model(ScriptedEngine):
    """An engine with a checksum."""

    @property
    def identity(self) -> dict[str, Any]:
        """Return the identity of a model file."""
        return {**super().identity, "model_sha256": "ab" * 32, "model_size": 1 << 20}


Make = Callable[..., Run]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))

    def run(name: str = "run", data: Any = ROWS, **options: Any) -> Run:
        return localjudge.evaluate(
            data, out=tmp_path / name, engine=Model({}, default=0.9), **options
        )

    return run


def remember(run: Run) -> None:
    remember_examination(run.manifest.judge, UNFIT)


def everywhere(run: Run) -> dict[str, str]:
    gates = ["context_recall>=0.1"]
    shown = {
        "table": printed_summary(run, width=1_000),
        "JSON": printed("show", run, "--json"),
        "report": run.report().read_text(encoding="utf-8"),
        "Markdown": gate_file("markdown", run, gates, undecided="pass"),
        "JUnit": gate_file("junit", run, gates, undecided="pass"),
        "notebook": run._repr_html_(),
        "comparison": printed("compare", run, run, width=1_000),
    }
    assert run.check().passed
    return shown


def test_recommendations_appear_with_every_number(make: Make) -> None:
    run = make()
    assert {name for name, text in everywhere(run).items() if "not examined" not in text} == set()
    remember(run)
    assert {name for name, text in everywhere(run).items() if SAID not in text} == set()


def test_recommendations_change_no_result_and_no_signature(make: Make) -> None:
    before = make("before")
    remember(before)
    after = make("after")
    assert after.manifest.signature == before.manifest.signature
    for name in ("summary.json", "scores.jsonl", "verdicts.jsonl"):
        assert (after.directory / name).read_bytes() == (before.directory / name).read_bytes()


def test_recommendations_depend_on_prompt_settings(make: Make) -> None:
    remember(make("plain"))
    assert "not examined" in str(make("with reasons", reasons="before").judge.examined)
    assert make("other metric", metrics=["faithfulness"]).judge.examined == SAID


def test_different_recommendations_are_listed_by_task() -> None:
    examination = Examination(
        uses={"attribution": ("ranking", "means"), "relevance": ("ranking",)}, items=96
    )
    words = (
        "recommended for: ranking and means (attribution), ranking (relevance) (doctor, 96 items)"
    )
    assert str(examination) == words


DAMAGED: dict[str, bytes] = {
    "not UTF-8": b"\xff\xfe",
    "prose": b"recommended for: everything",
    "another shape": b'{"uses": ["ranking"], "items": 3}',
    "an unknown use": b'{"uses": {"attribution": ["gold medals"]}, "items": 3}',
    "words as a task": b'{"uses": {"trust this judge! \\u001b[31m": ["ranking"]}, "items": 3}',
    "no number": b'{"uses": {}, "items": "many"}',
    "empty": b"",
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_state_file_counts_as_not_examined(make: Make, content: bytes) -> None:
    """Only data of the known shape appear next to a number, never text from the file."""
    run = make()
    remember(run)
    assert run.judge.examined == SAID
    [file] = (resources.state_directory() / "examined").iterdir()
    file.write_bytes(content)
    assert "not examined" in str(run.judge.examined)


def test_an_unreadable_state_file_counts_as_not_examined(make: Make) -> None:
    run = make()
    remember(run)
    [file] = (resources.state_directory() / "examined").iterdir()
    file.unlink()
    file.mkdir()
    assert "not examined" in str(run.judge.examined)


@pytest.mark.parametrize(
    ("uses", "said", "is_old"),
    [
        ({"attribution": ["ranking"], "relevance": ["ranking"]}, "ranking (doctor", True),
        ({"attribution": ["ranking"], "relevance": []}, "not relevance (doctor", True),
        ({"attribution": ["ranking"], "answers": []}, "not answer_relevancy (doctor", False),
    ],
)
def test_a_stored_examination_without_answers_is_readable(
    make: Make, uses: dict[str, list[Any]], said: str, is_old: bool
) -> None:
    """Numbers of `answer_relevancy` then say that answers were not measured; others do not."""
    stored = Examination.model_validate_json(json.dumps({"uses": uses, "items": 384}))
    for metric in ("answer_relevancy", "faithfulness"):
        run = make(metric, metrics=[metric], data=ANSWERED)
        remember_examination(run.manifest.judge, stored)
        assert said in str(run.judge.examined)
        told = "examine the judge again" in printed_summary(run, width=1_000)
        assert told == (is_old and metric == "answer_relevancy")
