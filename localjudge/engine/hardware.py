"""Identify the processor and the memory available to this process."""

import os
import platform
import sys
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def processor_name() -> str:
    """Return the model name of the processor, or "" if it is unknown."""
    lines = _lines("/proc/cpuinfo")
    if not lines:
        return platform.processor()
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return ""


def machine() -> list[str]:
    return [platform.machine(), platform.node(), processor_name()]


def available_bytes() -> int | None:
    """Return the least free memory of machine, control group and address space."""
    group = ""
    for line in _lines("/proc/self/cgroup"):
        if line.startswith("0::"):
            group = line[3:]
    bounds = [_available_memory(), room_in_groups(group), room_in_address_space()]
    return min((bound for bound in bounds if bound is not None), default=None)


def _available_memory() -> int | None:
    """Return the free memory of the machine, or all of its memory if the system does not tell."""
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    if sys.platform == "win32":
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def room_in_address_space() -> int | None:
    """Return the bytes that this process may still map."""
    if sys.platform == "win32":
        return None
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    sizes = _lines("/proc/self/statm")
    if limit == resource.RLIM_INFINITY or not sizes:
        return None
    return max(0, limit - int(sizes[0].split()[0]) * resource.getpagesize())


def room_in_groups(group: str) -> int | None:
    """Return the least free memory of a control group (version 2) and its parents."""
    here = _CGROUPS / group.lstrip("/")
    rooms: list[int] = []
    for folder in (here, *here.parents):
        limit = _lines(folder / "memory.max")
        used = _lines(folder / "memory.current")
        if not folder.is_relative_to(_CGROUPS) or not used or limit in ([], ["max"]):
            continue
        cached = 0
        for line in _lines(folder / "memory.stat"):
            name, size = line.split()
            if name in ("active_file", "inactive_file"):
                cached += int(size)
        rooms.append(max(0, int(limit[0]) - int(used[0]) + cached))
    return min(rooms, default=None)


def _lines(file: str | Path) -> list[str]:
    try:
        return Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
