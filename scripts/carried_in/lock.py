"""What is in the folder, by checksum: the lock that pip installs from, and the list that the install script checks."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from carried_in.target import Target
from carried_in.wheel_folder import Wheel

SUMS = "SHA256SUMS"


def lock_of(per_target: Mapping[Target, Iterable[Wheel]]) -> str:
    """Every package in its version with the checksums of its wheels, for `pip install --require-hashes`.

    A version that only some of the Pythons take has a marker that says which. Sorted: the same wheels give the same
    bytes.
    """
    takers: dict[tuple[str, str], list[Target]] = {}
    sums: dict[tuple[str, str], set[str]] = {}
    for target, wheels in per_target.items():
        for wheel in wheels:
            key = (wheel.name, str(wheel.version))
            takers.setdefault(key, []).append(target)
            sums.setdefault(key, set()).add(sha256_of(wheel.path))
    lines = []
    for (name, version), taken_by in sorted(takers.items()):
        marker = "" if len(taken_by) == len(per_target) else f" ; {_only(taken_by)}"
        lines.append(
            " \\\n    ".join(
                [f"{name}=={version}{marker}", *(f"--hash=sha256:{one}" for one in sorted(sums[name, version]))]
            )
        )
    return "\n".join(lines) + "\n"


def sums_of(folder: Path) -> str:
    """Checksum and path of each file of the folder but the list itself, as `sha256sum --check` reads them."""
    return "".join(f"{sha256_of(path)}  {path.relative_to(folder)}\n" for path in _files(folder))


def sha256_of(path: Path) -> str:
    """Checksum of a file."""
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def size_of(folder: Path) -> int:
    """Bytes of all files of the folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and path != folder / SUMS)


def _only(targets: Iterable[Target]) -> str:
    return " or ".join(f'python_version == "{target.version}"' for target in targets)
