"""What a judge takes of memory, and what is said when there is too little."""

import ctypes
import re
from collections.abc import Callable
from pathlib import Path

import llama_cpp
import pytest
import random_model

from localjudge.engine.llamacpp import memory, model_check
from localjudge.engine.llamacpp.kv_cache import UBATCH
from localjudge.engine.llamacpp.loading import load
from localjudge.engine.llamacpp.memory import MemoryNeed
from localjudge.engine.settings import EngineSettings
from localjudge.errors import ModelError
from localjudge.model_registry import ModelFile

ModelMaker = Callable[..., ModelFile]
GIB = 2**30
_said: list[str] = []


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _listen(_level: int, text: bytes, _user_data: ctypes.c_void_p) -> None:
    _said.append(text.decode(errors="replace"))


def allocated(path: Path, n_ctx: int) -> MemoryNeed:
    """Bytes of the buffers that llama.cpp says it has opened."""
    _said.clear()
    llama_cpp.llama_log_set(_listen, ctypes.c_void_p(0))
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
    parameters = llama_cpp.llama_context_default_params()
    parameters.n_ctx = n_ctx
    parameters.n_batch = parameters.n_ubatch = UBATCH
    parameters.n_seq_max = 1
    parameters.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    parameters.swa_full = True
    context = llama_cpp.llama_init_from_model(model, parameters)
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
    found = re.findall(r"(model|KV|compute) buffer size =\s*([\d.]+) MiB", "".join(_said))
    sums = {kind: sum(float(size) for of, size in found if of == kind) for kind in ("model", "KV", "compute")}
    return MemoryNeed(*(int(sums[kind] * 2**20) for kind in ("model", "KV", "compute")))


@pytest.mark.parametrize("architecture", ["llama", "gemma2", "phi3", "gpt2", "lfm2"])
@pytest.mark.parametrize(("heads", "n_ctx"), [(4, 2048), (16, 8192)])
def test_the_estimate_is_what_llama_cpp_allocates(
    make_model: ModelMaker, architecture: str, heads: int, n_ctx: int
) -> None:
    """Weights and cache within 5 %; the working space from 95 % to 150 % of what is opened."""
    shape = random_model.Shape(width=256, heads=heads, layers=4, feed_forward=1024, context=8192)
    path = make_model(architecture, shape=shape).path
    estimate = memory.needed(model_check.check(path), n_ctx=n_ctx, n_ubatch=UBATCH)
    real = allocated(path, n_ctx)
    assert estimate.weights == pytest.approx(real.weights, rel=0.05)
    assert estimate.cache == pytest.approx(real.cache, rel=0.05)
    assert 0.95 * real.working < estimate.working < 1.5 * real.working


def test_a_large_vocabulary_takes_working_space(make_model: ModelMaker, vocabularies: Path) -> None:
    """151,936 tokens x 512 rows x 4 bytes = 297 MiB, which is more than the attention of a short context."""
    path = make_model(
        "qwen2", shape=random_model.Shape(width=32), vocabulary=f"{vocabularies}/ggml-vocab-qwen2.gguf"
    ).path
    estimate = memory.needed(model_check.check(path), n_ctx=512, n_ubatch=UBATCH)
    assert estimate.working == pytest.approx(allocated(path, 512).working, rel=0.05)


def test_the_cache_of_a_hybrid_counts_only_its_attention(make_model: ModelMaker) -> None:
    """4 layers, 2 of them with 2 key-value heads of 16 numbers: 1000 x 2 x 2 x (16 + 16) x 2 bytes = 256,000."""
    checked = model_check.check(make_model("lfm2", shape=random_model.Shape(layers=4)).path)
    assert memory.needed(checked, n_ctx=1000, n_ubatch=UBATCH).cache == 256_000


def test_a_model_that_does_not_fit_is_refused_with_the_numbers(
    make_model: ModelMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    with pytest.raises(ModelError, match=r"does not fit into memory: it needs about .* GiB \(weights") as caught:
        load(make_model(), EngineSettings(threads=1))
    assert "cache for 2,048 tokens" in str(caught.value)
    assert "0.0 GiB are free" in str(caught.value)
    assert "--n-ctx" in (caught.value.hint or "")


def test_what_fits_is_not_refused(make_model: ModelMaker) -> None:
    checked = model_check.check(make_model().path)
    memory.require(checked, memory.needed(checked, n_ctx=256, n_ubatch=UBATCH), n_ctx=256)


def test_a_system_that_does_not_tell_its_free_memory_refuses_nothing(
    make_model: ModelMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    memory.require(model_check.check(make_model().path), MemoryNeed(10**18, 0, 0), n_ctx=256)


def test_free_memory_is_between_a_little_and_all_there_is() -> None:
    total = next(
        int(line.split()[1]) * 1024
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        if line.startswith("MemTotal:")
    )
    free = memory.available_bytes()
    assert free is not None
    assert 0 < free <= total


def test_a_control_group_bounds_what_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of 4 GiB with 3 GiB used, 1 GiB of that for files that can be dropped: 2 GiB are free."""
    group = tmp_path / "docker" / "abc"
    group.mkdir(parents=True)
    (group / "memory.max").write_text(f"{4 * GIB}\n", encoding="ascii")
    (group / "memory.current").write_text(f"{3 * GIB}\n", encoding="ascii")
    (group / "memory.stat").write_text(f"anon 5\nactive_file {GIB // 2}\ninactive_file {GIB // 2}\n", encoding="ascii")
    (group.parent / "memory.max").write_text("max\n", encoding="ascii")
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path)
    assert memory.room_in_groups("docker/abc") == 2 * GIB


def test_groups_without_a_limit_bound_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path)
    assert memory.room_in_groups("nowhere") is None
