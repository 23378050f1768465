"""The tests that travel along: few, and they need pytest and localjudge alone.

They show that what was installed decodes grammars, judges with a model, gives the golden numbers, survives being killed
and opens no socket.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

TESTS = (
    "tests/conftest.py",
    "tests/golden",
    "tests/judge/expanded_grammars.json",
    "tests/judge/test_derived_grammars.py",
    "tests/judge/test_grammar_compilers.py",
    "tests/record/test_store.py",
    "tests/run/test_criteria_real_judge.py",
    "tests/run/test_evaluate.py",
    "tests/test_offline.py",
)
_SETTINGS = """\
[pytest]
addopts = -ra --import-mode=importlib -p no:cacheprovider
pythonpath = .
markers =
    unit
    engine
    slow
"""


def put_tests(repository: Path, folder: Path) -> Iterator[Path]:
    """Copy the tests, in their places below `tests/`, and the settings that they run with."""
    for name in TESTS:
        source = repository / name
        for file in sorted(source.glob("*.py")) if source.is_dir() else [source]:
            target = folder / file.relative_to(repository)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
            yield target
    settings = folder / "tests" / "pytest.ini"
    settings.write_text(_SETTINGS, encoding="utf-8")
    yield settings
