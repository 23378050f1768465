"""Turn requests into answers. This package knows tokens, not retrieval."""

from localjudge.engine.protocol import Engine, EngineStats
from localjudge.engine.scripted import ScriptedEngine

__all__ = ["Engine", "EngineStats", "ScriptedEngine"]
