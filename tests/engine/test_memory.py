import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import llama_cpp
import pytest
import random_model

from localjudge import OutOfResource
from localjudge.engine import gguf, memory
from localjudge.engine.llamacpp.loading import load
from localjudge.engine.protocol import EngineSettings
from localjudge.types import JudgeCard
from tests.engine.conftest import ModelMaker

UBATCH = 512

pytestmark = pytest.mark.engine

GIB = 2**30
_said: list[str] = []


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _listen(_level: int, text: bytes, _user_data: ctypes.c_void_p) -> None:
    _said.append(text.decode(errors="replace"))


def allocated(path: Path, n_ctx: int, *, classifies: bool = False) -> tuple[int, int, int]:
    """Return the bytes of weights, keys and values, and working space."""
    _said.clear()
    llama_cpp.llama_log_set(_listen, ctypes.c_void_p(0))
    how = llama_cpp.llama_model_default_params()
    how.use_extra_bufts = False
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), how)
    parameters = llama_cpp.llama_context_default_params()
    parameters.n_ctx = n_ctx
    parameters.n_batch = parameters.n_ubatch = UBATCH
    parameters.n_seq_max = 1
    parameters.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    parameters.swa_full = True
    if classifies:
        parameters.n_batch = parameters.n_ubatch = n_ctx
        parameters.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED
        parameters.embeddings = True
        parameters.pooling_type = llama_cpp.LLAMA_POOLING_TYPE_RANK
    context = llama_cpp.llama_init_from_model(model, parameters)
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
    sizes = re.findall(r"(model|KV|compute) buffer size =\s*([\d.]+) MiB", "".join(_said))
    mebibytes = {"model": 0.0, "KV": 0.0, "compute": 0.0}
    for kind, size in sizes:
        mebibytes[kind] += float(size)
    weights, cache, working = (int(size * 2**20) for size in mebibytes.values())
    return weights, cache, working


@pytest.mark.parametrize("architecture", ["llama", "gemma2", "phi3", "gpt2", "lfm2"])
@pytest.mark.parametrize(("heads", "n_ctx"), [(4, 2048), (16, 8192)])
def test_the_estimate_matches_the_allocation(
    make_model: ModelMaker, architecture: str, heads: int, n_ctx: int
) -> None:
    """Weights and cache within 5 %, compute buffers between 95 % and 150 %."""
    shape = random_model.Shape(width=256, heads=heads, layers=4, feed_forward=1024, context=8192)
    path = make_model(architecture, shape=shape).path
    model = gguf.read_model(path)
    weights, cache, working = allocated(path, n_ctx)
    assert model.weight_bytes == pytest.approx(weights, rel=0.05)
    assert memory.cache_bytes(model, n_ctx) == pytest.approx(cache, rel=0.05)
    assert 0.95 * working < memory.working_bytes(model, n_ctx) < 1.5 * working
    assert memory.needed_bytes(model, n_ctx) == (
        model.weight_bytes + memory.cache_bytes(model, n_ctx) + memory.working_bytes(model, n_ctx)
    )


@pytest.mark.parametrize(
    ("width", "heads", "feed_forward", "n_ctx"),
    [(64, 4, 128, 512), (64, 4, 512, 512), (256, 16, 1024, 512), (256, 4, 1024, 1024)],
)
def test_the_estimate_of_a_classifier_matches_the_allocation(
    make_model: ModelMaker, width: int, heads: int, feed_forward: int, n_ctx: int
) -> None:
    """Flash attention: the number of heads makes no difference. The logits are not in the report
    of llama.cpp: one for each entry of the vocabulary and each token.
    """
    shape = random_model.Shape(
        width=width, heads=heads, layers=2, feed_forward=feed_forward, context=n_ctx
    )
    path = make_model("bert", shape=shape, vocabulary="unigrams").path
    model = gguf.read_model(path)
    weights, cache, working = allocated(path, n_ctx, classifies=True)
    assert model.weight_bytes == pytest.approx(weights, rel=0.05)
    assert memory.cache_bytes(model, n_ctx) == cache == 0
    working += model.lengths["tokenizer.ggml.tokens"] * n_ctx * 4
    assert 0.95 * working < memory.working_bytes(model, n_ctx) < 1.5 * working


READ = """
import re
from localjudge.engine import gguf, memory
from localjudge.engine.llamacpp.context import Encoder
from localjudge.engine.llamacpp.model import open_model

def resident():
    status = open("/proc/self/status").read()
    return int(re.search(r"VmRSS:\\s+(\\d+)", status)[1]) * 1024

reader = resources.bundled_file("models", "reader.gguf")
opened = open_model(reader, gpu_layers=0)
encoder = Encoder(opened.pointer, n_ctx=512, threads=1)
before = resident()
encoder.outputs([0, *range(5, 515), 2])
print(resident() - before, memory.working_bytes(gguf.read(reader), 512))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory from /proc")
def test_the_estimate_of_the_bundled_reader_matches_its_memory(tmp_path: Path) -> None:
    """The logits of 250,002 entries for 512 tokens, 488 MiB, are nearly all of it."""
    done = limited(READ, tmp_path)
    assert done.returncode == 0, done.stderr
    measured, estimated = map(int, done.stdout.split())
    assert measured == pytest.approx(estimated, rel=0.1)


def test_a_model_that_does_not_fit_is_refused_with_the_numbers(
    make_model: ModelMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    numbers = (
        r"it needs about \d+ MiB \(weights .*cache for 2,048 tokens.*0 MiB are free(?s:.*)n_ctx"
    )
    with pytest.raises(OutOfResource, match=numbers):
        load(make_model(), EngineSettings(threads=1))


def test_a_control_group_limits_free_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limit 4 GiB, 3 GiB used, 1 GiB of that reclaimable: 2 GiB are free."""
    group = tmp_path / "docker" / "abc"
    group.mkdir(parents=True)
    (group / "memory.max").write_text(f"{4 * GIB}\n", encoding="ascii")
    (group / "memory.current").write_text(f"{3 * GIB}\n", encoding="ascii")
    (group / "memory.stat").write_text(
        f"anon 5\nactive_file {GIB // 2}\ninactive_file {GIB // 2}\n", encoding="ascii"
    )
    (group.parent / "memory.max").write_text("max\n", encoding="ascii")
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path)
    assert memory.room_in_groups("docker/abc") == 2 * GIB
    assert memory.room_in_groups("nowhere") is None


def test_a_small_size_is_not_rounded_to_zero() -> None:
    """9,333,856 / 2**20 = 8.9."""
    sizes = {9_333_856: "9 MiB", GIB - 2**20: "1023 MiB", GIB: "1.0 GiB", 3 * GIB // 2: "1.5 GiB"}
    for size, text in sizes.items():
        assert str(JudgeCard(name="a", size=size)) == f"a, {text}"


LIMITED = """
import resource
import spacy
from localjudge import resources
from localjudge.cli.main import main
from localjudge.engine import memory
from localjudge.engine.llamacpp import model
from localjudge.engine.llamacpp.context import KVCache
from localjudge.errors import OutOfResource
from localjudge.judging import job, questions

def leave(mebibytes):
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    limit = size + mebibytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

judge = resources.bundled_file("models", "lexical.gguf")
"""
"""Import everything large; `leave` then limits the remaining address space, like `ulimit -v`."""


def limited(program: str, home: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", LIMITED + program]
    environment = {**os.environ, "LOCALJUDGE_HOME": str(home)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_an_address_space_limit_limits_free_memory(tmp_path: Path) -> None:
    """100 MiB minus a few pages for the reading itself."""
    done = limited(
        "print(memory.room_in_address_space()); leave(100); print(memory.available_bytes())",
        tmp_path,
    )
    unbounded, free = done.stdout.split()
    assert unbounded == "None"
    assert 99 * 2**20 < int(free) <= 100 * 2**20


def test_a_run_with_too_little_memory_can_be_resumed(tmp_path: Path) -> None:
    """The lexical judge needs 199 of 100 MiB: exit code 4, and no mention of a damaged file."""
    out = tmp_path / "run"
    done = limited(f"leave(100); main(['run', '--demo', '--out', {str(out)!r}])", tmp_path)
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (4, "", False)
    assert re.search(r"lexical\.gguf .*memory: .*199 MiB", done.stderr)
    assert "\n  hint: " in done.stderr
    assert "damaged" not in done.stderr


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("leave(8)\ntry: model.open_model(judge, gpu_layers=0)", "lacks memory or threads"),
        (
            "opened = model.open_model(judge, gpu_layers=0)\nleave(30)\n"
            "try: KVCache(opened.pointer, n_ctx=8192, threads=1, vocabulary_size=1,"
            " rewind_mode='cut')",
            "context of 8,192 tokens",
        ),
    ],
    ids=["weights", "context"],
)
def test_a_failed_allocation_of_llama_cpp_is_reported(
    tmp_path: Path, program: str, said: str
) -> None:
    """Weights of 9 MiB with 8 MiB left; a cache of 48 MiB with 30 MiB left."""
    done = limited(f"{program}\nexcept OutOfResource as error: print(error)", tmp_path)
    assert said in done.stdout, done.stderr
    assert "it gave no reason" not in done.stdout
    assert "hint: " in done.stdout
