"""Runs by several judges: two small random models and the lexical judge, through the product."""

import json
import math
import re
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import random_model

import localjudge
from localjudge import InputError, ModelError, judging, model_registry
from localjudge.engine import opening
from localjudge.judging.job import open_job
from localjudge.judging.plan import plan
from localjudge.judging.settings import RunSettings, checked
from localjudge.model_registry import ModelFile
from localjudge.progress import Progress
from localjudge.run_directory.store import Store
from localjudge.run_directory.verdict_rule import combine, combine_by_scales
from localjudge.types import Answer, NoAnswer
from tests.cli.conftest import Call, call
from tests.engine.conftest import ModelMaker, make_model

JUDGE_VARIABLE = "LOCALJUDGE_JUDGE"

__all__ = ["call", "make_model"]

pytestmark = pytest.mark.engine

LONG = " ".join(f"The bridge opened in {year}." for year in range(1800, 1808))
ROWS = [
    {
        "id": f"{number:02d}",
        "user_input": "When did it open?",
        "response": f"The bridge opened in {1800 + number}. It is red.",
        "reference": "The bridge opened in 1801.",
        "retrieved_contexts": [LONG, "The bridge is red."]
        if number % 2
        else ["It is red.", "It opened."],
    }
    for number in range(4)
]
METRICS = ["faithfulness", "context_precision"]
FILES = ("scores.jsonl", "verdicts.jsonl", "evidence.jsonl", "summary.json")
WEIGHTS = {"lexical": 0.5, "small": 0.25}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """State without remembered scales."""
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def small(make_model: ModelMaker, tmp_path: Path) -> str:
    shape = random_model.Shape(context=1024)
    return renamed(make_model(vocabulary="pieces", shape=shape), tmp_path / "small.gguf")


@pytest.fixture
def other(make_model: ModelMaker, tmp_path: Path) -> str:
    shape = random_model.Shape(context=1024, layers=3)
    return renamed(make_model(vocabulary="bytes", shape=shape), tmp_path / "other.gguf")


def renamed(file: ModelFile, path: Path) -> str:
    shutil.copy(file.path, path)
    return str(path)


def evaluate(judge: object, out: Path, **options: Any) -> localjudge.Run:
    settings = {"metrics": METRICS, "threads": 1, "min_valid_mass": 0, "progress": False, **options}
    rows = settings.pop("rows", ROWS)
    return localjudge.evaluate(rows, judge=judge, out=out, **settings)  # type: ignore[arg-type]


def weigh(weights: Mapping[str, float], **options: Any) -> RunSettings:
    """Return settings with weights, as in runs of earlier versions."""
    settings = checked({"threads": 1, "min_valid_mass": 0, **options})
    return RunSettings.model_validate({**vars(settings), "weights": weights})


def jury(
    judges: str | Sequence[str],
    out: Path,
    *,
    rows: Any = ROWS,
    metrics: Any = METRICS,
    weights: Mapping[str, float] = WEIGHTS,
    progress: Progress | None = None,
    **options: Any,
) -> localjudge.Run:
    """Return a run of judges, or of the lexical judge and another one.

    Their scales are not measured, because they have weights.
    """
    if isinstance(judges, str):
        judges = ["lexical", judges]
    planned = plan(rows, metrics, weigh(weights, **options))
    with open_job(planned, judge=judges, out=out, progress=progress or Progress()) as job:
        return localjudge.Run.of(job.run())


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


def verdicts(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in (folder / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
    ]


def asked(run: localjudge.Run) -> int:
    answers = run.manifest.environment.answers
    assert answers is not None
    return answers.asked


def test_a_jury_combines_the_verdicts_that_its_judges_give_alone(
    small: str, tmp_path: Path
) -> None:
    run = jury(small, tmp_path / "jury")
    evaluate("lexical", tmp_path / "lexical")
    evaluate(small, tmp_path / "small")
    alone = {name: verdicts(tmp_path / name) for name in ("lexical", "small")}
    combination = run.manifest.judge.combinations["faithfulness"]
    for place, row in enumerate(verdicts(tmp_path / "jury")):
        expected = {name: rows[place]["p_yes"] for name, rows in alone.items()}
        assert row["judges"] == expected
        assert row["p_yes"] == combine(expected, combination)
        assert row["label"] == int(row["p_yes"] >= 0.5)
    assert run.judge.name == "lexical + small"
    assert str(run.judge.caution).startswith("compares words")


def test_a_jury_names_the_window_in_which_its_judges_read_a_sentence(
    small: str, tmp_path: Path
) -> None:
    """Also the first window, which is no whole text."""
    sentences = " ".join(f"The bridge number {number} opened in 1850." for number in range(60))
    rows = [{"id": "long", "user_input": "When did it open?", "retrieved_contexts": [sentences]}]
    windows: dict[str, list[int | None]] = {}
    for name, judge in {"lexical": "lexical", "small": small, "jury": ["lexical", small]}.items():
        evaluate(judge, tmp_path / name, rows=rows, metrics=["context_relevancy"])
        windows[name] = [row["window"] for row in verdicts(tmp_path / name)]
    assert {0, 1} <= set(windows["small"])
    assert set(windows["lexical"]) == {None}
    assert windows["jury"] == windows["small"]


@pytest.mark.parametrize(
    "metrics",
    [["context_precision"], ["context_relevancy"], ["context_precision", "faithfulness"]],
    ids=str,
)
def test_a_run_with_metrics_of_some_judges_only_has_no_alterations(
    tmp_path: Path, metrics: list[str]
) -> None:
    """Of the bundled judges, only the lexical one answers questions of relevance."""
    run = evaluate("bundled", tmp_path / "run", metrics=metrics)
    assert len(run.manifest.judge.jury) == 2
    assert run[metrics[0]].scored == 4
    assert run.certificate(tmp_path / "page.html").problems == ()
    assert run.verify().result == "bit-identical"


def test_of_the_bundled_judges_the_reader_alone_answers_about_answers_and_passages(
    home: Path, tmp_path: Path
) -> None:
    """The lexical judge has the weight 0 in the registry, so it is not asked."""
    metrics = ["answer_relevancy", "context_relevancy_chunk"]
    run = evaluate("bundled", tmp_path / "run", metrics=[*metrics, "context_relevancy"])
    asked = {row["metric"]: set(row["judges"]) for row in verdicts(tmp_path / "run")}
    assert asked.pop("context_relevancy") == {"lexical"}
    assert asked == {metric: {"reader"} for metric in metrics}
    alone = evaluate("reader", tmp_path / "alone", metrics=metrics)
    for metric in metrics:
        assert dict(run.manifest.judge.combinations[metric].weights) == {"reader": 1}
        assert alone[metric].mean == run[metric].mean
        assert alone[metric].expected == pytest.approx(run[metric].expected)
    assert run.verify().result == "bit-identical"


@pytest.mark.parametrize("other", ["lexical", ["lexical", "reader"]], ids=str)
def test_other_judges_than_those_of_a_jury_cannot_verify_its_run(
    home: Path, small: str, tmp_path: Path, other: Any
) -> None:
    run = evaluate(["lexical", small], tmp_path / "run", metrics="faithfulness")
    with pytest.raises(InputError, match=r"was judged by lexical, small"):
        run.verify(judge=other)


def test_any_order_of_judges_has_the_same_bytes(small: str, tmp_path: Path) -> None:
    first = jury(small, tmp_path / "first")
    weights = dict(reversed(WEIGHTS.items()))
    second = jury([small, "lexical"], tmp_path / "second", weights=weights)
    assert contents(tmp_path / "first") == contents(tmp_path / "second")
    assert first.manifest.signature == second.manifest.signature


def test_shuffled_rows_have_the_same_verdicts(small: str, tmp_path: Path) -> None:
    jury(small, tmp_path / "first")
    jury(small, tmp_path / "shuffled", rows=ROWS[::-1], threads=2)
    lines = [
        sorted((tmp_path / name / "verdicts.jsonl").read_bytes().splitlines())
        for name in ("first", "shuffled")
    ]
    assert lines[0] == lines[1]


class Killed(Exception):
    pass


@pytest.mark.parametrize("fraction", [0.25, 0.5, 0.6, 0.9])
def test_a_run_killed_during_any_judge_resumes_to_the_same_bytes(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fraction: float
) -> None:
    whole = jury(small, tmp_path / "whole")
    total = asked(whole)
    stop_after = int(fraction * total)
    add_answers = Store.add_answers
    stored = 0

    def limited(
        self: Store, answers: dict[str, Answer | NoAnswer], source: str | None = None
    ) -> None:
        nonlocal stored
        if stored >= stop_after:
            raise Killed
        stored += len(answers)
        add_answers(self, answers, source)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "add_answers", limited)
        with pytest.raises(Killed):
            jury(small, tmp_path / "killed")
    resumed = jury(small, tmp_path / "killed")
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    sessions = resumed.manifest.environment.sessions
    assert sessions[-1].answers_before == stop_after
    assert sessions[-1].asked == total - stop_after


def test_answers_of_one_judge_are_reused(small: str, tmp_path: Path) -> None:
    alone = evaluate(small, tmp_path / "small")
    fresh = jury(small, tmp_path / "fresh")
    reusing = jury(small, tmp_path / "reusing", reuse=[alone])
    assert contents(tmp_path / "reusing") == contents(tmp_path / "fresh")
    assert asked(reusing) == asked(fresh) - asked(alone)
    again = evaluate("lexical", tmp_path / "again", reuse=[reusing])
    assert asked(again) == 0


def test_answers_of_other_judges_are_not_reused(small: str, other: str, tmp_path: Path) -> None:
    alone = evaluate(other, tmp_path / "other")
    with pytest.raises(InputError):
        jury(small, tmp_path / "jury", reuse=[alone])


def test_shards_merge_to_the_bytes_of_one_run(small: str, tmp_path: Path) -> None:
    jury(small, tmp_path / "whole")
    shards = [jury(small, tmp_path / f"shard-{number}", shard=f"{number}/2") for number in (1, 2)]
    localjudge.evaluate(reuse=shards, out=tmp_path / "merged", progress=False)
    assert contents(tmp_path / "merged") == contents(tmp_path / "whole")


def test_verify_repeats_the_answers_of_every_judge(small: str, tmp_path: Path) -> None:
    run = jury(small, tmp_path / "run")
    verification = run.verify()
    assert verification.result == "bit-identical"
    assert verification.asked_again == verification.stored_requests == asked(run)
    assert run.verify(sample=3).asked_again == 3


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE answer SET p_yes = 1 - p_yes"
        " WHERE request = (SELECT min(request) FROM unit WHERE judge = 1)",
        "UPDATE answer SET p_yes = 1 - p_yes"
        " WHERE request = (SELECT min(request) FROM unit WHERE judge = 0)",
        "DELETE FROM unit WHERE judge = 1 AND sample_id = '03'",
        "UPDATE unit SET request = (SELECT max(request) FROM unit WHERE judge = 1) "
        "WHERE judge = 1 AND sample_id = '01'",
    ],
)
def test_verify_notices_a_changed_store(small: str, tmp_path: Path, change: str) -> None:
    run = jury(small, tmp_path / "run")
    with sqlite3.connect(tmp_path / "run" / "run.sqlite") as connection:
        connection.execute(change)
    connection.close()
    assert run.verify().result == "different"


def test_a_metric_with_rounds_lets_the_judges_take_turns(small: str, tmp_path: Path) -> None:
    """`noise_sensitivity` asks about contexts only after its statements."""
    run = jury(small, tmp_path / "run", metrics="noise_sensitivity")
    summary = run.summary.metrics["noise_sensitivity"]
    assert summary.failed == 0
    assert run.verify().result == "bit-identical"


def test_a_failing_judge_fails_the_verdict_with_its_name(other: str, tmp_path: Path) -> None:
    """The other model has room for 1,024 tokens, and a token per byte."""
    row = {"id": "long", "response": "x" * 2000, "retrieved_contexts": ["It opened.", "It is red."]}
    weights = {"lexical": 1.0, "other": 1.0}
    run = jury(
        ["lexical", other],
        tmp_path / "run",
        rows=[row],
        metrics="faithfulness",
        weights=weights,
    )
    [verdict] = verdicts(tmp_path / "run")
    assert verdict["error"].startswith("other: ")
    assert verdict["label"] is None
    assert run.summary.metrics["faithfulness"].failed == 1


@pytest.mark.parametrize("again", ["lexical", "copy"])
def test_the_same_judge_twice_is_refused(small: str, tmp_path: Path, again: str) -> None:
    copy = tmp_path / "copy.gguf"
    shutil.copy(small, copy)
    named = ["lexical", "lexical"] if again == "lexical" else [small, str(copy)]
    with pytest.raises(InputError):
        evaluate(named, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_judges_of_one_name_get_the_beginning_of_their_checksum(
    small: str, other: str, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    twin = folder / "small.gguf"
    shutil.copy(other, twin)
    sums = [localjudge.Judge.open(path, threads=1).card.sha256 for path in (small, str(twin))]
    names = [f"small-{checksum[:8]}" for checksum in sums if checksum]
    weights = dict.fromkeys(names, 1.0)
    run = jury([small, str(twin)], tmp_path / "run", metrics="faithfulness", weights=weights)
    assert list(run.manifest.judge.jury) == sorted(names)


def test_a_jury_of_one_is_the_judge(small: str, tmp_path: Path) -> None:
    alone = evaluate(small, tmp_path / "alone")
    one = evaluate([small], tmp_path / "one")
    assert contents(tmp_path / "one") == contents(tmp_path / "alone")
    assert one.manifest.signature == alone.manifest.signature


@pytest.mark.parametrize("weights", [{"lexical": 1.0}, {"a": 1.0, "b": 1.0}])
def test_weights_are_for_the_named_judges(
    small: str, tmp_path: Path, weights: dict[str, float]
) -> None:
    with pytest.raises(InputError):
        jury(small, tmp_path / "run", weights=weights)


@pytest.mark.parametrize("how", [{}, {"judge": "lexical"}])
def test_weights_are_not_typed_but_fitted(small: str, tmp_path: Path, how: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="no option 'weights'"):
        localjudge.evaluate(ROWS, weights=WEIGHTS, **how)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("tiny", "lexical"),
    [(0.0, 0.0), (-1.0, 2.0), (math.inf, 1.0), (math.nan, 1.0), (1.8e308, 1.8e308), (1e7, 1.0)],
)
def test_weights_that_decide_nothing_are_refused(
    small: str, tmp_path: Path, tiny: float, lexical: float
) -> None:
    """With weights of 0 only, every statement would have the probability one half."""
    with pytest.raises((ValueError, InputError), match="weight"):
        jury(small, tmp_path / "run", weights={"small": tiny, "lexical": lexical})
    assert not (tmp_path / "run" / "scores.jsonl").exists()


@pytest.mark.parametrize(
    "scales",
    [
        "{ attribution = 0.0 }",
        "{ attribution = -1 }",
        "{ attribution = inf }",
        "{ a = 1 }",
        "{ attribution = 1e-310 }",
    ],
)
def test_a_registered_scale_that_cannot_divide_is_refused(
    home: Path, small: str, tmp_path: Path, scales: str
) -> None:
    write_registry(home, small, scale=f"scales = {scales}")
    with pytest.raises(InputError, match=r"registry\.toml") as refused:
        evaluate("both", tmp_path / "run", metrics="faithfulness")
    assert "scales" in str(refused.value)


def test_scales_are_measured_once_and_named(home: Path, small: str, tmp_path: Path) -> None:
    first = evaluate(["lexical", small], tmp_path / "first")
    place = next(n for n, note in enumerate(first.notes) if "the scale of small" in note)
    assert "about" in first.notes[place + 1]
    assert "second" in first.notes[place + 1]
    scales = {
        name: member.scales["attribution"] for name, member in first.manifest.judge.jury.items()
    }
    assert all(scale > 0 for scale in scales.values())
    assert first.manifest.judge.combinations["faithfulness"] == combine_by_scales(scales)
    second = evaluate(["lexical", small], tmp_path / "second", rows=ROWS[:2])
    assert not any("measuring" in note for note in second.notes)
    assert (
        len(list((home / "scales").iterdir())) == 1
    )  # the lexical judge has its scales in the registry
    assert second.manifest.judge.as_json == first.manifest.judge.as_json


@pytest.mark.parametrize(
    ("metric", "kind"),
    [("answer_relevancy", "answers"), ("context_relevancy_chunk", "passages")],
)
def test_questions_with_words_of_their_own_have_their_own_scale(
    home: Path, small: str, tmp_path: Path, metric: str, kind: Any
) -> None:
    """The reader has special words for them and a registered scale; the other judge is measured."""
    judges = ["reader", small]
    first = evaluate(judges, tmp_path / "first", metrics=metric, rows=ROWS[:1])
    measured = [note for note in first.notes if "measuring the scale" in note]
    assert len(measured) == 1
    assert kind in measured[0]
    identity = first.manifest.judge
    scales = {name: member.scales[kind] for name, member in identity.jury.items()}
    assert scales["reader"] == model_registry.registered()["reader"].scales[kind]
    assert identity.combinations[metric] == combine_by_scales(scales)
    second = evaluate(judges, tmp_path / "second", metrics=metric, rows=ROWS[1:2])
    assert not any("measuring" in note for note in second.notes)
    assert second.manifest.judge.as_json == identity.as_json
    (file,) = (home / "scales").iterdir()
    assert json.loads(file.read_bytes()) == {kind: scales["small"]}


def test_a_remembered_scale_that_is_no_number_is_measured_again(
    home: Path, small: str, tmp_path: Path
) -> None:
    first = evaluate(["lexical", small], tmp_path / "first")
    scales = first.manifest.judge.jury["small"].scales
    (file,) = (home / "scales").iterdir()
    for text in ("Infinity", "NaN", "-1.0", "null"):
        file.write_text(f'{{"attribution": {text}}}', encoding="utf-8")
        again = evaluate(["lexical", small], tmp_path / text, rows=ROWS[:2])
        assert again.manifest.judge.jury["small"].scales == scales


def write_registry(home: Path, small: str, *, scale: str = "", caution: str = "") -> None:
    model = localjudge.Judge.open(small, threads=1).card
    home.mkdir(exist_ok=True)
    text = (
        f'[[model]]\nname = "tiny"\npath = "{small}"\n'
        f'sha256 = "{model.sha256}"\nsize = {model.size}\n'
    )
    text += f'profile = "instruct"\n{scale}\n'
    text += f'[[jury]]\nname = "both"\njudges = ["lexical", "tiny"]\n{caution}\n'
    (home / "registry.toml").write_text(text, encoding="utf-8")


def test_a_registered_jury_is_named_as_one_judge(home: Path, small: str, tmp_path: Path) -> None:
    write_registry(
        home, small, scale="scales = { attribution = 2.0 }", caution='caution = "measured"'
    )
    run = evaluate("both", tmp_path / "run", metrics="faithfulness")
    assert run.manifest.judge.jury["tiny"].scales == {"attribution": 2.0}
    assert (run.judge.name, run.judge.caution) == ("both", "measured")
    assert run.verify().result == "bit-identical"
    evaluate(["tiny", "lexical"], tmp_path / "named", metrics="faithfulness")
    assert (tmp_path / "named" / "verdicts.jsonl").read_bytes() == (
        tmp_path / "run" / "verdicts.jsonl"
    ).read_bytes()


def test_the_weights_of_a_registered_jury_are_used_and_no_scale_is_measured(
    home: Path, small: str, tmp_path: Path
) -> None:
    weights = "weights.attribution = { tiny = 0.5, lexical = 2.0 }"
    write_registry(home, small, caution=weights)
    run = evaluate("both", tmp_path / "run", metrics=["faithfulness", "context_precision"])
    combinations = run.manifest.judge.combinations
    assert combinations["faithfulness"].weights == {"lexical": 2.0, "tiny": 0.5}
    relevance = run.manifest.judge.jury["tiny"].scales["relevance"]
    assert combinations["context_precision"].weights["tiny"] == 1 / (2 * relevance)
    assert "attribution" not in run.manifest.judge.jury["tiny"].scales
    assert run.verify().result == "bit-identical"


def read_verdicts(run: Path, metric: str = "faithfulness") -> list[str]:
    lines = (run / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if json.loads(line)["metric"] == metric]


@pytest.mark.parametrize(
    "weights",
    [
        "weights.attribution = { tiny = 0.5 }",
        "weights.attribution = { tiny = 0.5, lexical = 2.0, third = 1.0 }",
        "weights.attribution = { tiny = -0.5, lexical = 2.0 }",
        "weights.attribution = { tiny = 0.0, lexical = 0.0 }",
        "weights.attribution = { tiny = inf, lexical = 2.0 }",
        "weights.attribution = { tiny = nan, lexical = 2.0 }",
        "weights.attribution = { tiny = 1.8e308, lexical = 1.8e308 }",
        "weights.attributes = { tiny = 0.5, lexical = 2.0 }",
        "weights = { tiny = 0.5, lexical = 2.0 }",
    ],
)
def test_a_registered_jury_with_unusable_weights_is_refused(
    home: Path, small: str, tmp_path: Path, weights: str
) -> None:
    write_registry(home, small, caution=weights)
    with pytest.raises(InputError, match=r"registry\.toml") as refused:
        evaluate("both", tmp_path / "run", metrics="faithfulness")
    assert "weights" in str(refused.value)


def test_calibrate_fits_the_weights_of_a_registered_jury(
    home: Path, small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its judges are asked one by one, as if they were named, and its name takes the result."""
    write_registry(home, small)
    monkeypatch.chdir(tmp_path)
    labels = Path("labels.jsonl")
    rows = []
    for number in range(24):
        said = number if number % 2 else number + 1
        context = f"The bridge {number} opened in {1800 + number}."
        statement = f"The bridge {number} opened in {1800 + said}."
        rows.append({"context": context, "statement": statement, "label": number % 2})
    labels.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    options: dict[str, Any] = {"threads": 1, "min_valid_mass": 0, "progress": False}
    by_name = localjudge.calibrate("labels.jsonl", judge="both", **options)
    [fitted] = [calibration for calibration in by_name if calibration.weights]
    assert set(fitted.weights or {}) == {"lexical", "tiny"}
    both = localjudge.calibrate("labels.jsonl", judge=["lexical", "both"], **options)
    assert sorted(each.name for each in both) == sorted(each.name for each in by_name)
    with pytest.raises(InputError, match="lexical, tiny"):
        localjudge.calibrate("labels.jsonl", judge="both", name="mine", **options)
    run = evaluate("both", tmp_path / "run", calibration=[fitted], metrics=["faithfulness"])
    assert run.manifest.judge.combinations["faithfulness"].weights == fitted.weights


class Totals(Progress):
    """Progress that keeps the expected number of questions at each answer."""

    def __init__(self) -> None:
        self.expected = 0
        self.at_answers: list[int] = []

    def expect(self, count: int, *, counted: bool = True) -> None:
        self.expected += count

    def advance(self) -> None:
        self.at_answers.append(self.expected)


def test_the_total_of_all_judges_is_known_from_the_first_answer(small: str, tmp_path: Path) -> None:
    totals = Totals()
    rows = [{**row, "retrieved_contexts": ["The bridge is red."]} for row in ROWS]
    jury(small, tmp_path / "run", rows=rows, metrics=["faithfulness"], progress=totals)
    assert set(totals.at_answers) == {len(totals.at_answers)}


def test_a_registered_jury_of_other_files_has_the_strictest_caution(
    home: Path, small: str, tmp_path: Path
) -> None:
    write_registry(
        home, small, scale="scales = { attribution = 2.0 }", caution='caution = "measured"'
    )
    run = evaluate("both", tmp_path / "run", metrics="faithfulness")
    (home / "registry.toml").unlink()
    assert str(run.manifest.card.caution).startswith("compares words")


def test_one_model_is_in_memory_at_a_time(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_memory = 0
    most = 0
    open_engine = opening.open_engine

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal in_memory, most
        engine = open_engine(*arguments, **options)
        close = engine.close
        in_memory += 1
        most = max(most, in_memory)

        def closed() -> None:
            nonlocal in_memory
            in_memory -= 1
            close()

        monkeypatch.setattr(engine, "close", closed)
        return engine

    monkeypatch.setattr(judging.judges, "open_engine", counted)
    jury(small, tmp_path / "run")
    assert (most, in_memory) == (1, 0)


@pytest.mark.parametrize(
    ("stop", "count"),
    [({"until": "faithfulness>=0.99"}, 3), ({"budget": "1h"}, 4)],
    ids=str,
)
def test_no_model_is_opened_again_after_an_early_stop(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: dict[str, Any], count: int
) -> None:
    """Both judges are opened to identify them, and the first one again to answer.

    With a budget the first turn has two samples, so the last judge takes a second turn.
    """
    opened: list[str] = []
    open_engine = opening.open_engine

    def noted(file: ModelFile, *arguments: Any, **options: Any) -> Any:
        opened.append(file.path.stem)
        return open_engine(file, *arguments, **options)

    monkeypatch.setattr(judging.judges, "open_engine", noted)
    jury(small, tmp_path / "run", metrics="faithfulness", **stop)
    assert len(opened) == count, opened


def test_stopping_decisions_use_complete_verdicts(small: str, tmp_path: Path) -> None:
    run = jury(small, tmp_path / "run", metrics="faithfulness", until="faithfulness>=0.99")
    stopped = run.summary.stopped
    assert stopped is not None
    size = run.summary.samples
    jury(small, tmp_path / "sampled", metrics="faithfulness", sample=size)
    lines = [
        set((tmp_path / name / "verdicts.jsonl").read_bytes().splitlines())
        for name in ("run", "sampled")
    ]
    assert lines[0] == lines[1]
    assert run.verify().result == "bit-identical"


def test_a_time_budget_counts_every_sample_that_all_judges_answered(
    small: str, tmp_path: Path
) -> None:
    """The judges take turns of a few samples, and the time is checked between turns."""
    rows = [
        {**ROWS[0], "id": str(number), "response": f"It opened in {1000 + number}."}
        for number in range(200)
    ]
    run = jury(small, tmp_path / "run", rows=rows, metrics="faithfulness", budget="0.5s")
    assert 2 <= run.summary.samples < 200
    assert len({row["sample_id"] for row in verdicts(tmp_path / "run")}) == run.summary.samples
    sampled = jury(
        small,
        tmp_path / "sampled",
        rows=rows,
        metrics="faithfulness",
        sample=run.summary.samples,
        reuse=run,
    )
    assert asked(sampled) == 0
    stored = run.manifest.environment.answers
    assert stored is not None
    counted = sampled.manifest.environment.answers
    assert counted is not None
    assert sum(counted.reused.values()) == stored.asked, "no answer was given for nothing"


def test_an_open_jury_answers_like_a_run(small: str, tmp_path: Path) -> None:
    evaluate(["lexical", small], tmp_path / "run", metrics="faithfulness")
    expected = [row["p_yes"] for row in verdicts(tmp_path / "run")]
    with localjudge.Judge.open(["lexical", small], threads=1, min_valid_mass=0) as judge:
        evaluations = judge.evaluations(ROWS, "faithfulness")
        run = judge.evaluate(ROWS, "faithfulness")
        found = [verdict.p_yes for result in evaluations for verdict in result.verdicts]
    assert found == expected
    assert [row.p_yes for row in run.iter_verdicts()] == expected


def test_judges_are_named_by_repeating_the_option_or_as_a_list(
    small: str, tmp_path: Path, call: Call
) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS), encoding="utf-8")
    options = ("--judge", "lexical", "--judge", small, "--metrics", "faithfulness", "--quiet")
    config = tmp_path / "config.toml"
    config.write_text("threads = 1\nmin_valid_mass = 0\n", encoding="utf-8")
    code, _, errors = call("run", data, *options, "--config", config, "--out", tmp_path / "typed")
    assert code == 0, errors
    config.write_text(
        f'data = ["data.jsonl"]\njudge = ["{small}", "lexical"]\n'
        'metrics = ["faithfulness"]\nthreads = 1\n'
        "min_valid_mass = 0\n",
        encoding="utf-8",
    )
    code, _, errors = call("run", "--config", config, "--out", tmp_path / "listed", "--quiet")
    assert code == 0, errors
    assert contents(tmp_path / "typed") == contents(tmp_path / "listed")


def test_a_dry_run_counts_the_questions_of_every_judge(
    small: str, tmp_path: Path, call: Call
) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS), encoding="utf-8")
    how = ("--metrics", "faithfulness", "--json")
    code, printed, errors = call(
        "run", data, "--judge", "lexical", "--judge", small, *how, "--dry-run"
    )
    assert code == 0, errors
    estimate = json.loads(printed)
    alone = json.loads(call("run", data, "--judge", small, *how, "--dry-run")[1])
    assert estimate["verdicts"] == alone["verdicts"] == 2 * len(ROWS)
    assert estimate["requests"] > alone["requests"]
    assert estimate["memory_bytes"] >= alone["memory_bytes"]


@pytest.mark.parametrize(
    "metrics",
    [
        ["answer_relevancy"],
        ["context_relevancy"],
        ["faithfulness", "answer_relevancy", "context_relevancy"],
    ],
    ids=",".join,
)
def test_a_dry_run_asks_each_judge_only_what_the_run_asks(
    home: Path, tmp_path: Path, call: Call, metrics: list[str]
) -> None:
    """Of the bundled judges, one alone answers about answers, and the other about sentences."""
    data = tmp_path / "data.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS), encoding="utf-8")
    how = (data, "--judge", "bundled", "--metrics", ",".join(metrics))
    code, printed, errors = call("run", *how, "--out", tmp_path / "run", "--dry-run", "--json")
    assert code == 0, errors
    assert "resuming" not in errors
    estimate = json.loads(printed)
    whole = evaluate("bundled", tmp_path / "whole", metrics=metrics, rows=ROWS)
    verification = whole.verify()
    assert estimate["requests"] == verification.stored_requests
    assert estimate["verdicts"] == whole.summary.verdicts.count
    code, _, errors = call("run", *how, "--out", tmp_path / "run", "--quiet")
    assert code == 0, errors
    run = localjudge.Run.open(tmp_path / "run")
    assert run.verify().result == "bit-identical"
    assert run.verify().stored_requests == estimate["requests"]


def test_a_missing_judge_is_named_before_anything_is_asked(small: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        evaluate([small, str(tmp_path / "missing.gguf")], tmp_path / "run")
    with pytest.raises(InputError):
        evaluate([], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_jury_is_compared_with_one_of_its_judges_by_name(small: str, tmp_path: Path) -> None:
    alone = evaluate("lexical", tmp_path / "alone", metrics="faithfulness")
    run = jury(small, tmp_path / "jury", metrics="faithfulness")
    [change] = [each for each in run.compare(alone).judge_changes if each.ingredient == "judges"]
    assert (change.before, change.after) == ("lexical", "lexical + small")
    others = {each.ingredient for each in run.compare(alone).judge_changes}
    assert not any(name.startswith(("engine.", "jury.")) for name in others)


def test_a_jury_by_name_is_no_model(home: Path, small: str) -> None:
    write_registry(home, small)
    with pytest.raises(ModelError) as caught:
        model_registry.find("both")
    assert "lexical and tiny" in caught.value.message


def test_a_jury_can_be_the_default(
    home: Path, small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    write_registry(home, small, scale="scales = { attribution = 2.0 }")
    monkeypatch.setenv(JUDGE_VARIABLE, "both")
    run = evaluate(None, tmp_path / "run", metrics="faithfulness")
    assert list(run.manifest.judge.jury) == ["lexical", "tiny"]
    assert run.manifest.environment.judge == "both"
    code, printed, _ = call("doctor", "--probes", 0, "--injections", 0, "--json", "--quiet")
    assert json.loads(printed)["judge"] == "both"
    assert code in (0, 1)


def test_labels_correct_the_mean_of_a_jury(small: str, tmp_path: Path, call: Call) -> None:
    """A sheet of all 24 statements, filled in with 1 for every second, twice."""
    rows = []
    for number in range(24):
        fact = f"Bridge {number} opened in {1800 + number}."
        response = fact if number % 2 else f"The moon {number} is made of cheese."
        texts = {"retrieved_contexts": [fact], "response": response}
        rows.append({"id": str(number), "user_input": "When?", **texts})
    run = jury(small, tmp_path / "run", rows=rows, metrics=["faithfulness"])
    divided = sum(
        len({p >= 0.5 for p in row["judges"].values()}) > 1 for row in verdicts(run.directory)
    )
    assert 0 < divided < 24
    sheet = run.label(tmp_path / "sheet.jsonl", annotator="ann", sample=24)
    drawn = [json.loads(line) for line in sheet.read_text(encoding="utf-8").splitlines()]
    assert {row["draw"] for row in drawn if "draw" in row} != set()
    page = run.label(tmp_path / "page.html", annotator="ann", sample=24)
    assert '"judges"' in page.read_text(encoding="utf-8")
    filled = tmp_path / "filled.jsonl"
    with filled.open("w", encoding="utf-8") as file:
        for row in drawn[:20]:
            file.write(f"{json.dumps({**row, 'human': int(row['sample_id']) % 2})}\n")
    assert run.read_labels(filled).new == 20
    corrected = run["faithfulness"].corrected
    assert corrected is not None
    assert (corrected.labels, corrected.labelled) == (20, 20)
    assert corrected.ci95 is not None
    assert corrected.ci95[0] <= 0.5 <= corrected.ci95[1]
    low, high = corrected.ci95
    gates = [
        f"faithfulness>={low - 0.001:.6f}",
        f"faithfulness<={(low + high) / 2}",
        "faithfulness>=0.99",
    ]
    decisions = run.check(gates).decisions
    assert [decision.outcome for decision in decisions] == ["pass", "undecided", "fail"]
    assert {decision.corrected for decision in decisions} == {True}
    assert {decision.ci95 for decision in decisions} == {corrected.ci95}
    certificate = run.certificate(tmp_path / "certificate.html", gates=gates)
    assert not certificate.problems
    html = certificate.file.read_text(encoding="utf-8")
    for name, member in run.manifest.judge.jury.items():
        checksum = member.engine.model_sha256
        assert re.search(rf"{name}</bdi>: sha256\s*<code>{checksum}</code>", html)
    assert certificate.decisions == decisions
    code, printed, errors = call("verify", run.directory, "--quiet")
    assert code == 0, errors
    assert "labels" in printed
