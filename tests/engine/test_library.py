import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parent.parent.parent
NO_OPENMP = (
    "RuntimeError(\"Failed to load shared library '/venv/llama_cpp/lib/libllama.so': "
    'libgomp.so.1: cannot open shared object file: No such file or directory")'
)
OTHER_BUILD = (
    'AttributeError("/venv/llama_cpp/lib/libllama.so: '
    'undefined symbol: llama_model_load_from_file")'
)


def localjudge_with(
    llama_cpp: Path, error: str, *arguments: str
) -> "subprocess.CompletedProcess[str]":
    (llama_cpp / "llama_cpp").mkdir()
    (llama_cpp / "llama_cpp" / "__init__.py").write_text(f"raise {error}\n", encoding="utf-8")
    path = os.pathsep.join(filter(None, [str(llama_cpp), str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-m", "localjudge", *arguments],
        env={**os.environ, "PYTHONPATH": path},
        cwd=llama_cpp,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (NO_OPENMP, "libgomp.so.1: cannot open"),
        (OTHER_BUILD, "undefined symbol: llama_model_load_from_file"),
        ("ModuleNotFoundError(\"No module named 'llama_cpp'\")", "No module named 'llama_cpp'"),
    ],
    ids=["no OpenMP", "another build", "not installed"],
)
def test_a_library_that_cannot_be_loaded_is_one_error_with_a_hint(
    tmp_path: Path, error: str, said: str
) -> None:
    done = localjudge_with(tmp_path, error, "run", "--demo")
    *_, what, hint = done.stderr.splitlines()
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (1, "", False)
    assert what.startswith("localjudge: llama.cpp cannot be loaded: ")
    assert said in what
    assert hint.startswith("  hint: ")
    assert "--no-binary llama-cpp-python" in hint


def test_the_doctor_gives_the_same_advice(tmp_path: Path) -> None:
    done = localjudge_with(tmp_path, OTHER_BUILD, "doctor")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "llama.cpp cannot be loaded" in " ".join(done.stdout.split())
    assert "--no-binary" in done.stdout
    assert "packages" in done.stdout, "the other findings are there, too"


def test_engines_without_llama_cpp_do_not_change_the_environment() -> None:
    """OpenMP's wait policy is set only when llama.cpp is loaded."""
    program = """
import os
before = dict(os.environ)
from localjudge.engine import ScriptedEngine
ScriptedEngine({}).close()
assert dict(os.environ) == before
import localjudge.engine.llamacpp.model
assert os.environ["OMP_WAIT_POLICY"] == "passive"
"""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
