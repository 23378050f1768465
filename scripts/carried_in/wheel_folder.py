"""A folder of wheels: which of them a Python needs for what is wanted, what is missing, and whether they agree.

pip resolves and fetches; this only follows the wheels' metadata, so that a folder is known to be whole before it is
carried to where nothing can be fetched.
"""

import zipfile
from collections.abc import Iterable, Iterator
from email.parser import HeaderParser
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from carried_in.target import Target


class Wheel(NamedTuple):
    """A wheel and what its metadata says."""

    path: Path
    name: str
    version: Version
    tags: frozenset[Tag]
    requires_python: str
    requirements: tuple[Requirement, ...]


class Wanted(NamedTuple):
    """A requirement, and whether what it needs itself is wanted too: of a package that only holds a model it is not."""

    requirement: Requirement
    with_its_own: bool = True


class Needed(NamedTuple):
    """What a Python installs, by name, and the requirements that no wheel of the folder fulfils."""

    wheels: dict[str, Wheel]
    missing: tuple[Requirement, ...]


def wheels_in(folder: Path) -> list[Wheel]:
    """All wheels, the latest version of each first."""
    found = [_read(path) for path in sorted(folder.glob("*.whl"))]
    return sorted(found, key=lambda wheel: (wheel.name, wheel.version), reverse=True)


def drop_broken(folder: Path) -> None:
    """Remove what is no whole archive: a copy that was interrupted."""
    for path in folder.glob("*.whl"):
        if not zipfile.is_zipfile(path):
            path.unlink()


def needed(wheels: Iterable[Wheel], wanted: Iterable[Wanted], target: Target) -> Needed:
    """Follow what is wanted through the requirements of each wheel. Raises ValueError where two want what differs."""
    usable = [wheel for wheel in wheels if wheel.tags & target.tags and target.admits(wheel.requires_python)]
    chosen: dict[str, Wheel] = {}
    missing: dict[str, Requirement] = {}
    open_ones = list(wanted)
    followed: set[str] = set()
    while open_ones:
        one = open_ones.pop()
        requirement = one.requirement
        if str(requirement) in followed:
            continue
        followed.add(str(requirement))
        name = canonicalize_name(requirement.name)
        fitting = (wheel for wheel in usable if wheel.name == name and _fits(wheel, requirement))
        wheel = chosen.get(name) or next(fitting, None)
        if wheel is None:
            missing[str(requirement)] = requirement
        elif not _fits(wheel, requirement):
            raise ValueError(f"{wheel.path.name} is chosen, and something else needs {requirement}")
        else:
            chosen[name] = wheel
            its_own = requirements_of(wheel, requirement.extras, target) if one.with_its_own else ()
            open_ones += map(Wanted, its_own)
    return Needed(dict(sorted(chosen.items())), tuple(missing.values()))


def requirements_of(wheel: Wheel, extras: Iterable[str], target: Target) -> Iterator[Requirement]:
    """What a wheel itself needs on this Python, when it is wanted with these extras."""
    for own in wheel.requirements:
        if target.wants(own.marker, tuple(extras)):
            plain = Requirement(str(own))
            plain.marker = None
            yield plain


def _fits(wheel: Wheel, requirement: Requirement) -> bool:
    return requirement.specifier.contains(wheel.version, prereleases=True)


def _read(path: Path) -> Wheel:
    name, version, _, tags = parse_wheel_filename(path.name)
    with zipfile.ZipFile(path) as archive:
        inside = next(one for one in archive.namelist() if one.endswith(".dist-info/METADATA") and one.count("/") == 1)
        metadata = HeaderParser().parsestr(archive.read(inside).decode("utf-8"))
    requirements = tuple(Requirement(line) for line in metadata.get_all("Requires-Dist", []))
    return Wheel(path, name, version, tags, metadata.get("Requires-Python", ""), requirements)
