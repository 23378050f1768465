"""Fixtures for all tests (no internet, a separate state directory) and the tiers of tests.

unit     opens no model, under a minute in all     scripts/test -m unit
engine   marked; opens a model, or takes seconds   scripts/test (unit and engine)
slow     marked; takes minutes                     scripts/test -m slow

A unit test fails after the limit in pyproject.toml, any other after `LIMIT_SECONDS`.
"""

import os
import shutil
import socket
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

import localjudge

with suppress(ImportError):  # the environment of other evaluators lacks it
    import hypothesis

    hypothesis.settings.register_profile("no deadline", hypothesis.settings(), deadline=None)
    hypothesis.settings.load_profile("no deadline")

ScriptedRun = Callable[..., localjudge.Run]
PROFILES = Path(localjudge.__file__).parent / "judge" / "prompts"
"""Folder of the bundled prompt profiles."""
LANGUAGES: Sequence[Any] = sorted(
    file.stem for file in Path(localjudge.__file__).parent.glob("report/languages/*.toml")
)
"""Languages of label pages and certificates."""
LIMIT_SECONDS = {"engine": 600, "slow": 3600}
"""Ten times the duration of the longest tests."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests without a tier as unit tests. Slow tests in engine modules run only with `-m
    slow`.
    """
    for item in items:
        tier = next((tier for tier in ("slow", "engine") if item.get_closest_marker(tier)), "unit")
        if tier in LIMIT_SECONDS:
            item.add_marker(pytest.mark.timeout(LIMIT_SECONDS[tier]))
        else:
            item.add_marker(tier)
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow and "slow" not in config.option.markexpr:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a unit test that opens a model, directly or in its fixtures."""
    if not item.get_closest_marker("unit"):
        return (yield)
    from localjudge.engine.llamacpp.model import llama_cpp

    def refuse(path: bytes, *_: Any) -> None:
        raise AssertionError(f"a unit test tried to open the model {os.fsdecode(path)}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llama_cpp, "llama_model_load_from_file", refuse)
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report all tests skipped for one reason in one line of the summary."""
    return _skipped_anywhere((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _skipped_anywhere((yield))


_Report = TypeVar("_Report", pytest.TestReport, pytest.CollectReport)


def _skipped_anywhere(report: _Report) -> _Report:
    if report.skipped and isinstance(report.longrepr, tuple):
        # pytest folds equal reasons
        report.longrepr = ("tests", None, report.longrepr[2])  # type: ignore[assignment]
    return report


@pytest.fixture(autouse=True)
def no_internet(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.socket.connect

    def refuse(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            raise AssertionError(f"a test tried to connect to {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture(scope="session", autouse=True)
def state_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep checksums and self-checks out of the user's state directory."""
    folder = tmp_path_factory.mktemp("localjudge-home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCALJUDGE_HOME", str(folder))
        patch.setenv("LOCALJUDGE_JUDGE", "lexical")  # fast; tests of the bundled judge name it
        yield folder


@pytest.fixture(autouse=True)
def nothing_examined(state_directory: Path) -> Iterator[None]:
    """Forget the doctor's results of earlier tests."""
    yield
    shutil.rmtree(state_directory / "examined", ignore_errors=True)


@pytest.fixture(scope="session")
def labelled_data() -> Path:
    return _named_folder("LOCALJUDGE_TEST_DATA", "labelled data")


@pytest.fixture(scope="session")
def vocabularies() -> Path:
    """Folder of vocabulary-only GGUF files of common models, with chat templates in templates/."""
    return _named_folder("LOCALJUDGE_TEST_VOCABS", "real tokenizers")


def _named_folder(variable: str, what: str) -> Path:
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"needs {what}: set {variable} to the folder")
    return Path(value)


class OneJudge(localjudge.ScriptedEngine):
    """The same judge for each script, so that runs differ only in their texts."""

    @property
    def identity(self) -> dict[str, Any]:
        return {"engine": "scripted", "script_sha256": "0" * 64}


@pytest.fixture
def scripted_run(tmp_path: Path) -> ScriptedRun:
    """Create a run: `scripted_run("name", rows, {unit text: probability or error}, **options)`;
    other units get 1.
    """

    def run(
        name: str,
        rows: Sequence[Mapping[str, Any]],
        script: Mapping[str, float | str],
        **options: Any,
    ) -> localjudge.Run:
        engine = OneJudge(script, default=1.0)
        return localjudge.evaluate(rows, out=tmp_path / name, engine=engine, **options)

    return run
