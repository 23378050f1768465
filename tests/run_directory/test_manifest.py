"""Every ingredient of a number is in its part of the signature, and others are in neither."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

import localjudge
from localjudge import Metric, RunDirectoryError, Sample, resources
from localjudge.judge.profile_choice import load_profile
from localjudge.judge.wording import PromptWriter
from localjudge.metrics import Scored, Sentences, Steps
from localjudge.metrics.attribution import context_recall
from localjudge.run_directory.differences import differences
from localjudge.run_directory.identity import DataIdentity, JudgeIdentity, JuryMember, signature
from localjudge.run_directory.manifest import Manifest
from localjudge.types import ChatEnds, VerdictRule

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
RULE = VerdictRule(threshold=0.5, min_valid_mass=0.01)


def manifest(out: Path, **options: Any) -> Manifest:
    options = {"metrics": ["context_recall"], "threads": 1, **options}
    return localjudge.evaluate(ROWS[1:], out=out, **options).manifest


def parts(of: Manifest) -> list[str]:
    return of.signature.split("|")


def changed(before: Manifest, after: Manifest) -> list[str]:
    assert before.data == after.data
    judge, data = (
        first == second for first, second in zip(*map(parts, (before, after)), strict=True)
    )
    ingredients = [change.ingredient for change in differences(before.judge, after.judge)]
    assert (judge, data) == (not ingredients, True)
    return ingredients


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    directory = tmp_path_factory.mktemp("made")
    manifest(directory)
    return localjudge.Run.open(directory).manifest


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
def test_a_real_run_names_every_ingredient(made: Manifest) -> None:
    assert INGREDIENTS - leaves(made.judge.as_json) == set()


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
    made: Manifest, tmp_path: Path, options: Any, ingredients: list[str]
) -> None:
    assert changed(made, manifest(tmp_path / "run", **options)) == ingredients


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
    one, two, turned = (manifest(tmp_path / copy.stem, judge=copy) for copy in copies)
    assert changed(one, two) == []
    assert "engine.model_sha256" in changed(one, turned)
    assert "judge.profile" in changed(one, turned)


CHANGED_RECALL = replace(context_recall(), version=2)
"""The metric after a change of its arithmetic."""


def only(prompts: Mapping[str, Any] = MappingProxyType({})) -> dict[str, JuryMember]:
    """One judge, with these prompts."""
    return {"x": JuryMember.model_validate({"engine": {"engine": "x"}, "judge": dict(prompts)})}


def part(judge: PromptWriter, metric: Metric | None = None) -> JudgeIdentity:
    return JudgeIdentity.of(only(judge.identity()), {}, [metric or context_recall()], RULE)


def test_changes_of_metric_version_reasons_and_chat_template_are_named() -> None:
    profile = load_profile("instruct")
    one, two = (
        PromptWriter(profile, ChatEnds("<user>", "<model>", sha256=name)) for name in ("1", "2")
    )
    pairs = [
        (part(PromptWriter(profile)), part(PromptWriter(profile), CHANGED_RECALL)),
        (part(PromptWriter(profile)), part(PromptWriter(profile, reasons="before"))),
        (part(one), part(two)),
    ]
    changed_names = [
        {change.ingredient.split(".")[1] for change in differences(*pair)} for pair in pairs
    ]
    assert changed_names[0] == {"context_recall"}
    assert {"reasons", "grammars_sha256"} <= changed_names[1]
    assert changed_names[2] == {"chat_template_sha256"}


def test_clusters_belong_to_the_data(tmp_path: Path) -> None:
    plain, grouped = (
        manifest(tmp_path / str(name), engine=ENGINE, cluster_by=name)
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
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge() -> JudgeIdentity:
        return JudgeIdentity.of(only(), {}, [context_recall()], RULE)

    before = judge()
    versions = {package: "99"}
    monkeypatch.setattr(
        "localjudge.run_directory.identity.package_version",
        lambda name: versions.get(name) or metadata.version(name),
    )
    assert [change.ingredient for change in differences(before, judge())] == [f"versions.{package}"]
    data = DataIdentity.of("", 0, None)
    assert signature(before, data) != signature(judge(), data)


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


@pytest.mark.parametrize("option", [{"characters": 99}, {"strict": False}, {"unit": "words"}])
def test_options_of_another_packages_metric_change_the_judge_part(option: dict[str, Any]) -> None:
    def judge(metric: LengthLimit) -> JudgeIdentity:
        return JudgeIdentity.of(only(), {}, [metric], RULE)

    before = judge(LengthLimit())
    assert before.metrics["length_limit"].as_json == {
        "version": 3,
        "characters": 100,
        "strict": True,
        "unit": "characters",
    }
    changed = [each.ingredient for each in differences(before, judge(LengthLimit(**option)))]
    assert changed == [f"metrics.length_limit.{next(iter(option))}"]


def test_a_directory_of_another_run_is_refused_with_a_readable_reason(tmp_path: Path) -> None:
    manifest(tmp_path, engine=ENGINE, metrics=["context_recall", "context_relevancy"])
    with pytest.raises(RunDirectoryError) as refused:
        localjudge.evaluate(ROWS, out=tmp_path, engine=ENGINE, metrics=["context_recall"])
    lines = [line.strip() for line in refused.value.message.splitlines()[1:]]
    assert lines == [
        "rows: 1 there, 2 here",
        "the data differ",
        "that run has context_relevancy, this one does not",
    ]


FILES = sorted((Path(__file__).parent / "manifests").glob("*.json"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_stored_manifests_round_trip(file: Path) -> None:
    """All values stay, also those of settings that ended; the order of settings may change."""
    stored = json.loads(file.read_bytes())
    earlier = Manifest.model_validate(stored)
    assert earlier.model_dump(mode="json") == stored
    assert signature(earlier.judge, earlier.data) == earlier.signature


def test_unknown_ingredients_are_kept_and_signed() -> None:
    text = (FILES[0].parent / "reference.json").read_text(encoding="utf-8")
    later = '"later": {"b": 1, "a": 2.50},\n    "segmenter": {'
    read_back = Manifest.model_validate_json(text.replace('"segmenter": {', later))
    assert read_back.judge.as_json["later"] == {"b": 1, "a": 2.5}
    assert signature(read_back.judge, read_back.data) != read_back.signature
