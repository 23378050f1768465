"""A run that stops early equals a run on its judged samples, and can continue to all of them."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from estimates import estimated

from localjudge import InputError, Judge, Run, RunDirectoryError, ScriptedEngine, evaluate
from localjudge.engine.scripted import unit_text
from localjudge.progress import Progress
from localjudge.stats.interval import mean_interval
from localjudge.stats.paired import decide
from localjudge.stats.repeated_looks import sequence_interval
from localjudge.types import Answer, NoAnswer, VerdictRequest
from tests.conftest import OneJudge

ROWS: list[dict[str, Any]] = [
    {
        "id": f"s{number}",
        "retrieved_contexts": ["It rains."],
        "reference": f"Fact {number}. Another {number}.",
        "topic": f"t{number % 17}",
    }
    for number in range(120)
]
FILES = ("scores.jsonl", "verdicts.jsonl", "summary.json")
ROW_FILES = FILES[:2]
GATE = "context_recall>=0.6"


def says(request: VerdictRequest) -> float:
    return 0.9 if random.Random(unit_text(request)).random() < 0.9 else 0.1


def engine() -> ScriptedEngine:
    return ScriptedEngine(says)


def judge(
    out: Path | None, by: ScriptedEngine | None = None, rows: Any = None, **options: Any
) -> Run:
    return evaluate(
        rows or ROWS, metrics=["context_recall"], out=out, engine=by or engine(), **options
    )


def read_files(run: Run, names: Sequence[str] = FILES) -> list[bytes]:
    return [(run.directory / name).read_bytes() for name in names]


def digest(seed: int, name: str) -> str:
    """Return the sha256 by which samples and groups are ordered."""
    return hashlib.sha256(f"{seed}|{name}".encode()).hexdigest()


def in_order(seed: int = 0) -> list[str]:
    return sorted((row["id"] for row in ROWS), key=lambda name: digest(seed, name))


def collect_scores(run: Run) -> dict[str, float]:
    return {row.sample_id: row.score for row in run.scores if row.score is not None}


def collect_expected(run: Run) -> dict[str, float]:
    return {row.sample_id: row.expected for row in run.scores if row.expected is not None}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return judge(tmp_path_factory.mktemp("stopped") / "run", until=GATE)


def test_a_stopped_run_equals_a_run_on_its_random_sample(stopped: Run, tmp_path: Path) -> None:
    """Everything equals `sample` except the interval, its basis and the reason for the end."""
    count = stopped.summary.samples
    assert 10 < count < 60
    assert set(collect_scores(stopped)) == set(in_order()[:count])
    drawn = judge(tmp_path / "drawn", sample=count)
    assert read_files(drawn, ROW_FILES) == read_files(stopped, ROW_FILES)
    early, fixed = (json.loads(read_files(run, ["summary.json"])[0]) for run in (stopped, drawn))
    assert {name for name in early if early[name] != fixed[name]} == {
        "signature",
        "metrics",
        "stopped",
    }
    one = early["metrics"]["context_recall"]
    other = fixed["metrics"]["context_recall"]
    assert {name for name in one if one[name] != other[name]} == {
        "ci95",
        "expected_ci95",
        "method",
    }
    assert one["ci95"][0] < other["ci95"][0], "what holds at every size is wider"
    assert str(stopped.part) == f"{count} of 120 samples, drawn with seed 0"
    assert early["stopped"].startswith(f"after {count} of 120 samples")
    assert fixed["stopped"] is None


def test_a_run_stops_at_the_first_deciding_sample(stopped: Run) -> None:
    """Recomputed: with fewer scores the interval contained the threshold."""
    scores = collect_scores(stopped)
    ordered = [scores[name] for name in in_order()[: len(scores)]]
    outcomes = [
        decide(sequence_interval(ordered[:k]), ">=", 0.6) for k in range(1, len(ordered) + 1)
    ]
    assert outcomes == ["undecided"] * (len(ordered) - 1) + ["pass"]
    assert stopped["context_recall"].ci95 == sequence_interval(ordered).ci95
    assert stopped["context_recall"].method == "confidence sequence"


def test_repeating_a_stopped_run_changes_no_file(stopped: Run) -> None:
    before = read_files(stopped)
    again = engine()
    times = [(stopped.directory / name).stat().st_mtime_ns for name in FILES]
    run = judge(stopped.directory, again, until=GATE)
    assert (len(again.asked), read_files(run)) == (0, before)
    assert [(run.directory / name).stat().st_mtime_ns for name in FILES] == times


def test_without_until_a_stopped_run_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same default directory."""
    monkeypatch.chdir(tmp_path)
    first = engine()
    rest = engine()
    early = judge(None, first, until=GATE)
    asked = {unit_text(request) for request in first.asked}
    whole = judge(None, rest)
    assert whole.directory == early.directory
    assert asked.isdisjoint(unit_text(request) for request in rest.asked)
    assert len(asked) + len(rest.asked) == 240
    fresh = judge(tmp_path / "fresh")
    assert read_files(whole) == read_files(fresh)
    assert whole.manifest.data == fresh.manifest.data
    assert (whole.summary.stopped, whole.part) == (None, None)
    assert early.summary.signature != whole.summary.signature == fresh.summary.signature
    assert whole.verify(engine=engine()).result == "bit-identical"


def test_a_run_becomes_longer_and_never_shorter(stopped: Run, tmp_path: Path) -> None:
    run = judge(tmp_path / "run", until=GATE)
    assert run.summary.samples == stopped.summary.samples
    harder = judge(tmp_path / "run", until="context_recall>=0.75")
    assert harder.summary.samples > run.summary.samples
    more = engine()
    easier = judge(tmp_path / "run", more, until="context_recall>=0.2")
    assert (easier.summary.samples, len(more.asked)) == (harder.summary.samples, 0)


def test_row_order_does_not_change_the_stop(stopped: Run, tmp_path: Path) -> None:
    shuffled = judge(
        tmp_path / "shuffled", rows=random.Random(1).sample(ROWS, len(ROWS)), until=GATE
    )
    assert shuffled.summary == stopped.summary


SLOW = """
import sys, time
import localjudge
from tests.judging.test_stopping import GATE, ROWS, says

class Slow(localjudge.ScriptedEngine):
    def _answer(self, request):
        if len(self.asked) > 25:
            print("ready", flush=True)
            time.sleep(600)
        return super()._answer(request)

options = {"metrics": ["context_recall"], **eval(sys.argv[2])}
localjudge.evaluate(ROWS, out=sys.argv[1], engine=Slow(says), **options)
"""


def killed(out: Path, options: str) -> None:
    command = [sys.executable, "-c", SLOW, str(out), options]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)


@pytest.mark.engine
def test_a_killed_early_stopping_run_resumes_with_identical_files(
    stopped: Run, tmp_path: Path
) -> None:
    killed(tmp_path / "run", "{'until': GATE}")
    rest = engine()
    run = judge(tmp_path / "run", rest, until=GATE)
    assert read_files(run) == read_files(stopped)
    assert len(rest.asked) == 2 * run.summary.samples - 25
    assert len(run.manifest.environment.sessions) == 2


@pytest.mark.engine
def test_a_killed_full_run_may_stop_early_when_resumed(stopped: Run, tmp_path: Path) -> None:
    killed(tmp_path / "run", "{}")
    run = judge(tmp_path / "run", until=GATE)
    assert read_files(run) == read_files(stopped)
    assert run.verify(engine=engine()).result == "bit-identical"


def test_whole_groups_are_drawn(tmp_path: Path) -> None:
    """Ordered by sha256 of the group name; the largest group bounds the stake of a draw."""
    run = judge(tmp_path / "run", until="context_recall>=0.4", cluster_by="topic", seed=3)
    groups = run.cluster_of
    assert groups is not None
    of_group = {
        topic: [row["id"] for row in ROWS if row["topic"] == topic]
        for topic in {r["topic"] for r in ROWS}
    }
    order = sorted(of_group, key=lambda topic: digest(3, topic))
    count = len(set(groups.values()))
    assert 3 < count < 17
    assert set(groups) == {name for topic in order[:count] for name in of_group[topic]}
    assert run.sampling.max_cluster_size == 8  # 120 samples in 17 topics: one topic has 8, or 7
    rows = [row for row in run.scores if row.score is not None]
    values = [row.score for row in rows]
    names = [groups[row.sample_id] for row in rows]
    assert (
        run["context_recall"].ci95
        == sequence_interval(np.array(values), clusters=names, largest=8).ci95
    )
    assert run.verify(engine=engine()).result == "bit-identical"


class Slow(ScriptedEngine):
    """An engine that waits before each answer."""

    def _answer(self, request: VerdictRequest) -> Answer | NoAnswer:
        time.sleep(0.01)
        return super()._answer(request)


def test_a_time_budget_gives_the_ordinary_interval(tmp_path: Path) -> None:
    """Each call gets the full time; samples chosen by time are an ordinary sample."""
    run = judge(tmp_path / "run", Slow(says), budget="0.6s")
    count = run.summary.samples
    assert 0 < count < 35, "each sample takes more than 0.02 s, on a busy machine much more"
    drawn = judge(tmp_path / "drawn", sample=count)
    assert read_files(run, ROW_FILES) == read_files(drawn, ROW_FILES)
    assert run.summary.model_copy(update={"stopped": None}) == drawn.summary
    values = list(collect_scores(run).values())
    assert run["context_recall"].ci95 == mean_interval(values).ci95
    more = judge(tmp_path / "run", Slow(says), budget="0.3s")
    assert more.summary.samples > count
    whole = judge(tmp_path / "run", budget="2h")
    assert read_files(whole) == read_files(judge(tmp_path / "whole")), (
        "all samples, and nothing to say of an end"
    )


def test_a_score_stopped_run_keeps_its_interval_until_complete(tmp_path: Path) -> None:
    judge(tmp_path / "run", until=GATE)
    more = judge(tmp_path / "run", Slow(says), budget="0.3s")
    assert more["context_recall"].method == "confidence sequence"
    rescored = evaluate(reuse=more, engine=engine(), threshold=0.3, out=tmp_path / "rescored")
    assert (rescored["context_recall"].method, rescored.sampling.max_cluster_size) == (
        "confidence sequence",
        1,
    )
    assert str(rescored.summary.how_it_ended).endswith("by the scores of the run with the samples")
    assert rescored.verify(engine=engine()).result == "bit-identical"


def test_a_difference_from_a_baseline_stops_a_run(tmp_path: Path) -> None:
    by_words = OneJudge(lambda request: 0.9 if "7" in unit_text(request) else 0.1)
    baseline = judge(tmp_path / "baseline", by_words)
    gate = "context_recall.delta>=0.2"
    run = judge(tmp_path / "run", OneJudge(says), until=gate, baseline=baseline)
    assert run.summary.samples < 60
    compared: Any = run.compare(baseline).metrics["context_recall"]
    assert (compared.scores.method, compared.verdicts.ci95) == ("confidence sequence", None)
    [decision] = run.check([gate], baseline=baseline).decisions
    assert (decision.outcome, decision.samples) == ("pass", run.summary.samples)
    differences = [
        collect_expected(run)[name] - collect_expected(baseline)[name]
        for name in in_order()[: run.summary.samples]
    ]
    expected = sequence_interval(differences, lowest=-1.0)
    assert decision.ci95 == expected.ci95
    assert sequence_interval(differences[:-1], lowest=-1.0).low < 0.2


def test_duplicate_questions_pair_as_in_the_comparison(tmp_path: Path) -> None:
    """A question in two new samples has no pair if both are judged, and one if one is."""

    def rows(prefix: str, copies: int) -> list[dict[str, Any]]:
        context = [f"It rains in {prefix}."]
        names = [f"{n}-{copy}" for n in range(60) for copy in range(copies if n < 30 else 1)]
        questions = {
            name: {"user_input": f"What is fact {name.partition('-')[0]}?"} for name in names
        }
        texts = {
            name: {"reference": f"Fact {prefix}{name}.", "retrieved_contexts": context}
            for name in names
        }
        return [{"id": f"{prefix}{name}", **questions[name], **texts[name]} for name in names]

    baseline = judge(tmp_path / "old", ScriptedEngine({}, default=0.0), rows("a", 1))
    gate = "context_recall.delta>=0.4"
    run = judge(tmp_path / "new", rows=rows("b", 2), until=gate, baseline=baseline)
    assert 10 < run.summary.samples < 60
    [decision] = run.check(
        [gate], baseline=baseline, allow_different=["judges", "questions"]
    ).decisions
    assert (decision.outcome, bool(decision.unpaired)) == ("pass", True)
    assert run.summary.stopped
    assert decision.ci95
    low, high = decision.ci95
    assert f"{decision.value:+.2f} [{low:+.2f}, {high:+.2f}]" in run.summary.stopped


@pytest.mark.parametrize("grouped", ["run", "baseline"])
def test_differences_of_groups_count_groups_as_draws(tmp_path: Path, grouped: str) -> None:
    if grouped == "run":
        baseline = judge(tmp_path / "old")
        options = {"cluster_by": "topic"}
    else:
        baseline = judge(tmp_path / "old", cluster_by="topic", until="context_recall>=0.5")
        options = {}
    gate = "context_recall.delta>=-0.4"
    run = judge(
        tmp_path / "new",
        ScriptedEngine(lambda _: 0.1),
        until=gate,
        baseline=baseline,
        **options,
    )
    scores: Any = run.compare(baseline).metrics["context_recall"].scores
    paired = {*collect_scores(run)} & {*collect_scores(baseline)}
    groups = {row["id"]: row["topic"] for row in ROWS}
    assert scores.clusters == len({groups[name] for name in paired}) < len(paired)
    [decision] = run.check([gate], baseline=baseline).decisions
    assert run.summary.stopped
    assert decision.ci95
    low, high = decision.ci95
    assert f"[{low:+.2f}, {high:+.2f}]" in run.summary.stopped


def test_a_difference_judges_only_samples_of_the_baseline(tmp_path: Path) -> None:
    """It stops after the last sample with a partner; without any partner it judges one sample."""
    gate = "context_recall.delta>=0"
    for names, judged in ((in_order()[2:7], 7), ([], 1)):
        kept = [row for row in ROWS if row["id"] in names] or [
            {**ROWS[0], "id": "other", "reference": "Else."}
        ]
        baseline = judge(tmp_path / f"old{judged}", rows=kept)
        run = judge(tmp_path / f"new{judged}", until=gate, baseline=baseline)
        assert run.summary.samples == judged
        assert "baseline has no more" in str(run.summary.stopped)
        assert run.check([gate], baseline=baseline).decisions[0].outcome == "undecided"


@pytest.mark.parametrize("step", ["Job._store_data", "ResultFiles.add"])
def test_a_kill_while_writing_does_not_shorten_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    longer = judge(tmp_path / "longer", until="context_recall>=0.8")

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(f"localjudge.judging.job.{step}", die)
        with pytest.raises(KeyboardInterrupt):
            judge(tmp_path / "run", until="context_recall>=0.8")
    assert read_files(judge(tmp_path / "run", until=GATE), ROW_FILES) == read_files(
        longer, ROW_FILES
    )


def test_a_score_stopped_run_refuses_groups(stopped: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot have other groups"):
        evaluate(reuse=stopped, engine=engine(), cluster_by="topic", out=tmp_path / "run")


def test_undecidable_stopping_rules_are_refused_early(tmp_path: Path) -> None:
    asked = engine()
    for options, problem in (
        ({"until": "faithfulness>=0.8"}, "which is not computed"),
        ({"until": "context_recall.delta>=0"}, "needs a baseline"),
        ({"until": "context_recall=0.8"}, "is not a gate"),
        ({"until": GATE, "shard": "1/2"}, "until and shard cannot both be given"),
        ({"budget": "3m", "limit": 5}, "limit and budget cannot both be given"),
        ({"budget": "soon"}, "budget must be a time"),
        ({"budget": "0s"}, "budget must be a time"),
        ({"width": 0.1}, "there is no option 'width'"),
    ):
        with pytest.raises(InputError) as raised:
            judge(tmp_path / "run", asked, **options)
        assert problem in str(raised.value), options
    assert not asked.asked
    assert not (tmp_path / "run").exists()


def test_another_seed_is_refused_and_a_full_run_is_unchanged(tmp_path: Path) -> None:
    run = judge(tmp_path / "run", until=GATE)
    before = read_files(run)
    with pytest.raises(RunDirectoryError, match="drawn with seed 0"):
        judge(tmp_path / "run", until=GATE, seed=1)
    assert read_files(run) == before
    whole = judge(tmp_path / "whole")
    before = read_files(whole)
    rest = engine()
    for option in ({"until": GATE}, {"budget": "1h"}):
        again = judge(tmp_path / "whole", rest, **option)
        assert read_files(again) == before
        assert any("cannot stop early" in note for note in again.notes)
    assert not rest.asked


def test_a_forged_draw_adds_no_foreign_sample(tmp_path: Path) -> None:
    others = [{**row, "id": f"other {row['id']}"} for row in ROWS]
    judge(tmp_path / "other", rows=others, until=GATE)
    fresh = judge(tmp_path / "fresh")
    file = tmp_path / "other" / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["environment"]["drawn_from"] = fresh.manifest.data.as_json
    file.write_text(json.dumps(manifest))
    run = judge(tmp_path / "other")
    assert read_files(run) == read_files(fresh)
    assert run.verify(engine=engine()).result == "bit-identical"


def test_a_gate_left_open_by_all_samples_is_undecided(tmp_path: Path) -> None:
    mean = judge(tmp_path / "whole")["context_recall"].mean
    run = judge(tmp_path / "run", until=f"context_recall>={mean:.3f}")
    assert run.part is None
    [decision] = run.check([f"context_recall>={mean:.3f}"]).decisions
    assert decision.outcome == "undecided"
    assert run["context_recall"].method == "confidence sequence"


@pytest.mark.parametrize(
    ("options", "failed"), [({}, 2), ({"max_failed": 0}, 1), ({"max_failed": 4}, 5)]
)
def test_too_many_failures_decide_a_gate(
    tmp_path: Path, options: dict[str, int], failed: int
) -> None:
    """By default 1 of 120 samples may fail."""
    run = judge(
        tmp_path / "run",
        ScriptedEngine(lambda _: NoAnswer(error="it broke")),
        until=GATE,
        **options,
    )
    assert run.summary.samples == failed
    assert f"failed samples: {failed}" in str(run.summary.stopped)


def test_an_open_judge_stops_early_too(stopped: Run, tmp_path: Path) -> None:
    with Judge.open(engine=engine()) as opened:
        run = evaluate(
            ROWS, judge=opened, metrics=["context_recall"], until=GATE, out=tmp_path / "run"
        )
    assert read_files(run, ROW_FILES) == read_files(stopped, ROW_FILES)


class Told(Progress):
    """Record the reported state."""

    def __init__(self) -> None:
        self.standings: list[str] = []

    def standing(self, text: str) -> None:
        """Record it."""
        self.standings.append(text)


def test_progress_shows_interval_and_samples_still_needed(tmp_path: Path) -> None:
    told = Told()
    run = judge(tmp_path / "run", until=GATE, progress=told)
    assert len(told.standings) == run.summary.samples
    assert told.standings[-2].startswith("context_recall 0.")
    assert ", needs >= 0.6: about " in told.standings[-2]
    left = int(told.standings[-10].split("about ")[1].split()[0])
    assert 1 <= left <= 60


def test_progress_gives_no_forecast_before_the_first_score(tmp_path: Path) -> None:
    told = Told()
    first = in_order()[0]
    rows = [{**row, "reference": None if row["id"] == first else row["reference"]} for row in ROWS]
    judge(tmp_path / "run", until=GATE, rows=rows, progress=told)
    assert told.standings[0] == "context_recall -, needs >= 0.6"
    assert told.standings[5].endswith(" more") or told.standings[5].endswith("than there are")


def test_a_dry_run_estimates_the_samples_for_a_decision(stopped: Run, tmp_path: Path) -> None:
    by = engine()
    [needed] = estimated(ROWS, "context_recall", by, tmp_path / "easy", until=GATE).until
    assert needed.samples == stopped.summary.samples < 20, "the first samples decide it"
    gate = "context_recall>=0.75"
    harder = estimated(ROWS, "context_recall", by, tmp_path / "harder", until=gate)
    [needed] = harder.until
    assert needed.samples is not None
    assert 20 < needed.samples <= 400
    assert len(by.asked) == 2 * stopped.summary.samples + 40, (
        "two facts of each of the first 20 samples"
    )
    assert harder.seconds is not None
    assert needed.seconds == pytest.approx(harder.seconds * needed.samples / 120)
