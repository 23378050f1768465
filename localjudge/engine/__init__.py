"""Requests in, answers out: knows tokens, nothing of retrieval."""

import os

from localjudge.engine.protocol import Effort, Engine
from localjudge.engine.scripted import ScriptedEngine

# OpenMP reads this when llama.cpp is loaded. Its threads otherwise spin while they wait for each other: on a machine
# that has anything else to do, two threads were then ten times slower than one. Waiting cannot move a number.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

__all__ = ["Effort", "Engine", "ScriptedEngine"]
