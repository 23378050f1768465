import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import random_model

import localjudge
from localjudge.cli.main import main
from localjudge.engine.llamacpp import loading as self_check
from localjudge.engine.llamacpp.kv_cache import KVCache, RewindMode, TokenRun
from localjudge.engine.llamacpp.loading import SelfCheckInput, SelfCheckResult, load
from localjudge.engine.protocol import EngineSettings
from localjudge.errors import ModelError, OutOfResource
from localjudge.progress import Silence
from localjudge.types import Answer
from tests.engine.conftest import Asker, ModelMaker, Opener, attributions

pytestmark = pytest.mark.engine

CUT = ("llama", "qwen2", "gemma2", "gemma3", "phi3", "gpt2")
SAVED = ("mamba", "lfm2")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    inputs: list[str] = []
    run = self_check._run_child

    def watched(wanted: SelfCheckInput, on_tick: Callable[[], None]) -> Any:
        inputs.append(wanted.model_dump_json())
        return run(wanted, on_tick)

    monkeypatch.setattr(self_check, "_run_child", watched)
    return inputs


@pytest.mark.parametrize("architecture", [*CUT, *SAVED])
def test_how_each_kind_of_memory_rewinds(make_model: ModelMaker, open_engine: Opener, architecture: str) -> None:
    """Attention, also with a sliding window, is cut; recurrent layers restore a saved state."""
    engine = open_engine(make_model(architecture))
    assert engine.identity["self_check"] == "bit-identical"
    assert "repack" not in engine.identity  # answers stored before there was such a thing are found again
    loaded = load(make_model(architecture), EngineSettings(threads=1))
    loaded.close()
    mode: RewindMode = "checkpoint" if architecture in SAVED else "cut"
    assert loaded.self_check == SelfCheckResult(rewind_mode=mode, difference=0)


@pytest.mark.parametrize(("again", "count"), [({}, 1), ({"threads": 2}, 1), ({"n_ctx": 128}, 2)])
def test_a_model_is_checked_once_per_context_size(
    home: Path, make_model: ModelMaker, open_engine: Opener, trials: list[str], again: dict[str, int], count: int
) -> None:
    open_engine(make_model())
    [file] = (home / "self-checks").glob("*.json")
    assert json.loads(file.read_bytes()) == {"rewind_mode": "cut", "difference": 0.0, "repack": True}
    open_engine(make_model(), **again)
    assert len(trials) == len(list((home / "self-checks").glob("*.json"))) == count


@pytest.mark.parametrize("damage", ["", '{"rewind_mode": "by air", "difference": 0}', None])
def test_a_damaged_or_missing_record_repeats_the_check(
    home: Path, make_model: ModelMaker, open_engine: Opener, trials: list[str], damage: str | None
) -> None:
    file = make_model()
    if damage is None:
        home.write_text("", encoding="utf-8")
    open_engine(file)
    for memory in (home / "self-checks").glob("*.json"):
        memory.write_text(damage or "", encoding="utf-8")
    open_engine(file)
    assert len(trials) == 2


def test_files_in_the_working_directory_are_not_imported(
    home: Path, make_model: ModelMaker, open_engine: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The working directory may hold anything."""
    file = make_model()
    (tmp_path / "numpy.py").write_text("raise SystemExit('imported from the working directory')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert open_engine(file).identity["self_check"] == "bit-identical"


@pytest.mark.parametrize("architecture", ["llama", "gemma2", *SAVED])
def test_a_model_that_cannot_rewind_is_evaluated_from_scratch(
    home: Path, make_model: ModelMaker, open_engine: Opener, ask: Asker, architecture: str
) -> None:
    """Verdicts are bit-identical, prefixes are evaluated again, and the manifest shows the mode."""
    requests = [ask(f"Statement {number}.", ["It opened in 1936."]) for number in range(5)]
    forked = open_engine(make_model(architecture))
    expected = dict(forked.answers(requests))
    for file in (home / "self-checks").glob("*.json"):
        file.write_text(SelfCheckResult(rewind_mode="recompute", difference=0).model_dump_json(), encoding="utf-8")
    unforked = open_engine(make_model(architecture))
    assert dict(unforked.answers(requests)) == expected
    assert unforked.identity["self_check"] == "not forked"
    assert (forked.shares_prefixes, unforked.shares_prefixes) == (True, False)
    assert forked.stats.evaluated_tokens == forked.stats.unique_tokens
    assert unforked.stats.evaluated_tokens > 1.5 * unforked.stats.unique_tokens


@pytest.mark.parametrize("architecture", SAVED)
def test_saved_states_work_for_a_path_of_many_nodes(
    make_model: ModelMaker, open_engine: Opener, ask: Asker, architecture: str
) -> None:
    """More nodes than saved states, with hundreds of tokens each."""
    contexts = [f"Context number {number}. " * 10 for number in range(7)]
    requests = [ask("It opened.", contexts[:count]) for count in (7, 6, 4, 2, 0, 7, 3)]
    requests += [ask("It closed.", contexts[:count]) for count in (7, 1)]
    shared = open_engine(make_model(architecture))
    for request in requests:
        [(_, answer)] = shared.answers([request])
        [(_, alone)] = open_engine(make_model(architecture)).answers([request])
        assert answer == alone


@pytest.mark.parametrize("architecture", ["llama", "gemma2", *SAVED])
def test_reasons_do_not_affect_later_answers(make_model: ModelMaker, open_engine: Opener, architecture: str) -> None:
    """In another order, separately, and with other threads."""
    requests = attributions([f"It opened in {year}." for year in (1936, 1937, 1938)], reasons="before")
    forwards = dict(open_engine(make_model(architecture), threads=2).answers(requests))
    engine = open_engine(make_model(architecture))
    backwards = dict(engine.answers(requests[::-1]))
    assert [forwards[index] for index in range(3)] == [backwards[index] for index in (2, 1, 0)]
    assert dict(engine.answers(requests[2:])) == {0: forwards[2]}
    assert all(isinstance(answer, Answer) and answer.reason for answer in forwards.values())


@pytest.mark.parametrize(("wrong", "mode"), [(("cut", "checkpoint"), "recompute"), (("cut",), "checkpoint")])
def test_a_build_with_wrong_forks_rewinds_in_another_way(
    make_model: ModelMaker, monkeypatch: pytest.MonkeyPatch, wrong: tuple[str, ...], mode: RewindMode
) -> None:
    """Some GPU builds gave other logits after a fork."""
    logits_behind, rewind = KVCache.logits_behind, KVCache.rewind
    went_back: set[int] = set()

    def going(self: KVCache, position: int) -> int:
        if self._rewind_mode in wrong:
            went_back.add(id(self))
        return rewind(self, position)

    def rolled(self: KVCache, run: TokenRun) -> Any:
        logits = logits_behind(self, run)
        if id(self) in went_back:
            went_back.discard(id(self))
            return np.roll(logits, 1)
        return logits

    monkeypatch.setattr(KVCache, "rewind", going)
    monkeypatch.setattr(KVCache, "logits_behind", rolled)
    trial = SelfCheckInput(path=make_model().path, n_ctx=256, gpu_layers=0, threads=1)
    assert self_check.check_here(trial) == SelfCheckResult(rewind_mode=mode, difference=0)


LIBSTDCXX = "terminate called after throwing an instance of 'std::bad_alloc'"
OPENMP = "libgomp: Thread creation failed: Resource temporarily unavailable"


@pytest.mark.parametrize(
    ("status", "errors", "kind", "said"),
    [
        (-6, "noise\na.cpp:12: GGML_ASSERT(x > 0) failed", ModelError, "SIGABRT (a.cpp:12: GGML_ASSERT"),
        (-11, "Segmentation fault", ModelError, "SIGSEGV (Segmentation fault)"),
        (-4, "", ModelError, "SIGILL"),
        (1, "Traceback ...\nImportError: no such library", ModelError, "status 1 (ImportError: no such library)"),
        (-9, "", OutOfResource, "too little memory: the process that tried it ended with SIGKILL"),
        (-6, LIBSTDCXX, OutOfResource, "ended with SIGABRT (terminate called"),
        (1, OPENMP, OutOfResource, "ended with status 1 (libgomp: Thread"),
    ],
)
def test_the_end_of_the_child_process_is_explained(
    home: Path, make_model: ModelMaker, monkeypatch: pytest.MonkeyPatch, status: int, errors: str, kind: Any, said: str
) -> None:
    """SIGABRT is a check of llama.cpp; SIGKILL is the system's when memory runs out.

    SIGILL (missing instruction) and SIGSEGV (AMX code of some compilers) may come from the build.
    """
    monkeypatch.setattr(self_check, "_run_child", lambda *_: subprocess.CompletedProcess([], status, "", errors))
    with pytest.raises(kind) as caught:
        load(make_model(), EngineSettings(threads=1))
    assert said in str(caught.value)
    assert ("the model needs about" in str(caught.value)) == (kind is OutOfResource)
    assert not list((home / "self-checks").glob("*.json"))


@pytest.mark.parametrize("ending", [-signal.SIGSEGV, -signal.SIGILL])
def test_a_build_that_cannot_run_repacked_weights_uses_plain_ones(
    home: Path, make_model: ModelMaker, open_engine: Opener, monkeypatch: pytest.MonkeyPatch, ending: int
) -> None:
    """AMX tile code of GCC 12 crashes; the manifest shows the fallback. The second engine does not check again."""
    tried: list[bool] = []
    run = self_check._run_child

    def dying_of_tiles(wanted: SelfCheckInput, on_tick: Callable[[], None]) -> "subprocess.CompletedProcess[str]":
        tried.append(wanted.repack)
        return subprocess.CompletedProcess([], ending, "", "") if tried[-1] else run(wanted, on_tick)

    monkeypatch.setattr(self_check, "_run_child", dying_of_tiles)
    file = make_model()
    assert [open_engine(file).identity["repack"] for _ in range(2)] == [False, False]
    assert tried == [True, False]


class Listener(Silence):
    """Record the messages about a self-check."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.times: list[tuple[str, float, float]] = []

    def note(self, text: str) -> None:
        """Record the text."""
        self.notes.append(text)

    def elapsed(self, doing: str, seconds: float, expected: float) -> None:
        """Record the times."""
        self.times.append((doing, seconds, expected))


class SlowChild:
    """Fake process that answers after four waits; `fails` replaces the answer by an error."""

    def __init__(self, fails: BaseException | None = None) -> None:
        self.requests: list[str | None] = []
        self.fails, self.killed, self.args, self.returncode = fails, False, ["model"], 0

    def communicate(self, request: str | None, timeout: float) -> tuple[str, str]:
        """Wait."""
        self.requests.append(request)
        if len(self.requests) < 5:
            raise subprocess.TimeoutExpired("model", timeout)
        if self.fails:
            raise self.fails
        return SelfCheckResult(rewind_mode="cut", difference=0).model_dump_json(), ""

    def kill(self) -> None:
        """Do nothing."""
        self.killed = True

    def __enter__(self) -> "SlowChild":
        return self

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]

    def look() -> float:
        now[0] += 20
        return now[0]

    monkeypatch.setattr("localjudge.engine.llamacpp.loading.time.monotonic", look)
    return now


def wanted_of(size: int, folder: Path) -> SelfCheckInput:
    with (folder / "large.gguf").open("wb") as file:
        file.truncate(size)
    return SelfCheckInput(path=folder / "large.gguf", n_ctx=256, gpu_layers=0, threads=1)


def test_a_self_check_reports_expected_and_elapsed_time(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    """1 GiB: 2 s + 10 s; 10 GiB: 2 s + 100 s. Start at 20; ticks at 40, 60 ... are 20, 40, 60, 80 s."""
    child, listener = SlowChild(), Listener()
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: child)
    self_check.self_check_of("0" * 64, wanted_of(1 << 30, tmp_path), listener)
    assert listener.notes == ["first use of this model on this machine: a self-test, about 10 seconds"]
    assert listener.times == [("self-test", seconds, 12.0) for seconds in (20, 40, 60, 80)]
    assert [request is None for request in child.requests] == [False, True, True, True, True]
    again, other = Listener(), Listener()
    self_check.self_check_of("0" * 64, wanted_of(1 << 30, tmp_path), again)
    assert (again.notes, again.times) == ([], [])
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: SlowChild())
    self_check.self_check_of("1" * 64, wanted_of(10 << 30, tmp_path), other)
    assert other.notes == ["first use of this model on this machine: a self-test, about 2 minutes"]


def test_an_interrupt_ends_the_child(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    child = SlowChild(fails=KeyboardInterrupt())
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: child)
    with pytest.raises(KeyboardInterrupt):
        self_check.self_check_of("0" * 64, wanted_of(1 << 30, tmp_path))
    assert child.killed
    assert not list((home / "self-checks").glob("*"))


COMMANDS = {
    "run --dry-run": ("run", "--dry-run", "--metrics", "context_recall"),
    "doctor": ("doctor", "--probes", "0", "--injections", "0"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_announces_the_self_check_once_on_stderr(
    home: Path, make_model: ModelMaker, tmp_path: Path, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"contexts": ["It opened in 1936."], "ground_truth": "It opened."}')
    name, *options = COMMANDS[command]
    model = make_model(shape=random_model.Shape(context=8192)).path
    typed = [name, *([str(data)] if name == "run" else []), *options, "--judge", str(model), "--threads", "1", "--json"]
    said = []
    for _ in range(2):
        with pytest.raises(SystemExit):
            main(typed)
        output, errors = capfd.readouterr()
        json.loads(output)
        said.append(errors.count("first use of this model on this machine: a self-test, about 5 seconds\n"))
    assert said == [1, 0]


def test_an_open_judge_logs_the_self_check_unless_quiet(
    home: Path, make_model: ModelMaker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="localjudge")
    localjudge.Judge.open(make_model().path, threads=1).close()
    assert [record.message for record in caplog.records if "self-test" in record.message] == [
        "first use of this model on this machine: a self-test, about 5 seconds"
    ]
    caplog.clear()
    load(make_model(), EngineSettings(threads=1, n_ctx=128), Silence()).close()
    assert "self-test" not in caplog.text
