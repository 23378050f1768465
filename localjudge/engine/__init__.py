"""Requests in, answers out: knows tokens, nothing of retrieval."""

from localjudge.engine.protocol import Effort, Engine
from localjudge.engine.scripted import ScriptedEngine

__all__ = ["Effort", "Engine", "ScriptedEngine"]
