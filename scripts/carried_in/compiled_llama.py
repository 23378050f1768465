"""llama.cpp, compiled for the machines that the folder is carried to, and what such a machine must have.

Left to itself, llama.cpp is compiled for the very processor that compiles it, and a wheel that pip keeps in its cache
was. What the compiled library needs is therefore never assumed: it is asked of the library, whoever made it.
"""

import hashlib
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

from packaging.requirements import Requirement

from localjudge.engine.hardware import processor_name

Processors = Literal["portable", "native"]
OPENMP = "libgomp.so.1"
"""GCC's library for threads: compiled llama.cpp needs it, and small systems lack it."""

_CMAKE = {
    # Most of x86-64-v3 (https://gitlab.com/x86-psABIs/x86-64-ABI), which Intel's servers have since 2013, and AMD's
    # since 2015. Named one by one: where SOURCE_DATE_EPOCH is set, llama.cpp would leave them out.
    "portable": ["-DGGML_NATIVE=OFF", *(f"-DGGML_{one}=ON" for one in ("SSE42", "AVX", "AVX2", "BMI2", "FMA", "F16C"))],
    "native": ["-DGGML_NATIVE=ON"],
}
_FLAGS = {
    "SSE3": "pni",
    "SSSE3": "ssse3",
    "AVX": "avx",
    "AVX2": "avx2",
    "AVX_VNNI": "avx_vnni",
    "F16C": "f16c",
    "FMA": "fma",
    "BMI2": "bmi2",
    "AVX512": "avx512f avx512cd avx512bw avx512dq avx512vl",
    "AVX512_VBMI": "avx512vbmi",
    "AVX512_VNNI": "avx512_vnni",
    "AVX512_BF16": "avx512_bf16",
    "AMX_INT8": "amx_int8",
}
"""What the library calls an instruction set, and what Linux calls it in /proc/cpuinfo, with those built with it."""
_COMPILERS_USE = re.compile(r"pni|ssse3|sse4_[12]|popcnt|movbe|abm|bmi[12]|fma|f16c|avx.*|amx.*|gfni|vaes|vpclmulqdq")
_BUILDERS_READ = re.compile(
    "(?:CMAKE|SKBUILD)_(?!BUILD_PARALLEL_LEVEL).*|CC|CXX|CUDACXX|HIPCXX|(?:C|CXX|CUDA|HIP|LD)FLAGS|PIP_CONFIG_SETTINGS"
)
"""Variables by which CMake (https://cmake.org/cmake/help/latest/manual/cmake-env-variables.7.html), scikit-build-core,
which calls it, and pip, which calls that, are told how to compile."""
_FOR_ONE_KIND = re.compile(
    r"-m(?:arch|cpu)=\S*|-m(?:avx|amx)\S*|GGML_NATIVE(?::\w+)?=(?:ON|1|TRUE|YES|Y)\b", re.IGNORECASE
)
_VERSIONED = re.compile(rb"GLIBC_(\d+)\.(\d+)\x00")
_ASK = """
import ctypes, sys
told = ctypes.CDLL(sys.argv[1]).llama_print_system_info
told.restype = ctypes.c_char_p
print(told().decode())
"""


class Compiled(NamedTuple):
    """What a compiled llama.cpp needs: flags of the processor, a glibc as new, and GCC's OpenMP library or not."""

    flags: tuple[str, ...]
    glibc: tuple[int, int]
    openmp: bool
    system: str
    """What it says of itself, which is in the signature of every run."""


def how_compiled(processors: Processors) -> str:
    """In a line, what `compile_llama` would be told here and now: where two differ, so may the builds.

    Raises ValueError if the environment would make a portable one for a single kind of processor.
    """
    read = sorted(name for name in os.environ if _BUILDERS_READ.fullmatch(name))
    given = {name: value for name in read if (value := " ".join(os.environ[name].split()))}
    told = [f"{name}={value}" for name, value in given.items()]
    if processors == "native":
        flags = hashlib.sha256(" ".join(_all_that_compilers_use()).encode()).hexdigest()[:12]
        return " ".join(["native", "on", processor_name(), f"flags:{flags}", *told])
    for name, value in given.items():
        if found := _FOR_ONE_KIND.search(value):
            raise ValueError(
                f"{name} has {found[0]}, which compiles for one kind of processor: unset it, or ask for --native; "
                "more instruction sets for all are named one by one (CMAKE_ARGS=-DGGML_AVX512=ON)"
            )
    return " ".join(["portable", *told])


def compile_llama(requirement: Requirement, processors: Processors, folder: Path) -> Path:
    """The wheel, compiled from source and from no cache. CMAKE_ARGS of the user's are added. About ten minutes."""
    switches = ["-DLLAVA_BUILD=OFF", *_CMAKE[processors], os.environ.get("CMAKE_ARGS", "")]  # no images are judged
    if processors == "portable" and os.uname().machine != "x86_64":
        switches = ["-DLLAVA_BUILD=OFF", "-DGGML_NATIVE=OFF", os.environ.get("CMAKE_ARGS", "")]
    wheel = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-cache-dir", "--no-binary", requirement.name]
    with TemporaryDirectory(dir=folder) as fresh:
        subprocess.run(
            [*wheel, "--wheel-dir", fresh, str(requirement)],
            env={**os.environ, "CMAKE_ARGS": " ".join(switches).strip()},
            check=True,
        )
        [made] = Path(fresh).glob("*.whl")
        return made.replace(folder / made.name)


def what_it_needs(wheel: Path, processors: Processors) -> Compiled:
    """Ask the library in a wheel, in a process of its own. Raises ValueError if it cannot be loaded on this machine.

    It names few of the instruction sets that a native one was compiled for: of that, all of this processor are needed.
    """
    with TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        inside = [name for name in archive.namelist() if name.startswith("llama_cpp/lib/")]
        archive.extractall(folder, inside)
        libraries = sorted(Path(folder).glob("llama_cpp/lib/*.so*"))
        library = next((path for path in libraries if path.name == "libllama.so"), None)
        if library is None:
            raise ValueError(
                f"{wheel} holds no llama_cpp/lib/libllama.so: is it a wheel of llama-cpp-python for Linux?"
            )
        asked = subprocess.run(
            [sys.executable, "-I", "-c", _ASK, str(library)], capture_output=True, text=True, check=False
        )
        if asked.returncode:
            said = asked.stderr.strip().splitlines()
            why = said[-1] if said else f"ended by signal {-asked.returncode}"
            raise ValueError(f"the llama.cpp of {wheel} does not run on this machine: {why}")
        contents = [path.read_bytes() for path in libraries]
    system = asked.stdout.strip()
    found = {flag for name in _FLAGS if re.search(rf"\b{name} = 1\b", system) for flag in _FLAGS[name].split()}
    if processors == "native":
        found.update(_all_that_compilers_use())
    glibc = max((found for content in contents for found in _glibcs(content)), default=(0, 0))
    openmp = any(OPENMP.encode() in content for content in contents)
    return Compiled(tuple(sorted(found)), glibc, openmp, system)


def flags_of_processor() -> set[str]:
    """What Linux says that this processor can; nothing where it says nothing."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return set()
    named = (line.partition(":")[2] for line in lines if line.startswith(("flags", "Features")))
    return set(next(named, "").split())


def openmp_of_this_machine() -> Path | None:
    """Where GCC's OpenMP library is, as the system's loader finds it."""
    where = "import ctypes; ctypes.CDLL('libgomp.so.1'); print(open('/proc/self/maps').read())"
    told = subprocess.run([sys.executable, "-I", "-c", where], capture_output=True, text=True, check=False).stdout
    found = re.search(rf"(/\S*/{re.escape(OPENMP)}\S*)$", told, flags=re.MULTILINE)
    return Path(found[1]) if found else None


def _all_that_compilers_use() -> list[str]:
    """The flags of this processor that `-march=native` may switch on."""
    return sorted(flag for flag in flags_of_processor() if _COMPILERS_USE.fullmatch(flag))


def _glibcs(content: bytes) -> Iterable[tuple[int, int]]:
    return ((int(one[0]), int(one[1])) for one in _VERSIONED.findall(content))
