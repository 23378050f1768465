"""What is known of an engine before its model is loaded: from the file's header, the settings and this machine."""

from importlib.metadata import version
from typing import Any

from localjudge.engine.engine_settings import EngineSettings
from localjudge.engine.llamacpp import memory, model_check
from localjudge.engine.llamacpp.library import llama_cpp
from localjudge.engine.llamacpp.loading import used_gpu_layers
from localjudge.engine.llamacpp.memory import UBATCH
from localjudge.engine.protocol import ModelOutline
from localjudge.model_registry import ModelFile


def outline_of(file: ModelFile, settings: EngineSettings) -> ModelOutline:
    """The outline of the engine that would run the file. Raises ModelError for a model that cannot judge."""
    checked = model_check.check(file.path)
    n_ctx = memory.context_for(checked, settings.n_ctx or file.n_ctx)
    gpu_layers = used_gpu_layers(settings)
    return ModelOutline(
        identity=known_identity(file, n_ctx=n_ctx, gpu_layers=gpu_layers),
        n_ctx=n_ctx,
        memory_bytes=memory.needed(checked, n_ctx=n_ctx, n_ubatch=UBATCH).total,
        uses_gpu=bool(gpu_layers),
    )


def known_identity(file: ModelFile, *, n_ctx: int, gpu_layers: int) -> dict[str, Any]:
    """The part of an engine's identity that needs no model: build, processor features, every setting."""
    return {
        "engine": "llama.cpp",
        "model_sha256": file.sha256,
        "model_size": file.size,
        "llama_cpp_python": version("llama-cpp-python"),
        "llama_cpp": llama_cpp.llama_version().decode(),
        "llguidance": version("llguidance"),
        "system": llama_cpp.llama_print_system_info().decode().strip(),
        "n_ctx": n_ctx,
        "n_ubatch": UBATCH,
        "flash_attention": False,
        "gpu_layers": gpu_layers,
        "batching": "isolated",
    }
