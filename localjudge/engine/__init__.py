"""Requests in, answers out: knows tokens, nothing of retrieval."""

from localjudge.engine.protocol import Engine, EngineStats, TokenCounter
from localjudge.engine.scripted import ScriptedEngine

__all__ = ["Engine", "EngineStats", "ScriptedEngine", "TokenCounter"]
