"""What a user may set about an engine."""

import os

from pydantic import ConfigDict, Field, field_validator

from localjudge.types import Record


class EngineSettings(Record):
    """All but `threads` and `allow_host` can move numbers and are part of an engine's identity."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    n_ctx: int | None = Field(default=None, ge=64)
    """Tokens of context. By default the model's limit, at most 8,192; it never depends on the data."""
    threads: int | None = Field(default=None, ge=1)
    """Processor threads. By default as many as this process may use; they cannot move a number."""
    gpu_layers: int | None = Field(default=None, ge=0)
    """Layers to put on a GPU. By default all of them, if the build has a GPU backend."""
    allow_host: tuple[str, ...] = ()
    """Host beside this machine that a judge's server may be on: the texts leave this machine for it (may be
    repeated)."""

    @field_validator("allow_host", mode="before")
    @classmethod
    def _hosts(cls, given: object) -> object:
        return (given,) if isinstance(given, str) else given

    @property
    def used_threads(self) -> int:
        """Processor threads that an engine will use."""
        return self.threads or _usable_processors()


def _usable_processors() -> int:
    """Processors that this process may use, where the system tells; all there are elsewhere."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
