"""The machine that an engine runs on: what kind of processor it has, and how much memory a process may still take."""

import os
import platform
import sys
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_SIZE = Path("/proc/self/statm")


def processor_name() -> str:
    """Name of the kind of processor; "" where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def available_bytes() -> int | None:
    """Memory that this process may still take.

    The least of what the machine has free, what is left to its control group, and to its address space (`ulimit -v`).
    """
    bounds = (_free_on_machine(), room_in_groups(_own_group()), room_in_address_space())
    return min((bound for bound in bounds if bound is not None), default=None)


def room_in_address_space() -> int | None:
    """Bytes that this process may still map under its limit; None without one, or where the system tells no sizes."""
    if sys.platform == "win32":
        return None
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        pages = int(_OWN_SIZE.read_text(encoding="ascii").split()[0])
    except OSError:
        return None
    return max(0, limit - pages * resource.getpagesize())


def _free_on_machine() -> int | None:
    if sys.platform == "win32":
        return None
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    rows = (line.split() for line in lines if line.startswith("MemAvailable:"))
    return next((int(words[1]) * 1024 for words in rows), None)


def room_in_groups(group: str) -> int | None:
    """Room under the tightest limit of a control group (version 2) and those that it is in; None if there is none."""
    here = _CGROUPS / group.lstrip("/")
    folders = [folder for folder in (here, *here.parents) if folder.is_relative_to(_CGROUPS)]
    return min((room for room in map(_room, folders) if room is not None), default=None)


def _own_group() -> str:
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "")


def _room(group: Path) -> int | None:
    try:
        limit = (group / "memory.max").read_text(encoding="ascii").strip()
        used = int((group / "memory.current").read_text(encoding="ascii"))
        lines = (group / "memory.stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    if limit == "max":
        return None
    files = sum(int(line.split()[1]) for line in lines if line.startswith(("active_file ", "inactive_file ")))
    return max(0, int(limit) - used + files)


def readable(count: int) -> str:
    """Bytes as a person reads them: in MiB below a GiB."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
