"""llama.cpp is compiled for many processors or for one, and what it needs is read off the library itself."""

import io
import os
import platform
import tarfile
import zipfile
from pathlib import Path
from typing import Literal

import llama_cpp
import pytest
from carried_in.compiled_llama import OPENMP, compile_llama, flags_of_processor, openmp_of_this_machine, what_it_needs
from packaging.requirements import Requirement

from tests.carried_in.made_up_wheels import wheel

LIBRARIES = Path(llama_cpp.__file__).parent / "lib"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The libraries that are installed here, as a wheel."""
    path = tmp_path_factory.mktemp("wheel") / "llama_cpp_python-1-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for library in LIBRARIES.iterdir():
            archive.write(library, f"llama_cpp/lib/{library.name}")
    return path


def test_what_runs_here_needs_nothing_that_this_processor_lacks(installed: Path) -> None:
    needs = what_it_needs(installed, "portable")
    assert set(needs.flags) <= flags_of_processor()
    assert needs.system == llama_cpp.llama_print_system_info().decode().strip()
    assert (2, 2) < needs.glibc < (3, 0)
    assert needs.openmp is ("OPENMP = 1" in needs.system)


def test_what_was_compiled_for_this_processor_needs_all_that_a_compiler_may_use(installed: Path) -> None:
    """The library names fewer sets than `-march=native` switches on: AVX-512 has twenty, of which it names four."""
    native, named = what_it_needs(installed, "native"), what_it_needs(installed, "portable")
    assert set(named.flags) <= set(native.flags) <= flags_of_processor()
    assert {flag for flag in flags_of_processor() if flag.startswith("avx")} <= set(native.flags)


def test_a_wheel_without_the_library_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no llama_cpp/lib/libllama\.so"):
        what_it_needs(wheel(tmp_path, "llama_cpp_python-1-py3-none-any"), "portable")


def test_a_library_that_does_not_load_here_is_refused_with_the_reason(tmp_path: Path) -> None:
    """As one for GPUs does where their driver is not."""
    other = wheel(tmp_path, "llama_cpp_python-1-py3-none-any", files=("llama_cpp/lib/libllama.so",))
    with pytest.raises(ValueError, match=r"does not run on this machine: OSError: .*file too short"):
        what_it_needs(other, "portable")


def test_openmp_is_found_where_the_loader_finds_it() -> None:
    path = openmp_of_this_machine()
    assert path is None or (path.is_file() and path.name.startswith(OPENMP))


_BACKEND = """
import os, zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "llama_cpp_python-0.3.99-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as archive:
        info = "llama_cpp_python-0.3.99.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: llama_cpp_python\\nVersion: 0.3.99\\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr(f"{info}/RECORD", "")
        archive.writestr("switches", os.environ["CMAKE_ARGS"])
    return name
"""
_PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where pip finds the sources of a llama-cpp-python that tells how it was built, and a wheel of that version."""
    found = tmp_path / "index"
    found.mkdir()
    wheel(found, "llama_cpp_python-0.3.99-py3-none-any")
    with tarfile.open(found / "llama_cpp_python-0.3.99.tar.gz", "w:gz") as archive:
        for name, text in (("backend.py", _BACKEND), ("pyproject.toml", _PROJECT)):
            entry = tarfile.TarInfo(f"llama_cpp_python-0.3.99/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(found))
    monkeypatch.delenv("CMAKE_ARGS", raising=False)
    return found


def compiled_with(folder: Path, processors: Literal["portable", "native"]) -> list[str]:
    """The switches that the compiler was told; the folder holds the wheel, and nothing else."""
    folder.mkdir()
    made = compile_llama(Requirement("llama-cpp-python~=0.3.36"), processors, folder)
    assert list(folder.iterdir()) == [made]
    with zipfile.ZipFile(made) as archive:
        return archive.read("switches").decode().split()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instruction sets are those of x86-64")
@pytest.mark.usefixtures("index")
def test_it_is_compiled_from_source_for_any_processor_with_avx2(tmp_path: Path) -> None:
    """Not taken as a wheel, which would be of unknown making; each set is named."""
    switches = compiled_with(tmp_path / "wheels", "portable")
    assert "-DGGML_NATIVE=OFF" in switches
    sets = ("SSE42", "AVX", "AVX2", "BMI2", "FMA", "F16C")
    assert [switch for switch in switches if switch.endswith("=ON")] == [f"-DGGML_{name}=ON" for name in sets]


@pytest.mark.usefixtures("index")
def test_it_is_compiled_for_this_processor_when_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a user's own switches come last, where they win."""
    monkeypatch.setenv("CMAKE_ARGS", "-DGGML_CUDA=on")
    switches = compiled_with(tmp_path / "wheels", "native")
    assert switches[-2:] == ["-DGGML_NATIVE=ON", "-DGGML_CUDA=on"]
