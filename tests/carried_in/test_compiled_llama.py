"""llama.cpp is compiled for many processors or for one, and what it needs is read off the library itself."""

import io
import os
import platform
import shutil
import tarfile
import zipfile
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Literal

import llama_cpp
import pytest
from carried_in.compiled_llama import (
    OPENMP,
    compile_llama,
    flags_of_processor,
    how_compiled,
    openmp_of_this_machine,
    what_it_needs,
)
from carried_in.target import Target
from carried_in.wheel_folder import Wheel, wheels_in
from packaging.requirements import Requirement
from packaging.version import Version

from tests.carried_in.made_up_wheels import wheel

LIBRARIES = Path(llama_cpp.__file__).parent / "lib"
SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "wheelhouse"
ENVIRONMENT = (
    *("CMAKE_ARGS", "CMAKE_BUILD_TYPE", "CMAKE_TOOLCHAIN_FILE", "SKBUILD_CMAKE_ARGS", "SKBUILD_CMAKE_DEFINE"),
    *("CC", "CXX", "CUDACXX", "CFLAGS", "CXXFLAGS", "CUDAFLAGS", "LDFLAGS", "PIP_CONFIG_SETTINGS"),
)


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """No switches of the user's own."""
    for name in [name for name in os.environ if name in ENVIRONMENT or name.startswith(("CMAKE_", "SKBUILD_"))]:
        monkeypatch.delenv(name)


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
        for library in os.scandir(LIBRARIES):
            archive.write(library.path, f"llama_cpp/lib/{library.name}")
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
        backend = f"LIBRARIES = {str(LIBRARIES)!r}\n{_BACKEND}"
        for name, text in (("backend.py", backend), ("pyproject.toml", _PROJECT)):
            entry = tarfile.TarInfo(f"llama_cpp_python-0.3.99/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(found))
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


def test_a_portable_build_is_told_by_what_the_user_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line, whatever white space it was written with; how many compile at once does not matter."""
    monkeypatch.setenv("CMAKE_BUILD_PARALLEL_LEVEL", "2")
    monkeypatch.setenv("CFLAGS", " ")
    assert how_compiled("portable") == "portable"
    monkeypatch.setenv("CMAKE_ARGS", "-DGGML_AVX512=ON\n\t-DGGML_BLAS=ON")
    monkeypatch.setenv("CXXFLAGS", "-O2")
    assert how_compiled("portable") == "portable CMAKE_ARGS=-DGGML_AVX512=ON -DGGML_BLAS=ON CXXFLAGS=-O2"


@pytest.mark.parametrize("name", ENVIRONMENT)
def test_each_variable_that_the_builders_read_makes_another_build(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = how_compiled("portable"), how_compiled("native")
    monkeypatch.setenv(name, "-DX=1")
    assert (how_compiled("portable"), how_compiled("native")) == tuple(f"{one} {name}=-DX=1" for one in before)


def test_a_native_build_is_told_by_the_processor() -> None:
    told = how_compiled("native")
    assert told.startswith("native on ")
    assert told == how_compiled("native")
    model = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "")
    assert model.partition(": ")[2] in told


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CXXFLAGS", "-O2 -march=native"),
        ("CFLAGS", "-mcpu=native"),
        ("CXXFLAGS", "-march=icelake-server"),
        ("CC", "gcc -mavx512f"),
        ("CMAKE_ARGS", "-DGGML_CUDA=on -DGGML_NATIVE=ON"),
        ("CMAKE_ARGS", "-DGGML_NATIVE:BOOL=1"),
        ("CMAKE_ARGS", '-DCMAKE_CXX_FLAGS="-march=native"'),
    ],
)
def test_what_would_compile_for_one_kind_of_processor_is_refused_or_native(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library would not name all the sets that it needs, and so end elsewhere with "illegal instruction"."""
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=f"{name} has .*, which compiles for one kind of processor: unset it"):
        how_compiled("portable")
    assert how_compiled("native").endswith(f" {name}={value}")


@pytest.mark.parametrize("value", ["-DGGML_NATIVE=OFF", "-DGGML_AVX512=ON", "-mtune=native", "-march-is-a-month"])
def test_what_leaves_it_portable_is_handed_on(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CMAKE_ARGS", value)
    assert how_compiled("portable") == f"portable CMAKE_ARGS={value}"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """`scripts/wheelhouse`, which has no ending."""
    spec = spec_from_loader("wheelhouse", SourceFileLoader("wheelhouse", str(SCRIPT)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "carried"
    (made / "wheels").mkdir(parents=True)
    return made


def llama_in(script: ModuleType, folder: Path, *options: str) -> tuple[str, ...]:
    """The flags that the wheel needs which the script puts into the folder, or leaves there."""
    ours = Wheel(folder, "localjudge", Version("1"), frozenset(), "", (Requirement("llama-cpp-python~=0.3.36"),))
    order = script.Order(folder, (), (Target("3.12"),), (), with_tests=False)
    arguments = script.arguments_of([str(folder), *options])
    _, compiled = script.llama_of(order, ours, arguments.processors, arguments.llama_wheel)
    flags: tuple[str, ...] = compiled.flags
    return flags


@pytest.mark.usefixtures("index")
def test_a_wheel_that_was_compiled_otherwise_is_compiled_again_and_any_other_kept(
    script: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made() -> tuple[int, str]:
        llama_in(script, folder)
        [wheel] = wheels_in(folder / "wheels")
        with zipfile.ZipFile(wheel.path) as archive:
            return wheel.path.stat().st_ino, archive.read("switches").decode()

    first = made()
    assert made() == first
    monkeypatch.setenv("CMAKE_ARGS", "-DGGML_AVX512=ON")
    second = made()
    assert second[1] == f"{first[1]} -DGGML_AVX512=ON"
    assert made() == second
    monkeypatch.setenv("CXXFLAGS", "-O1")
    assert made()[0] != second[0]


def test_a_wheel_that_is_given_needs_all_of_this_processor_unless_it_is_said_to_be_portable(
    script: ModuleType, folder: Path, installed: Path, tmp_path: Path
) -> None:
    """Left to itself llama.cpp is compiled natively, and does not say so."""
    given = Path(shutil.copy(installed, tmp_path / "llama_cpp_python-0.3.99-py3-none-any.whl"))
    with zipfile.ZipFile(given, "a") as archive:
        archive.writestr("llama_cpp_python-0.3.99.dist-info/METADATA", "Name: llama_cpp_python\nVersion: 0.3.99\n")
    native = llama_in(script, folder, "--llama-wheel", str(given))
    assert native == what_it_needs(given, "native").flags
    assert llama_in(script, folder, "--llama-wheel", str(given), "--native") == native
    portable = llama_in(script, folder, "--llama-wheel", str(given), "--portable")
    assert portable == what_it_needs(given, "portable").flags
    assert set(portable) <= set(native)


def test_a_wheel_that_is_given_from_the_folder_itself_stays_there(script: ModuleType, folder: Path) -> None:
    given = wheel(folder / "wheels", "llama_cpp_python-0.3.99-py3-none-any")
    with pytest.raises(ValueError, match="is in the folder itself"):
        llama_in(script, folder, "--llama-wheel", str(given))
    assert given.is_file()
