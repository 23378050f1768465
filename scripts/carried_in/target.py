"""Which Python the wheels are for: what its tags and its environment markers are, whichever Python this is.

pip evaluates the markers of requirements for the Python that it runs on, even when it downloads for another one.
So what another one needs is worked out here from the wheels' own metadata.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from packaging.markers import Marker, default_environment
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags, platform_tags

_GLIBC = re.compile(r"manylinux_(\d+)_(\d+)_")
_LEGACY = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
"""The names of before https://peps.python.org/pep-0600/, which says what they stand for."""


@dataclass(frozen=True)
class Target:
    """CPython of a version, such as `3.12`, on this kind of system and machine."""

    version: str

    @property
    def numbers(self) -> tuple[int, int]:
        """Major and minor version."""
        major, minor = self.version.split(".")
        return int(major), int(minor)

    @cached_property
    def tags(self) -> frozenset[Tag]:
        """All tags of wheels that it can install."""
        short = "cp{}{}".format(*self.numbers)
        platforms = list(platform_tags())
        return frozenset(
            [*cpython_tags(self.numbers, platforms=platforms), *compatible_tags(self.numbers, short, platforms)]
        )

    def admits(self, requires_python: str) -> bool:
        """Whether a package with this Requires-Python is for it."""
        return SpecifierSet(requires_python).contains(f"{self.version}.99")

    def wants(self, marker: Marker | None, extras: Iterable[str]) -> bool:
        """Whether a requirement with this marker is one here, for a package that is wanted with these extras."""
        if marker is None:
            return True
        environment = {name: str(value) for name, value in default_environment().items()}
        full = f"{self.version}.0"
        environment |= {"python_version": self.version, "python_full_version": full, "implementation_version": full}
        return any(marker.evaluate({**environment, "extra": extra}) for extra in ("", *extras))


def oldest_glibc(tags: Iterable[Tag]) -> tuple[int, int]:
    """The oldest glibc that a wheel with these tags runs with; (0, 0) where its tags name none."""
    named = [found for tag in tags if (found := _glibc_of(tag.platform))]
    return min(named, default=(0, 0))


def _glibc_of(platform: str) -> tuple[int, int] | None:
    if numbered := _GLIBC.match(platform):
        return int(numbered[1]), int(numbered[2])
    return _LEGACY.get(platform.partition("_")[0])
