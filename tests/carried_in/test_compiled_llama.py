"""What a compiled llama.cpp needs is read off the library itself."""

import zipfile
from pathlib import Path

import llama_cpp
import pytest
from carried_in.compiled_llama import OPENMP, flags_of_processor, openmp_of_this_machine, what_it_needs

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
