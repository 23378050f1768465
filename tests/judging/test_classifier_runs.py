"""Runs with a classifier as the judge: a made-up model, through the product."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import printed_lines

import localjudge
from localjudge import InputError, LocaljudgeError
from localjudge.model_registry import ModelFile
from localjudge.report.worst_samples import static_samples
from localjudge.run_directory.run_rows import texts_read
from tests.cli.conftest import Call, call
from tests.engine.classifiers import ENTAILMENT, NLI_SHAPE, make_classifier, write_profile
from tests.engine.conftest import ModelMaker, make_model

MARK = " ... "

__all__ = ["call", "make_model"]

pytestmark = pytest.mark.engine

LONG = " ".join(f"The bridge opened in {year}." for year in range(1800, 1860))
ROWS = [
    {
        "id": str(number),
        "user_input": "When did it open?",
        "response": f"The bridge opened in {1800 + number}. It is red.",
        "retrieved_contexts": [LONG, "The bridge is red."]
        if number % 2
        else ["It is red.", "It opened."],
    }
    for number in range(6)
]
METRICS = ["faithfulness", "context_relevancy"]
TWICE = "letters = 100\ncloser = 50"
FILES = ("scores.jsonl", "verdicts.jsonl", "evidence.jsonl", "summary.json")


@pytest.fixture
def file(make_model: ModelMaker) -> ModelFile:
    return make_classifier(make_model)


@pytest.fixture(params=["once", "twice"])
def nearest(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A profile for the same model that reads the nearest 100 letters, or then also 50."""
    read = "letters = 100"
    if request.param == "twice":
        read = TWICE
    return str(write_profile(tmp_path / "nearest", nearest=read))


@pytest.fixture
def twice(tmp_path: Path) -> str:
    return str(write_profile(tmp_path / "twice", nearest=TWICE))


@pytest.fixture
def profile(tmp_path: Path) -> str:
    return str(write_profile(tmp_path / "made-up"))


def config_file(folder: Path, profile: str) -> Path:
    config = folder / "localjudge.toml"
    config.write_text(f'profile = "{profile}"\nthreads = 1\n', encoding="utf-8")
    return config


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


def evaluate(file: ModelFile, profile: str, out: Path, **options: Any) -> localjudge.Run:
    rows = options.pop("rows", ROWS)
    settings = {"metrics": "faithfulness", "threads": 1, **options}
    return localjudge.evaluate(rows, judge=file.path, profile=profile, out=out, **settings)


def test_a_run_has_the_same_bytes_when_shuffled_resumed_and_with_two_threads(
    file: ModelFile, profile: str, tmp_path: Path
) -> None:
    once = evaluate(file, profile, tmp_path / "once")
    assert once.summary.metrics["faithfulness"].scored == len(ROWS)
    evaluate(file, profile, tmp_path / "parts", limit=2)
    evaluate(file, profile, tmp_path / "threads", threads=2, reuse=[str(tmp_path / "parts")])
    assert contents(tmp_path / "threads") == contents(tmp_path / "once")
    evaluate(file, profile, tmp_path / "shuffled", rows=ROWS[::-1])
    shuffled = {
        line for line in (tmp_path / "shuffled" / "verdicts.jsonl").read_bytes().splitlines()
    }
    assert shuffled == set((tmp_path / "once" / "verdicts.jsonl").read_bytes().splitlines())


def test_a_long_context_is_judged_in_windows_and_the_most_probable_counts(
    file: ModelFile, profile: str, tmp_path: Path
) -> None:
    run = evaluate(file, profile, tmp_path / "run")
    verdicts = [
        json.loads(line) for line in (tmp_path / "run" / "verdicts.jsonl").read_text().splitlines()
    ]
    windows = {row["sample_id"]: row["window"] for row in verdicts}
    assert [windows[row["id"]] is None for row in ROWS] == [True, False] * 3
    assert all(row["error"] is None for row in verdicts)
    assert run.verify()


def test_the_nearest_sentences_are_read_in_place_of_windows(
    file: ModelFile, nearest: str, tmp_path: Path
) -> None:
    """Each third of a line says which sentences the verdict can be from: 100 letters hold three."""
    run = evaluate(file, nearest, tmp_path / "run")
    assert all(verdict.window is None and verdict.error is None for verdict in run.verdicts)
    assert run.summary.verdicts.windowed == 0
    assert run.manifest.judge.letters_read[0] == 100
    for sample in run.samples:
        of_sample = [row for row in run.verdicts if row.sample_id == sample.id]
        read = texts_read(run, sample, of_sample)
        for verdict in of_sample:
            text = read[verdict.verdict_id]
            parts = text.split(MARK)
            assert sum(map(len, parts)) <= 100
            assert all(row.text in text for row in verdict.evidence)
            closest = verdict.text.replace("It is red.", "The bridge is red.")
            if sample.retrieved_contexts and sample.retrieved_contexts[0].text == LONG:
                assert closest in text
    assert run.verify()


def test_a_run_that_reads_what_is_near_has_the_same_bytes_in_parts_and_shuffled(
    file: ModelFile, nearest: str, tmp_path: Path
) -> None:
    evaluate(file, nearest, tmp_path / "once", metrics=METRICS)
    evaluate(file, nearest, tmp_path / "parts", metrics=METRICS, limit=3)
    resumed = {"metrics": METRICS, "threads": 2, "reuse": [str(tmp_path / "parts")]}
    evaluate(file, nearest, tmp_path / "resumed", **resumed)
    assert contents(tmp_path / "resumed") == contents(tmp_path / "once")


def test_shards_that_read_what_is_near_join_to_the_same_bytes(
    file: ModelFile, nearest: str, tmp_path: Path
) -> None:
    evaluate(file, nearest, tmp_path / "once", metrics=METRICS)
    shards: list[Path] = []
    for number in (1, 2, 3):
        shard = evaluate(
            file, nearest, tmp_path / str(number), metrics=METRICS, shard=f"{number}/3"
        )
        shards.append(shard.directory)
    options: dict[str, Any] = {"judge": file.path, "profile": nearest, "threads": 1}
    localjudge.evaluate(reuse=shards, out=tmp_path / "joined", **options)
    assert contents(tmp_path / "joined") == contents(tmp_path / "once")


def test_what_is_read_is_part_of_the_judge(
    file: ModelFile, profile: str, nearest: str, tmp_path: Path
) -> None:
    windows = evaluate(file, profile, tmp_path / "windows", limit=1)
    near = evaluate(file, nearest, tmp_path / "near", limit=1)
    assert windows.manifest.judge.judge.nearest is None
    for run, read in ((windows, "windows"), (near, "100 letters")):
        lines = printed_lines("show", run, "--details", width=300)
        [line] = [line for line in lines if line.startswith("read by ")]
        assert read in line
        page = run.report(tmp_path / f"{read}.html").read_text(encoding="utf-8")
        assert line.removeprefix("read by ") in page
    identity = near.manifest.judge.judge.nearest
    assert identity
    read_nearest = identity.as_json
    versions = [read_nearest.pop(name) for name in ("version", "finder_version")]
    assert all(isinstance(version, int) for version in versions)
    assert read_nearest.pop("closer", 50) == 50
    assert read_nearest == {"letters": 100, "language": "en"}
    with pytest.raises(LocaljudgeError):
        evaluate(file, nearest, tmp_path / "windows", limit=1)


def test_of_two_readings_the_higher_probability_counts(
    file: ModelFile, twice: str, tmp_path: Path
) -> None:
    """A text of one sentence is read once."""
    run = evaluate(file, twice, tmp_path / "run")
    once: dict[Any, float | None] = {}
    for letters in (100, 50):
        read = str(write_profile(tmp_path / f"{letters}", nearest=f"letters = {letters}"))
        for verdict in evaluate(file, read, tmp_path / f"run-{letters}").verdicts:
            once[verdict.verdict_id, letters] = verdict.p_yes
    highest = {row.verdict_id: row.p_yes for row in run.verdicts}
    for verdict_id, p_yes in highest.items():
        readings = [once[verdict_id, letters] or 0 for letters in (100, 50)]
        assert p_yes == max(readings)
    assert any(once[verdict_id, 100] != once[verdict_id, 50] for verdict_id in highest)
    rows = [{"id": "short", "response": "It opened.", "retrieved_contexts": ["It opened in May."]}]
    short = evaluate(file, twice, tmp_path / "short", rows=rows)
    assert short.verify().stored_requests == 1


def test_evidence_is_from_both_readings(file: ModelFile, twice: str, tmp_path: Path) -> None:
    """Fewer letters have room for a sentence whose place a longer one takes in more letters."""
    only_closer = "The Danube tower market."
    text = (
        f"{only_closer} The tower council railway. The station tunnel council library. "
        "The garden railway castle bells. The ferry Danube market."
    )
    row = {
        "id": "1",
        "response": "The ferry tower library railway Danube.",
        "retrieved_contexts": [text],
    }
    run = evaluate(file, twice, tmp_path / "run", rows=[row])
    assert run.manifest.judge.letters_read == (100, 50)
    [verdict] = run.verdicts
    assert [row.text for row in verdict.evidence] == ["The ferry Danube market.", only_closer]
    sample = next(iter(run.samples))
    [read] = texts_read(run, sample, [verdict]).values()
    assert read == (
        f"{only_closer} ... The tower council railway. The station tunnel council library. ... "
        "The ferry Danube market."
    )
    assert run.verify()


def test_both_readings_count_in_the_seconds_per_verdict(
    file: ModelFile, twice: str, tmp_path: Path
) -> None:
    rows = []
    for number in range(24):
        context = " ".join(f"The bridge {number} opened in {year}." for year in range(1800, 1810))
        statement = f"The bridge {number} opened in {1800 + number}."
        rows.append({"context": context, "statement": statement, "label": int(number < 10)})
    labels = tmp_path / "labels.jsonl"
    labels.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    out = tmp_path / "run"
    options: dict[str, Any] = {"profile": twice, "threads": 1, "progress": False}
    [calibration] = localjudge.calibrate(labels, judge=file.path, out=out, **options)
    [session] = localjudge.Run.open(out).manifest.environment.sessions
    assert session.asked == 48
    assert session.effort is not None
    total = session.effort.seconds_total or 0
    assert total > 0
    assert calibration.seconds_per_verdict == pytest.approx(total / 24)


def test_a_second_reading_is_shorter_and_is_said(
    file: ModelFile, twice: str, tmp_path: Path
) -> None:
    run = evaluate(file, twice, tmp_path / "run", limit=1)
    lines = printed_lines("show", run, "--details", width=300)
    [line] = [line for line in lines if line.startswith("read by ")]
    assert "the nearest 50 letters a second time" in line
    folder = write_profile(tmp_path / "wrong", nearest="letters = 100\ncloser = 100")
    with pytest.raises(InputError, match="closer is 100: it must be less than letters, 100"):
        evaluate(file, str(folder), tmp_path / "refused")
    folder = write_profile(tmp_path / "chunks", nearest=f'{TWICE}\nunits = ["chunk"]')
    with pytest.raises(InputError, match='closer is for statements: add "statement" to units'):
        evaluate(file, str(folder), tmp_path / "refused")


def test_show_has_what_was_read(file: ModelFile, nearest: str, tmp_path: Path, call: Call) -> None:
    run = evaluate(file, nearest, tmp_path / "run", metrics=METRICS)
    code, printed, _ = call("show", run.directory, "1", "--details", "--json")
    assert code == 0
    for verdict in json.loads(printed)["verdicts"]:
        assert len(verdict["read"]) <= 100 + 3 * len(MARK)
    code, printed, _ = call("show", run.directory, "1", "--metrics", "faithfulness", "--details")
    assert code == 0
    assert "  read  " in printed
    code, printed, _ = call("show", run.directory, "1", "--json")
    assert "read" not in json.loads(printed)["verdicts"][0]


def test_pages_have_what_was_read(file: ModelFile, nearest: str, tmp_path: Path) -> None:
    """The page without JavaScript, and the page of labels, in which a closest sentence is shown."""
    run = evaluate(file, nearest, tmp_path / "run")
    sample = run.samples[1]
    of_sample = [row for row in run.verdicts if row.sample_id == sample.id]
    read = texts_read(run, sample, of_sample)
    assert len(read) == 2

    [static] = static_samples(run, [2])
    shown = [verdict["read"].unescape() for verdict in static["metrics"][0]["verdicts"]]
    assert shown == list(read.values())

    page = run.label(tmp_path / "labels.html", sample=12).read_text(encoding="utf-8")
    config = re.search(r'id="config">(.*?)</script>', page, re.DOTALL)
    assert config is not None
    of_page = {row["text"]: row["read"] for row in json.loads(config[1])["rows"]}
    for verdict in of_sample:
        assert of_page[verdict.text] == read[verdict.verdict_id]


def test_a_long_run_of_signs_never_fails_a_statement(
    file: ModelFile, nearest: str, tmp_path: Path
) -> None:
    """The model has a token for each sign that it does not know."""
    signs = ["QmFzZTY0" * 200, "ภาษาไทย" * 200, "☃" * 900]
    rows = []
    for number, text in enumerate(signs):
        contexts = ["The dam was built in 1962.", text]
        rows.append(
            {"id": str(number), "response": f"{text[:450]}", "retrieved_contexts": contexts}
        )
    run = evaluate(file, nearest, tmp_path / "run", rows=rows)
    assert [verdict.error for verdict in run.verdicts] == [None] * len(run.verdicts)


def test_a_statement_that_leaves_no_room_fails_with_a_reason(
    file: ModelFile, profile: str, tmp_path: Path
) -> None:
    row = {"id": "long", "response": "x" * 600, "retrieved_contexts": ["It opened.", "It is red."]}
    run = evaluate(file, profile, tmp_path / "run", rows=[row])
    summary = run.summary.metrics["faithfulness"]
    assert (summary.failed, summary.mean) == (1, None)
    [verdict] = [
        json.loads(line) for line in (tmp_path / "run" / "verdicts.jsonl").read_text().splitlines()
    ]
    assert "512" in verdict["error"]
    assert "n_ctx" not in verdict["error"]


def test_verify_finds_a_changed_answer_and_doctor_examines(
    file: ModelFile, profile: str, tmp_path: Path, call: Call
) -> None:
    run = evaluate(file, profile, tmp_path / "run")
    verification = run.verify()
    assert verification.result == "bit-identical"
    assert verification.identical == verification.stored_requests > 0
    how = ("--judge", file.path, "--config", config_file(tmp_path, profile))
    _, printed, _ = call("doctor", *how, "--injections", 4, "--probes", 12, "--json", "--quiet")
    checks = {check["name"]: check["status"] for check in json.loads(printed)["checks"]}
    for name in ("model", "memory", "prompts", "repeatability"):
        assert checks[name] in ("ok", "warning")


def test_models_lists_a_classifier(file: ModelFile, call: Call) -> None:
    code, printed, _ = call("models", file.path.parent)
    assert code == 0
    assert "classifier (LABEL_0)" in printed


def test_a_dry_run_counts_every_window(
    file: ModelFile, profile: str, tmp_path: Path, call: Call
) -> None:
    """Six rows of two statements, the second always the same: 3 + 1 short questions, and 3 + 1 in
    two windows each.
    """
    data = tmp_path / "data.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS), encoding="utf-8")
    how = (
        "--judge",
        file.path,
        "--config",
        config_file(tmp_path, profile),
        "--metrics",
        "faithfulness",
        "--json",
    )
    code, printed, _ = call("run", data, *how, "--dry-run")
    estimate = json.loads(printed)
    assert code == 0
    assert (estimate["verdicts"], estimate["requests"]) == (12, 12)


@pytest.mark.parametrize("metric", ["context_sufficiency", "abstention"])
def test_tasks_without_words_are_refused_before_anything_is_asked(
    file: ModelFile, profile: str, tmp_path: Path, metric: str
) -> None:
    with pytest.raises(InputError):
        evaluate(file, profile, tmp_path / "run", metrics=metric)
    assert not (tmp_path / "run").exists()


def test_reasons_are_refused(file: ModelFile, profile: str, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        evaluate(file, profile, tmp_path / "run", reasons="after")


def test_a_classifier_without_a_profile_is_refused_by_its_outputs(
    make_model: ModelMaker, tmp_path: Path
) -> None:
    file = make_classifier(make_model, NLI_SHAPE)
    with pytest.raises(InputError) as caught:
        localjudge.evaluate(ROWS, judge=file.path, metrics="faithfulness", out=tmp_path / "run")
    assert all(name in caught.value.message for name in ENTAILMENT)


def test_the_profile_in_the_documentation_judges(make_model: ModelMaker, tmp_path: Path) -> None:
    page = (
        (Path(__file__).parents[2] / "docs" / "judges.md")
        .read_text(encoding="utf-8")
        .partition("### Classifiers")[2]
        .partition("### Adapters")[0]
    )
    profile, attribution = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    folder = tmp_path / "nli"
    folder.mkdir()
    (folder / "profile.toml").write_text(profile, encoding="utf-8")
    (folder / "attribution.toml").write_text(attribution, encoding="utf-8")
    run = evaluate(make_classifier(make_model, NLI_SHAPE), str(folder), tmp_path / "run")
    assert run.summary.metrics["faithfulness"].scored == len(ROWS)


def test_three_outputs_judge_attribution(make_model: ModelMaker, tmp_path: Path) -> None:
    file = make_classifier(make_model, NLI_SHAPE)
    folder = write_profile(
        tmp_path / "nli", outputs=ENTAILMENT, answer='{ yes = ["entailment"] }', share=False
    )
    run = evaluate(file, str(folder), tmp_path / "run")
    assert run.summary.metrics["faithfulness"].scored == len(ROWS)
