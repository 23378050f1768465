"""What a user may set about an engine."""

import os
import re
from typing import Literal, Self, get_args

from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticKnownError

from localjudge.errors import UsageError
from localjudge.option_spelling import option, option_name
from localjudge.types import Record

_HOST = re.compile(r"[^\s:/?#@\[\]]+|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
"""A name or an IPv4 address, or an IPv6 address, which has two colons at least."""


_NO_NUMBER: dict[type, Literal["int_type", "float_type", "bool_type"]] = {
    int: "int_type",
    float: "float_type",
    bool: "bool_type",
}


class EngineSettings(Record):
    """Those above `threads` can move numbers and are part of an engine's identity; the others say where it works.

    Where it works is in no file of a run: the address of a cluster is the name of a machine. But a judge that is a
    server is named by its address, as typed, and its host is part of its identity if that is not this machine.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)

    n_ctx: int | None = Field(default=None, ge=64)
    """Tokens of context. By default the model's limit, at most 8,192; it never depends on the data."""
    gpu_layers: int | None = Field(default=None, ge=0)
    """Layers to put on a GPU. By default all of them, if the build has a GPU backend."""
    threads: int | None = Field(default=None, ge=1)
    """Processor threads. By default as many as this process may use, with --ray 1 for each worker; they cannot move a
    number."""
    ray: str | None = Field(default=None, exclude=True)
    """Judge with workers of a Ray cluster: local starts one on this machine, auto or HOST:PORT joins one that is there.
    The numbers are those of a run without it."""
    ray_workers: int | None = Field(default=None, ge=1, exclude=True)
    """Workers in the Ray cluster, each with the model in its memory. Default: as many as it has room for."""
    allow_host: tuple[str, ...] = Field(default=(), exclude=True)
    """Host beside this machine that a judge's server may be on: the texts leave this machine for it (may be
    repeated)."""

    @field_validator("*", mode="before")
    @classmethod
    def _number(cls, value: object, field: ValidationInfo) -> object:
        """A text of digits is no number, and neither is a truth value."""
        kind = cls.model_fields[str(field.field_name)].annotation
        for number in _NO_NUMBER.keys() & {kind, *get_args(kind)}:
            if isinstance(value, str) or (isinstance(value, bool) and number is not bool):
                raise PydanticKnownError(_NO_NUMBER[number])
        return value

    @field_validator("allow_host", mode="before")
    @classmethod
    def _hosts(cls, given: object) -> object:
        hosts = (given,) if isinstance(given, str) else given
        for host in hosts if isinstance(hosts, list | tuple) else ():
            if isinstance(host, str) and not _HOST.fullmatch(host):
                raise UsageError(
                    f"{option_name('allow_host')} takes the name or the number of a host alone, got {host!r:.80}",
                    hint=f"without http:// and without the port, as in {option('allow_host', 'gpu.example')}",
                )
        return hosts

    @model_validator(mode="after")
    def _of_a_cluster(self) -> Self:
        if self.ray is not None and not self.ray.strip():
            raise UsageError(f"{option_name('ray')} names no cluster", hint=f"take {option('ray', 'local')}")
        if self.ray is None and self.ray_workers:
            raise UsageError(
                f"{option_name('ray_workers')} is about a Ray cluster", hint=f"name one with {option('ray')}"
            )
        return self

    @property
    def used_threads(self) -> int:
        """Processor threads that an engine will use."""
        return self.threads or _usable_processors()


def _usable_processors() -> int:
    """Processors that this process may use, where the system tells; all there are elsewhere."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
