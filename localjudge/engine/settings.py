"""What a user may set about an engine."""

import os

from pydantic import Field

from localjudge.types import Record


class EngineSettings(Record):
    """All but `threads` can move numbers and are part of an engine's identity."""

    n_ctx: int | None = Field(default=None, ge=64)
    """Tokens of context; the model's limit, at most 8,192, if None. Never depends on the data."""
    threads: int | None = Field(default=None, ge=1)
    """Processor threads; as many as this process may use if None."""
    gpu_layers: int | None = Field(default=None, ge=0)
    """Layers to put on a GPU; all of them if None and the build has a GPU backend."""

    @property
    def used_threads(self) -> int:
        """Processor threads that an engine will use."""
        return self.threads or _usable_processors()


def _usable_processors() -> int:
    """Processors that this process may use, where the system tells; all there are elsewhere."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
