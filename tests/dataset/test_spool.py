"""Rows on disk read like rows in memory."""

import itertools
import os
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localjudge.dataset import identity as spools
from localjudge.dataset.identity import Spool, Spooled
from localjudge.errors import OutOfResource

records = st.lists(st.binary(max_size=30), max_size=30)


def filled(contents: list[bytes]) -> Spool:
    spool = Spool()
    for content in contents:
        spool.append(content)
    return spool


@pytest.fixture(params=[(1, 1), (40, 16), (spools.IN_MEMORY_BYTES, 2**18)], ids=["disk", "blocks", "memory"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How much stays in memory, and how much is read at once."""
    monkeypatch.setattr(spools, "IN_MEMORY_BYTES", request.param[0])
    monkeypatch.setattr(spools, "_BLOCK_BYTES", request.param[1])


@pytest.mark.usefixtures("sizes")
def test_what_was_appended_is_read_again_in_any_way() -> None:
    @given(contents=records)
    def check(contents: list[bytes]) -> None:
        spool = filled(contents)
        assert list(spool) == list(spool) == contents
        assert [spool[position] for position in reversed(range(len(spool)))] == contents[::-1]

    check()


@pytest.mark.usefixtures("sizes")
def test_iterators_do_not_disturb_each_other_nor_those_who_append() -> None:
    contents = [bytes([65 + number]) * number for number in range(20)]
    spool = filled(contents)
    assert list(itertools.product(spool, spool)) == list(itertools.product(contents, contents))
    one, other = iter(spool), iter(spool)
    next(one)
    assert [(next(one), next(other), spool[0]) for _ in range(19)] == list(
        zip(contents[1:], contents[:-1], [b""] * 19, strict=True)
    )
    for _ in spool:
        if len(spool) < 25:
            spool.append(b"late")
    assert spool[24] == b"late"


@pytest.mark.usefixtures("sizes")
def test_a_view_is_the_sequence_of_its_values() -> None:
    view = Spooled(filled([b"a", b"bb", b"ccc"]), lambda position, record: (position, record.decode()))
    values = ((0, "a"), (1, "bb"), (2, "ccc"))
    assert view == values
    assert view == Spooled(filled([b"a", b"bb", b"ccc"]), lambda position, record: (position, record.decode()))
    assert view != values[:2]
    assert view != ((0, "a"), (1, "bb"), (2, "c"))
    assert (view[0], view[-1], view[1:], view[::-1]) == (values[0], values[-1], values[1:], values[::-1])
    assert (2, "ccc") in view
    with pytest.raises(IndexError):
        view[3]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's list of open files")
def test_what_is_on_disk_has_no_name_and_is_for_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(spools, "IN_MEMORY_BYTES", 10)
    monkeypatch.setattr(spools, "_BLOCK_BYTES", 10)
    spool = filled([b"secret " * 100])
    assert not list(tmp_path.iterdir())
    links = [link for link in Path("/proc/self/fd").iterdir() if str(tmp_path) in os.path.realpath(link)]
    modes = [link.stat().st_mode for link in links]
    assert [stat.S_IMODE(mode) for mode in modes] == [0o600]
    assert spool[0].startswith(b"secret")


def test_no_room_for_the_rows_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spools, "IN_MEMORY_BYTES", 10)
    monkeypatch.setattr(spools, "_BLOCK_BYTES", 10)
    monkeypatch.setattr(tempfile, "tempdir", "/proc/nowhere")
    with pytest.raises(OutOfResource, match="TMPDIR"):
        filled([b"x" * 100])
