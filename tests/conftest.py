"""What every test may rely on: no internet, and a state directory of its own. And which tests are of which tier.

unit     opens no model, under a minute in all          scripts/test -m unit
engine   the other tests of an ordinary run             scripts/test              unit and engine
slow     minutes                                        scripts/test -m slow
"""

import os
import shutil
import socket
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

import localjudge

ScriptedRun = Callable[..., localjudge.Run]

ENGINE = (
    "tests/analysis/test_slices.py",
    "tests/benchmark/",
    "tests/cli/test_calibrate_command.py",
    "tests/cli/test_data_options.py",
    "tests/cli/test_doctor_command.py",
    "tests/cli/test_edges.py",
    "tests/cli/test_exit_codes.py",
    "tests/cli/test_gate_options.py",
    "tests/cli/test_judge_named.py",
    "tests/cli/test_combine_command.py",
    "tests/cli/test_ray_command.py",
    "tests/cli/test_judge_of_a_program.py",
    "tests/cli/test_label_command.py::test_one_key",  # processes in a terminal
    "tests/cli/test_label_command.py::test_control_c",
    "tests/cli/test_report_command.py::test_run_writes",
    "tests/cli/test_rescore_command.py",
    "tests/cli/test_suite_options.py",
    "tests/cli/test_verify_command.py",
    "tests/dataset/test_fuzz.py",  # thousands of made-up files
    "tests/doctor/test_doctor_trained.py",
    "tests/doctor/test_calibrate.py::test_a_calibration_that_is_killed",
    "tests/engine/",
    "tests/grammars/",
    "tests/integrations/test_adapters_offline.py",
    "tests/integrations/test_deepeval_model.py::test_the_reference_judge",
    "tests/integrations/test_files_of_peers.py::test_the_reference_judge",
    "tests/integrations/test_haystack_evaluator.py::test_the_reference_judge",
    "tests/integrations/test_inspect_scorer.py::test_the_reference_judge",
    "tests/cli/test_resume_command.py::test_the_command_goes_on_with_the_run",
    "tests/record/test_manifest_ingredients.py",
    "tests/record/test_merge.py",  # a hundred runs
    "tests/record/test_streaming.py",  # 2,000 samples of 4 KB, with memory traced
    "tests/reference_judge/",
    "tests/report/test_page_in_browser.py",
    "tests/run/test_judges.py",
    "tests/run/test_kills.py",
    "tests/stats/test_coverage.py",  # simulations
    "tests/test_docs.py",
    "tests/test_offline.py",
    "tests/test_packaging.py",
    "tests/test_pytest_plugin.py",  # sessions in processes of their own
)
"""How the ids of tests begin that open a model, by themselves or in a process that they start, or that take long."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test that is not slow is of the tier `unit` or `engine`."""
    for item in items:
        if not item.get_closest_marker("slow"):  # item.keywords has the names of folders, too
            item.add_marker("engine" if item.nodeid.startswith(ENGINE) else "unit")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A unit test that opens a model in this process, or whose fixtures do, fails: name it in ENGINE."""
    if not item.get_closest_marker("unit"):
        return (yield)
    from localjudge.engine.llamacpp.library import llama_cpp

    def refuse(path: bytes, *_: Any) -> None:
        raise AssertionError(f"a unit test tried to open the model {os.fsdecode(path)}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llama_cpp, "llama_model_load_from_file", refuse)
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tests that are skipped for one reason are one line of the summary, wherever they are."""
    return _skipped_anywhere((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """So are modules."""
    return _skipped_anywhere((yield))


_Report = TypeVar("_Report", pytest.TestReport, pytest.CollectReport)


def _skipped_anywhere(report: _Report) -> _Report:
    if report.skipped and isinstance(report.longrepr, tuple):
        report.longrepr = ("tests", None, report.longrepr[2])  # type: ignore[assignment] # pytest folds equal ones
    return report


@pytest.fixture(autouse=True)
def no_internet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that opens an internet connection fails."""
    connect = socket.socket.connect

    def refuse(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            raise AssertionError(f"a test tried to connect to {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture(scope="session", autouse=True)
def state_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Checksums and self-checks of the tests stay out of the user's state directory."""
    folder = tmp_path_factory.mktemp("localjudge-home")
    before = os.environ.get("LOCALJUDGE_HOME")
    os.environ["LOCALJUDGE_HOME"] = str(folder)
    yield folder
    if before is None:
        del os.environ["LOCALJUDGE_HOME"]
    else:
        os.environ["LOCALJUDGE_HOME"] = before


@pytest.fixture(autouse=True)
def nothing_examined(state_directory: Path) -> Iterator[None]:
    """What a test's doctor found stands in no table of another test."""
    yield
    shutil.rmtree(state_directory / "examined", ignore_errors=True)


@pytest.fixture(scope="session")
def labelled_data() -> Path:
    """Folder of public labelled data."""
    return _named_folder("LOCALJUDGE_TEST_DATA", "labelled data")


@pytest.fixture(scope="session")
def vocabularies() -> Path:
    """Folder of vocabulary-only GGUF files of common models, with their chat templates in templates/."""
    return _named_folder("LOCALJUDGE_TEST_VOCABS", "real tokenizers")


def _named_folder(variable: str, what: str) -> Path:
    named = os.environ.get(variable)
    if not named:
        pytest.skip(f"needs {what}: set {variable} to the folder")
    return Path(named)


@pytest.fixture
def scripted_run(tmp_path: Path) -> ScriptedRun:
    """Makes a run: `scripted_run("name", rows, {unit text: probability or error}, **options)`, other units 1."""

    def run(
        name: str, rows: Sequence[Mapping[str, Any]], script: Mapping[str, float | str], **options: Any
    ) -> localjudge.Run:
        engine = localjudge.ScriptedEngine(script, default=1.0)
        return localjudge.evaluate(rows, out=tmp_path / name, engine=engine, **options)

    return run
