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
from localjudge import ModelError, OutOfResource
from localjudge.cli.main import main
from localjudge.engine.llamacpp import self_check
from localjudge.engine.llamacpp.context import KVCache
from localjudge.engine.llamacpp.loading import load
from localjudge.engine.llamacpp.self_check import SelfCheckInput, SelfCheckResult
from localjudge.engine.protocol import EngineSettings
from localjudge.progress import Progress
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
def test_each_kind_of_memory_is_rewound_exactly(
    make_model: ModelMaker, open_engine: Opener, architecture: str
) -> None:
    """Attention, also with a sliding window, is cut; recurrent layers restore a saved state."""
    engine = open_engine(make_model(architecture))
    assert engine.identity["self_check"] == "bit-identical"
    assert "repack" not in engine.identity
    loaded = load(make_model(architecture), EngineSettings(threads=1))
    loaded.close()
    mode: Any = "checkpoint" if architecture in SAVED else "cut"
    assert loaded.self_check == SelfCheckResult(rewind_mode=mode, difference=0)


@pytest.mark.parametrize(("again", "count"), [({}, 1), ({"threads": 2}, 1), ({"n_ctx": 128}, 2)])
def test_a_model_is_checked_once_per_context_size(
    home: Path,
    make_model: ModelMaker,
    open_engine: Opener,
    trials: list[str],
    again: dict[str, int],
    count: int,
) -> None:
    open_engine(make_model())
    [file] = (home / "self-checks").glob("*.json")
    assert json.loads(file.read_bytes()) == {
        "rewind_mode": "cut",
        "difference": 0.0,
        "repack": True,
    }
    open_engine(make_model(), **again)
    assert len(trials) == len(list((home / "self-checks").glob("*.json"))) == count


@pytest.mark.parametrize("damage", ["", '{"rewind_mode": "by air", "difference": 0}', None])
def test_a_damaged_or_missing_record_repeats_the_check(
    home: Path,
    make_model: ModelMaker,
    open_engine: Opener,
    trials: list[str],
    damage: str | None,
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
    home: Path,
    make_model: ModelMaker,
    open_engine: Opener,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = make_model()
    (tmp_path / "numpy.py").write_text(
        "raise SystemExit('imported from the working directory')", encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    assert open_engine(file).identity["self_check"] == "bit-identical"


@pytest.mark.parametrize("architecture", ["llama", "gemma2", *SAVED])
def test_a_model_that_cannot_rewind_is_evaluated_from_scratch(
    home: Path, make_model: ModelMaker, open_engine: Opener, ask: Asker, architecture: str
) -> None:
    requests = [ask(f"Statement {number}.", ["It opened in 1936."]) for number in range(5)]
    forked = open_engine(make_model(architecture))
    expected = dict(forked.answers(requests))
    for file in (home / "self-checks").glob("*.json"):
        file.write_text(
            SelfCheckResult(rewind_mode="recompute", difference=0).model_dump_json(),
            encoding="utf-8",
        )
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
    contexts = [f"Context number {number}. " * 10 for number in range(7)]
    requests = [ask("It opened.", contexts[:count]) for count in (7, 6, 4, 2, 0, 7, 3)]
    requests += [ask("It closed.", contexts[:count]) for count in (7, 1)]
    shared = open_engine(make_model(architecture))
    for request in requests:
        [(_, answer)] = shared.answers([request])
        [(_, alone)] = open_engine(make_model(architecture)).answers([request])
        assert answer == alone


@pytest.mark.parametrize("architecture", ["llama", "gemma2", *SAVED])
def test_reasons_do_not_affect_later_answers(
    make_model: ModelMaker, open_engine: Opener, architecture: str
) -> None:
    requests = attributions(
        [f"It opened in {year}." for year in (1936, 1937, 1938)], reasons="before"
    )
    forwards = dict(open_engine(make_model(architecture), threads=2).answers(requests))
    engine = open_engine(make_model(architecture))
    backwards = dict(engine.answers(requests[::-1]))
    assert [forwards[index] for index in range(3)] == [backwards[index] for index in (2, 1, 0)]
    assert dict(engine.answers(requests[2:])) == {0: forwards[2]}
    assert all(isinstance(answer, Answer) and answer.reason for answer in forwards.values())


@pytest.mark.parametrize(
    ("wrong", "mode"), [(("cut", "checkpoint"), "recompute"), (("cut",), "checkpoint")]
)
def test_a_build_with_wrong_forks_rewinds_in_another_way(
    make_model: ModelMaker,
    monkeypatch: pytest.MonkeyPatch,
    wrong: tuple[str, ...],
    mode: Any,
) -> None:
    """Some GPU builds gave other logits after a fork."""
    logits_after = KVCache.logits_after
    rewind = KVCache.rewind
    went_back: set[int] = set()

    def going(self: KVCache, position: int) -> int:
        if self._rewind_mode in wrong:
            went_back.add(id(self))
        return rewind(self, position)

    def rolled(self: KVCache, tokens: list[int], position: int) -> Any:
        logits = logits_after(self, tokens, position)
        if id(self) in went_back:
            went_back.discard(id(self))
            return np.roll(logits, 1)
        return logits

    monkeypatch.setattr(KVCache, "rewind", going)
    monkeypatch.setattr(KVCache, "logits_after", rolled)
    trial = SelfCheckInput(path=make_model().path, n_ctx=256, gpu_layers=0, threads=1)
    assert self_check.check_here(trial) == SelfCheckResult(rewind_mode=mode, difference=0)


LIBSTDCXX = "terminate called after throwing an instance of 'std::bad_alloc'"
OPENMP = "libgomp: Thread creation failed: Resource temporarily unavailable"


@pytest.mark.parametrize(
    ("status", "errors", "kind", "said"),
    [
        (
            -6,
            "noise\na.cpp:12: GGML_ASSERT(x > 0) failed",
            ModelError,
            "SIGABRT (a.cpp:12: GGML_ASSERT",
        ),
        (-11, "Segmentation fault", ModelError, "SIGSEGV (Segmentation fault)"),
        (-4, "", ModelError, "SIGILL"),
        (
            1,
            "Traceback ...\nImportError: no such library",
            ModelError,
            "status 1 (ImportError: no such library)",
        ),
        (-9, "", OutOfResource, "ended with SIGKILL"),
        (-6, LIBSTDCXX, OutOfResource, "ended with SIGABRT (terminate called"),
        (1, OPENMP, OutOfResource, "ended with status 1 (libgomp: Thread"),
        (-6, "cudaMalloc failed: out of memory", OutOfResource, "SIGABRT"),
        (-6, "failed to allocate buffer for kv cache", OutOfResource, "SIGABRT"),
    ],
)
def test_the_end_of_the_child_process_is_explained(
    home: Path,
    make_model: ModelMaker,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    errors: str,
    kind: Any,
    said: str,
) -> None:
    """SIGABRT: a check of llama.cpp; SIGILL, SIGSEGV: perhaps the build; SIGKILL: no memory."""
    monkeypatch.setattr(
        self_check,
        "_run_child",
        lambda *_: subprocess.CompletedProcess([], status, "", errors),
    )
    with pytest.raises(kind) as caught:
        load(make_model(), EngineSettings(threads=1))
    assert said in str(caught.value)
    assert ("the model needs about" in str(caught.value)) == (kind is OutOfResource)
    assert not list((home / "self-checks").glob("*.json"))


@pytest.mark.parametrize("ending", [-signal.SIGSEGV, -signal.SIGILL])
def test_a_build_that_cannot_run_repacked_weights_uses_plain_ones(
    home: Path,
    make_model: ModelMaker,
    open_engine: Opener,
    monkeypatch: pytest.MonkeyPatch,
    ending: int,
) -> None:
    """GCC 12's AMX tiles crash; the manifest shows the fallback. A second engine does not check."""
    tried: list[bool] = []
    run = self_check._run_child

    def dying_of_tiles(
        wanted: SelfCheckInput, on_tick: Callable[[], None]
    ) -> "subprocess.CompletedProcess[str]":
        tried.append(wanted.repack)
        return (
            subprocess.CompletedProcess([], ending, "", "") if tried[-1] else run(wanted, on_tick)
        )

    monkeypatch.setattr(self_check, "_run_child", dying_of_tiles)
    file = make_model()
    assert [open_engine(file).identity["repack"] for _ in range(2)] == [False, False]
    assert tried == [True, False]


class _Listener(Progress):
    def __init__(self, *, interrupts: bool = False) -> None:
        self.notes: list[str] = []
        self.times: list[tuple[str, float, float]] = []
        self.interrupts = interrupts

    def note(self, text: str) -> None:
        self.notes.append(text)

    def elapsed(self, doing: str, seconds: float, expected: float) -> None:
        self.times.append((doing, seconds, expected))
        if self.interrupts:
            raise KeyboardInterrupt


def test_a_self_check_reports_expected_and_elapsed_time_once(
    home: Path, make_model: ModelMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2 s, and 10 s for each GiB."""
    monkeypatch.setattr(self_check, "_TICK_SECONDS", 0.05)
    listeners = (_Listener(), _Listener())
    file = make_model()
    for listener in listeners:
        load(file, EngineSettings(threads=1), listener).close()
    assert ([len(listener.notes) for listener in listeners], listeners[1].times) == ([1, 0], [])
    expected = 2 + file.size / 2**30 * 10
    assert {(doing, time) for doing, _, time in listeners[0].times} == {("self-test", expected)}
    seconds = [seconds for _, seconds, _ in listeners[0].times]
    assert seconds == sorted(seconds)


def test_an_interrupt_kills_the_child(
    home: Path, make_model: ModelMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    children: list[subprocess.Popen[str]] = []
    start = subprocess.Popen

    def started(*command: Any, **options: Any) -> "subprocess.Popen[str]":
        children.append(start(*command, **options))
        return children[-1]

    monkeypatch.setattr(self_check, "_TICK_SECONDS", 0.05)
    monkeypatch.setattr(subprocess, "Popen", started)
    with pytest.raises(KeyboardInterrupt):
        load(make_model(), EngineSettings(threads=1), _Listener(interrupts=True))
    assert [child.returncode for child in children] == [-signal.SIGKILL]
    assert not list((home / "self-checks").glob("*"))


COMMANDS = {
    "run --dry-run": ("run", "--dry-run", "--metrics", "context_recall"),
    "doctor": ("doctor", "--probes", "0", "--injections", "0"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_announces_the_self_check_once_on_stderr(
    home: Path,
    make_model: ModelMaker,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    command: str,
) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"contexts": ["It opened in 1936."], "ground_truth": "It opened."}')
    name, *options = COMMANDS[command]
    model = make_model(shape=random_model.Shape(context=8192)).path
    data_options = [str(data), "--out", str(tmp_path / "run")] if name == "run" else []
    typed = [name, *data_options, *options, "--judge", str(model), "--threads", "1", "--json"]
    said = []
    for _ in range(2):
        with pytest.raises(SystemExit):
            main(typed)
        output, errors = capfd.readouterr()
        json.loads(output)
        said.append(errors.count("first use of this model"))
    assert said == [1, 0]


def test_an_open_judge_logs_the_self_check_unless_quiet(
    home: Path, make_model: ModelMaker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="localjudge")
    localjudge.Judge.open(make_model().path, threads=1).close()
    assert caplog.text.count("first use") == 1
    caplog.clear()
    load(make_model(), EngineSettings(threads=1, n_ctx=128), Progress()).close()
    assert "self-test" not in caplog.text
