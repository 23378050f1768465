"""Every ingredient of a number is in its part of the signature, and others are in neither."""

import json
import shutil
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import Run, RunDirectoryError, Sample, ScriptedEngine, resources
from localjudge.metrics import Scored, Sentences, Steps
from localjudge.types import ChatEnds
from tests.conftest import OneJudge
from tests.run_directory.conftest import signature

ROWS: list[dict[str, Any]] = [
    {
        "id": "a",
        "user_input": "Why?",
        "retrieved_contexts": ["Because.", "So."],
        "reference": "One. Zwei ä.",
    },
    {
        "id": "b",
        "user_input": "How, then?",
        "retrieved_contexts": ["So."],
        "reference": 'Three "and" four.',
    },
]
ENGINE = localjudge.ScriptedEngine({}, default=1.0)


def judged(out: Path, **options: Any) -> Run:
    options = {"metrics": ["context_recall"], "threads": 1, **options}
    return localjudge.evaluate(ROWS[1:], out=out, **options)


def parts(of: Run) -> list[str]:
    return of.manifest.signature.split("|")


def changed(before: Run, after: Run) -> list[str]:
    """Return what the comparison names, after checking that the signature says it, too."""
    assert before.manifest.data == after.manifest.data
    judge, data = (
        first == second for first, second in zip(*map(parts, (before, after)), strict=True)
    )
    ingredients = [change.ingredient for change in after.compare(before).judge_changes]
    assert (judge, data) == (not ingredients, True)
    return ingredients


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    directory = tmp_path_factory.mktemp("made")
    judged(directory)
    return localjudge.Run.open(directory)


def leaves(value: Any, path: str = "") -> set[str]:
    if not isinstance(value, dict):
        return {path}
    return {
        leaf
        for name, inner in value.items()
        for leaf in leaves(inner, f"{path}.{name}" if path else name)
    }


INGREDIENTS = {
    "engine.model_sha256",
    "engine.model_size",
    "engine.architecture",
    "engine.quantisation",
    "engine.n_ctx",
    "engine.n_ubatch",
    "engine.flash_attention",
    "engine.batching",
    "engine.gpu_layers",
    "engine.system",
    "engine.llama_cpp_python",
    "engine.llama_cpp",
    "engine.llguidance",
    "engine.self_check",
    "judge.profile",
    "judge.profile_sha256",
    "judge.chat_template_sha256",
    "judge.chat_ends_sha256",
    "judge.grammars_sha256.attribution",
    "judge.reasons",
    "segmenter.name",
    "segmenter.version",
    "segmenter.rules",
    "segmenter.language",
    "metrics.context_recall.version",
    "threshold",
    "min_valid_mass",
    "versions.localjudge",
    "versions.llama-cpp-python",
    "versions.llguidance",
    "versions.outlines_core",
    "versions.spacy",
    "versions.numpy",
}


@pytest.mark.engine
def test_a_real_run_names_every_ingredient(made: Run) -> None:
    assert INGREDIENTS - leaves(made.manifest.judge.as_json) == set()


@pytest.mark.engine
@pytest.mark.parametrize(
    ("options", "ingredients"),
    [
        ({"n_ctx": 512}, ["engine.n_ctx"]),
        ({"threshold": 0.4}, ["threshold"]),
        ({"threads": 2}, []),
        ({"max_failed": 3}, []),
        ({"min_valid_mass": 0.0}, ["min_valid_mass"]),
    ],
)
def test_signed_options_are_named(
    made: Run, tmp_path: Path, options: Any, ingredients: list[str]
) -> None:
    assert changed(made, judged(tmp_path / "run", **options)) == ingredients


@pytest.mark.engine
def test_a_model_is_identified_by_bytes_not_by_name(tmp_path: Path) -> None:
    """A copy under another name is the same judge; one changed bit of weights is another judge."""
    bundled = resources.bundled_file("models", "lexical.gguf")
    copies = [tmp_path / name for name in ("one.gguf", "two.gguf", "turned.gguf")]
    for copy in copies:
        shutil.copy(bundled, copy)
    with copies[2].open("r+b") as file:
        file.seek(-2, 2)
        (byte,) = file.read(1)
        file.seek(-2, 2)
        file.write(bytes([byte ^ 1]))
    one, two, turned = (judged(tmp_path / copy.stem, judge=copy) for copy in copies)
    assert changed(one, two) == []
    assert "engine.model_sha256" in changed(one, turned)
    assert "judge.profile" in changed(one, turned)


@dataclass(frozen=True)
class LengthLimit:
    """Another package's metric with options."""

    characters: int = 100
    strict: bool = True
    unit: str = "characters"
    name: str = "length_limit"
    version: int = 3
    required_fields: frozenset[str] = frozenset()

    def steps(self, _: Sample, __: Sentences) -> Steps:
        yield from ()
        return Scored(value=1)


def by_template(name: str) -> ScriptedEngine:
    """Return a judge with a chat template of this checksum, which is otherwise the same."""

    class WithTemplate(OneJudge):
        @property
        def chat_ends(self) -> ChatEnds:
            return ChatEnds("<user>", "<model>", sha256=name)

    return WithTemplate({}, default=1.0)


def test_changes_of_reasons_and_chat_template_are_named(tmp_path: Path) -> None:
    one = judged(tmp_path / "one", engine=by_template("1"), profile="instruct")
    two = judged(tmp_path / "two", engine=by_template("2"), profile="instruct")
    told = judged(tmp_path / "told", engine=by_template("1"), profile="instruct", reasons="before")
    assert changed(one, two) == ["judge.chat_template_sha256"]
    assert {"judge.grammars_sha256.attribution", "judge.reasons"} <= set(changed(one, told))


def test_clusters_belong_to_the_data(tmp_path: Path) -> None:
    plain, grouped = (
        judged(tmp_path / str(name), engine=ENGINE, cluster_by=name)
        for name in (None, "user_input")
    )
    assert [
        first == second for first, second in zip(parts(plain), parts(grouped), strict=True)
    ] == [True, False]


@pytest.mark.parametrize(
    "package",
    ["localjudge", "llama-cpp-python", "llguidance", "numpy", "outlines_core", "spacy"],
)
def test_a_package_version_changes_the_judge_part(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = judged(tmp_path / "before", engine=ENGINE)
    versions = {package: "99"}
    monkeypatch.setattr(
        "localjudge.run_directory.identity.package_version",
        lambda name: versions.get(name) or metadata.version(name),
    )
    after = judged(tmp_path / "after", engine=ENGINE)
    assert changed(before, after) == [f"versions.{package}"]


@pytest.mark.parametrize(
    "option", [{"characters": 99}, {"strict": False}, {"unit": "words"}, {"version": 4}]
)
def test_options_and_version_of_another_packages_metric_change_the_judge_part(
    tmp_path: Path, option: dict[str, Any]
) -> None:
    before = judged(tmp_path / "before", engine=ENGINE, metrics=[LengthLimit()])
    assert before.manifest.judge.metrics["length_limit"].as_json == {
        "version": 3,
        "characters": 100,
        "strict": True,
        "unit": "characters",
    }
    after = judged(tmp_path / "after", engine=ENGINE, metrics=[LengthLimit(**option)])
    assert changed(before, after) == [f"metrics.length_limit.{next(iter(option))}"]


def test_a_directory_of_another_run_is_refused_with_a_readable_reason(tmp_path: Path) -> None:
    judged(tmp_path, engine=ENGINE, metrics=["context_recall", "context_relevancy"])
    with pytest.raises(RunDirectoryError) as refused:
        localjudge.evaluate(ROWS, out=tmp_path, engine=ENGINE, metrics=["context_recall"])
    lines = [line.strip() for line in refused.value.message.splitlines()[1:]]
    assert lines == [
        "rows: 1 there, 2 here",
        "the data differ",
        "that run has context_relevancy, this one does not",
    ]


FILES = sorted((Path(__file__).parent / "manifests").glob("*.json"))


def opened_with(out: Path, manifest: str) -> Run:
    """Return a run with this manifest, unchecked."""
    run = judged(out, engine=ENGINE)
    (run.directory / "manifest.json").write_text(manifest, encoding="utf-8")
    return Run.open(run.directory, check=False)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_stored_manifests_round_trip(file: Path, tmp_path: Path) -> None:
    """All values stay, also those of settings that ended; the order of settings may change."""
    text = file.read_text(encoding="utf-8")
    earlier = opened_with(tmp_path, text).manifest
    assert earlier.model_dump(mode="json") == json.loads(text)
    read_back = {"judge": earlier.judge.as_json, "data": earlier.data.as_json}
    assert signature(read_back) == earlier.signature


def test_unknown_ingredients_are_kept_and_signed(tmp_path: Path) -> None:
    run = judged(tmp_path, engine=ENGINE)
    text = (run.directory / "manifest.json").read_text(encoding="utf-8")
    later = '"later": {"b": 1, "a": 2.50},\n    "segmenter": {'
    read_back = opened_with(tmp_path, text.replace('"segmenter": {', later))
    assert read_back.manifest.judge.as_json["later"] == {"b": 1, "a": 2.5}
    with pytest.raises(RunDirectoryError, match="signature of its parts"):
        Run.open(tmp_path)
