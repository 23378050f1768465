"""Scripted engines for the workers of a test cluster.

Files in a folder, named by the model, control what the engines do.
"""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from localjudge.engine.protocol import EngineSettings, ModelOutline
from localjudge.engine.ray_engine import InProcess
from localjudge.engine.scripted import ScriptedEngine, unit_text
from localjudge.errors import OutOfResource
from localjudge.model_registry import ModelFile, find
from localjudge.types import Answer, NoAnswer, VerdictRequest


def said(request: VerdictRequest) -> float:
    return (sum(map(ord, unit_text(request))) % 97) / 96


class NotingEngine(ScriptedEngine):
    """Record each question with its process before answering; the file `pause` has the seconds per answer."""

    def __init__(self, folder: Path) -> None:
        super().__init__(said, remember=False)
        self._folder = folder
        pause = folder / "pause"
        self._pause = float(pause.read_text()) if pause.exists() else 0.0

    kind = 0

    @property
    def identity(self) -> dict[str, Any]:
        """`kind` stands for the kind of processor."""
        return {**super().identity, "kind": self.kind}

    def answers(self, requests: Sequence[VerdictRequest]) -> Iterator[tuple[int, Answer | NoAnswer]]:
        """Kill the process at a question with the word `deadly`."""
        for index, request in enumerate(requests):
            with (self._folder / "asked").open("a") as notes:
                notes.write(f"{os.getpid()} {unit_text(request)}\n")
            if "deadly" in unit_text(request):
                os.kill(os.getpid(), signal.SIGKILL)
            if "hopeless" in unit_text(request):
                raise OutOfResource("there is no more of it", hint="get more")
            time.sleep(self._pause)
            yield index, self._answer(request)


def open_noting(file: ModelFile, settings: EngineSettings, *, begin_of_text: bool) -> NotingEngine:
    """Open the engine of a worker; if the folder `kinds` exists, each has its own kind."""
    engine, kinds = NotingEngine(file.path.parent), file.path.parent / "kinds"
    while kinds.exists():
        with suppress(FileExistsError):
            (kinds / str(engine.kind)).mkdir()
            break
        engine.kind += 1
    return engine


def outline(file: ModelFile, settings: EngineSettings) -> ModelOutline:
    return ModelOutline({**ScriptedEngine(said).identity, "kind": 0}, n_ctx=1_000_000, memory_bytes=0, uses_gpu=False)


SCRIPTED = InProcess(open_noting, outline, lambda *_, **__: ScriptedEngine(said))


def model_in(folder: Path) -> ModelFile:
    (folder / "model.gguf").write_bytes(b"stands for weights")
    return find(str(folder / "model.gguf"))


def asked_by(folder: Path) -> list[tuple[int, str]]:
    lines = (folder / "asked").read_text().splitlines() if (folder / "asked").exists() else []
    return [(int(pid), unit) for pid, unit in (line.split(" ", 1) for line in lines)]
