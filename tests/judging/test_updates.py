"""Updated packages never block a run or the reuse of its answers; what can change an answer
does.
"""

import json
import platform
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from localjudge import InputError, Run, ScriptedEngine, evaluate
from localjudge.metrics import Span
from localjudge.text import Segmenter
from localjudge.text.segmenter import judged_sentences
from localjudge.types import VerdictRequest

FILES = ("scores.jsonl", "verdicts.jsonl", "evidence.jsonl", "summary.json")
ROWS = [
    {
        "id": str(number),
        "retrieved_contexts": [f"Context {number}."],
        "reference": f"One {number}; two. Three {number}.",
    }
    for number in range(40)
]
QUESTIONS = 80
"""Two sentences for each row."""
PACKAGES = ["numpy", "spacy", "localjudge", "outlines_core", "python"]


class Stopped(Exception):
    """The engine was stopped on purpose."""


class StoppingEngine(ScriptedEngine):
    """Stop after `most` answers."""

    def __init__(self, most: int = 1_000) -> None:
        super().__init__({}, default=0.8)
        self._left = most

    def _answer(self, request: VerdictRequest) -> Any:
        self._left -= 1
        if self._left < 0:
            raise Stopped
        return super()._answer(request)


def judged(out: Path | None, engine: ScriptedEngine | None = None, **options: Any) -> Run:
    return evaluate(
        ROWS, metrics=["context_recall"], out=out, engine=engine or StoppingEngine(), **options
    )


def results(out: Path) -> dict[str, bytes]:
    return {name: (out / name).read_bytes() for name in FILES}


def update(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the package version 99 from now on."""
    if package == "python":
        monkeypatch.setattr(platform, "python_version", lambda: "99")
    else:
        versions = {package: "99"}
        fake = lambda name: versions.get(name) or metadata.version(name)  # noqa: E731
        monkeypatch.setattr("localjudge.run_directory.identity.package_version", fake)
        monkeypatch.setattr("localjudge.text.segmenter.package_version", fake)


def notes_on(run: Run, package: str) -> list[str]:
    return [note for note in run.notes if package in note and "99" in note]


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    with pytest.raises(Stopped):
        judged(tmp_path / "run", StoppingEngine(most=30))
    return tmp_path / "run"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_run_resumes_after_an_update_and_names_it(
    stopped: Path, tmp_path: Path, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    update(package, monkeypatch)
    engine = StoppingEngine()
    run = judged(stopped, engine)
    judged(tmp_path / "fresh")
    assert len(engine.asked) == QUESTIONS - 30
    assert results(stopped) == results(tmp_path / "fresh")
    assert notes_on(run, package)
    first, second = run.manifest.environment.sessions
    assert first.versions[package] != "99"
    assert second.versions[package] == "99"


@pytest.fixture
def forgotten_cuts() -> Iterator[None]:
    """A process keeps the cuts of its texts, and its rules do not change while it runs."""
    judged_sentences.cache_clear()
    yield
    judged_sentences.cache_clear()


@pytest.mark.usefixtures("forgotten_cuts")
def test_a_run_resumed_under_other_sentence_rules_is_cut_by_these_rules_only(
    stopped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new rules also cut at semicolons: `One 0; two.` becomes two sentences, `Three 0.` stays.

    Of the 30 stored answers, half are about sentences that still exist. `two.` is asked once for
    each of 40 contexts.
    """
    cut = Segmenter.__call__

    def cut_at_semicolons(self: Segmenter, text: str) -> list[Span]:
        spans = []
        for span in cut(self, text):
            head, semicolon, rest = span.text.partition("; ")
            if not semicolon:
                spans.append(span)
                continue
            middle = span.start + len(head) + 1
            spans.append(Span(start=span.start, end=middle, text=f"{head};"))
            spans.append(Span(start=middle + 1, end=span.end, text=rest))
        return spans

    judged_sentences.cache_clear()
    update("spacy", monkeypatch)
    monkeypatch.setattr("localjudge.text.segmenter.RULES_VERSION", "99")
    monkeypatch.setattr(Segmenter, "__call__", cut_at_semicolons)
    engine = StoppingEngine()
    run = judged(stopped, engine)
    judged(tmp_path / "fresh")
    assert results(stopped) == results(tmp_path / "fresh")
    assert {row.denominator for row in run.scores} == {3}
    assert len(engine.asked) == 3 * len(ROWS) - 15
    assert notes_on(run, "segmenter.rules")


def test_a_finished_run_is_computed_again_after_an_update_without_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = judged(tmp_path / "run")
    update("numpy", monkeypatch)
    engine = StoppingEngine()
    after = judged(tmp_path / "run", engine)
    assert not engine.asked
    assert after.scores == before.scores
    assert after.summary.signature != before.summary.signature
    assert Run.open(tmp_path / "run").manifest.judge.versions["numpy"] == "99"


@pytest.mark.parametrize("package", PACKAGES)
def test_the_same_command_finds_its_directory_after_an_update(
    tmp_path: Path, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = judged(None)
    update(package, monkeypatch)
    assert judged(None).directory == before.directory


@pytest.mark.parametrize("package", PACKAGES)
def test_answers_of_other_versions_are_reused_with_a_remark(
    tmp_path: Path, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = judged(tmp_path / "first")
    used = first.manifest.versions[package]
    update(package, monkeypatch)
    engine = StoppingEngine()
    second = judged(tmp_path / "second", engine, threshold=0.3, reuse=first)
    assert not engine.asked
    assert notes_on(second, package)
    versions = second.manifest.environment.sessions[-1].reused_versions
    assert versions[str(first.directory)][package] == used


def test_equal_versions_need_no_remark(tmp_path: Path) -> None:
    first = judged(tmp_path / "first")
    again = judged(tmp_path / "first", threshold=0.5)
    second = judged(tmp_path / "second", threshold=0.3, reuse=first)
    assert not [
        note for run in (first, again, second) for note in run.notes if "other versions" in note
    ]
    assert second.manifest.environment.sessions[-1].reused_versions == {}


ANSWERING = [
    ("engine", "model_sha256"),
    ("engine", "llama_cpp"),
    ("engine", "llguidance"),
    ("engine", "system"),
    ("judge", "profile_sha256"),
    ("judge", "chat_template_sha256"),
    ("judge", "grammars_sha256"),
]


class DescribedScript(ScriptedEngine):
    """Has the identity of an engine with a model file."""

    @property
    def identity(self) -> dict[str, Any]:
        facts = {
            "model_sha256": "ab",
            "llama_cpp": "1",
            "llguidance": "1",
            "system": "CPU : AVX2 = 1",
        }
        return {**super().identity, **facts}


@pytest.mark.parametrize(("part", "name"), ANSWERING)
@pytest.mark.parametrize("way", ["resume", "reuse"])
def test_what_can_change_an_answer_is_refused(
    tmp_path: Path, part: str, name: str, way: str
) -> None:
    first = judged(tmp_path / "first", DescribedScript({}, default=0.8))
    file = first.directory / "manifest.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    content["judge"][part][name] = (
        {"attribution": "other"} if name == "grammars_sha256" else "other"
    )
    file.write_text(json.dumps(content), encoding="utf-8")
    where: dict[str, Any] = (
        {"out": first.directory} if way == "resume" else {"out": tmp_path / "b", "reuse": first}
    )
    engine = DescribedScript({}, default=0.8)
    with pytest.raises(InputError, match=f"{part}.{name}"):
        judged(engine=engine, **where)
    assert not engine.asked


def test_other_settings_are_another_run(tmp_path: Path) -> None:
    judged(tmp_path / "run")
    for options in ({"threshold": 0.4}, {"language": "de"}, {"abbreviations": ["approx."]}):
        with pytest.raises(InputError, match="belongs to another run"):
            judged(tmp_path / "run", **options)
    with pytest.raises(InputError, match="belongs to another run"):
        evaluate(ROWS, metrics=["matrix_recall"], out=tmp_path / "run", engine=StoppingEngine())
