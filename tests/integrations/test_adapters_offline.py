"""Each adapter runs in a process that exits when it looks up a host or connects to one.

The variables of docs/integrations.md are set; without them two of these packages report to their
makers.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integrations import peers

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parent.parent.parent
WENT_OUT = 97
WATCHED = f"""
import os, sys
def watch(event, arguments):
    name = event in ("socket.getaddrinfo", "socket.gethostbyname")
    if name or event in ("socket.connect", "socket.sendto") and isinstance(arguments[1], tuple):
        os._exit({WENT_OUT})
sys.addaudithook(watch)
"""
HAYSTACK = """
from haystack import Pipeline
from localjudge.integrations.haystack import LocaljudgeEvaluator
pipeline = Pipeline()
pipeline.add_component("localjudge", LocaljudgeEvaluator(["faithfulness"]))
given = {"contexts": [["It rains."]], "predicted_answers": ["It rains."]}
assert pipeline.run({"localjudge": given})["localjudge"]["faithfulness"]["score"] == 1
"""
DEEPEVAL = """
from deepeval.metrics import AnswerRelevancyMetric
from deepeval.test_case import LLMTestCase
from localjudge import Judge, ScriptedEngine
from localjudge.integrations.deepeval import LocaljudgeModel
model = LocaljudgeModel(Judge.open(engine=ScriptedEngine({}, default=0.8)))
metric = AnswerRelevancyMetric(eval_mode="system_one", system_one_model=model)
case = LLMTestCase(input="Why?", actual_output="It rains.")
assert round(metric.measure(case, _show_indicator=False), 6) == 0.8
"""
INSPECT = """
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput
from inspect_ai.solver import solver
from localjudge.integrations.inspect_ai import localjudge_scorer

@solver
def answered():
    async def solve(state, generate):
        state.output = ModelOutput.from_content("mockllm/model", "It rains.")
        return state
    return solve

data = MemoryDataset([Sample(input="Why?", metadata={"contexts": ["It rains."]})])
task = Task(dataset=data, solver=answered(), scorer=localjudge_scorer(["faithfulness"]))
[log] = eval(task, model="mockllm/model", display="none")
assert log.results.scores[0].metrics["mean"].value == 1
"""
OPTED_OUT = {"HAYSTACK_TELEMETRY_ENABLED": "False", "DEEPEVAL_TELEMETRY_OPT_OUT": "YES"}


def exit_code(program: str, folder: Path, **variables: str) -> int:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    command = [sys.executable, "-c", WATCHED + program]
    return subprocess.run(
        command, check=False, cwd=folder, env=environment, capture_output=True
    ).returncode


@pytest.mark.parametrize(
    ("package", "program"),
    [("haystack", HAYSTACK), ("deepeval", DEEPEVAL), ("inspect_ai", INSPECT)],
)
def test_an_adapter_looks_for_no_host(package: str, program: str, tmp_path: Path) -> None:
    peers.require(package)
    assert exit_code(program, tmp_path, **OPTED_OUT) == 0


def test_the_watch_sees_what_haystack_reports_by_itself(tmp_path: Path) -> None:
    """The check can fail: with telemetry on, the same pipeline looks up its maker's host."""
    peers.require("haystack")
    assert (
        exit_code(HAYSTACK, tmp_path, HAYSTACK_TELEMETRY_ENABLED="True", HOME=str(tmp_path))
        == WENT_OUT
    )
