"""Which wheels of a folder a Python needs, that none is missing, and the lock that names them."""

import subprocess
import sys
from pathlib import Path

import pytest
from carried_in.lock import SUMS, lock_of, sha256_of, sums_of
from carried_in.needs import read_needs, write_needs
from carried_in.target import Target, oldest_glibc
from carried_in.wheel_folder import Wanted, drop_broken, needed, wheels_in
from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename

from tests.carried_in.made_up_wheels import wheel

OLD, NEW = Target("3.11"), Target("3.14")
HERE = Target(f"{sys.version_info.major}.{sys.version_info.minor}")


def names(folder: Path, target: Target, *wanted: str | Wanted) -> list[str]:
    """The files that are needed; what is missing is named with a question mark."""
    roots = [one if isinstance(one, Wanted) else Wanted(Requirement(one)) for one in wanted]
    found = needed(wheels_in(folder), roots, target)
    return [wheel.path.name for wheel in found.wheels.values()] + [f"{one}?" for one in found.missing]


def test_markers_are_those_of_the_python_that_is_carried_to(tmp_path: Path) -> None:
    """As localjudge's own: one package below 3.14, another from there on."""
    wheel(tmp_path, "ours-1-py3-none-any", 'whole; python_version < "3.14"', 'core; python_version >= "3.14"')
    wheel(tmp_path, "whole-1-py3-none-any")
    wheel(tmp_path, "core-1-py3-none-any")
    assert names(tmp_path, OLD, "ours") == ["ours-1-py3-none-any.whl", "whole-1-py3-none-any.whl"]
    assert names(tmp_path, NEW, "ours") == ["core-1-py3-none-any.whl", "ours-1-py3-none-any.whl"]


def test_a_wheel_of_another_python_or_machine_does_not_count(tmp_path: Path) -> None:
    wheel(tmp_path, "fast-1-cp311-cp311-manylinux_2_17_x86_64")
    wheel(tmp_path, "slow-1-py3-none-any", python=">=3.12")
    wheel(tmp_path, "odd-1-cp311-cp311-win_amd64")
    assert names(tmp_path, NEW, "fast") == ["fast?"]
    assert names(tmp_path, OLD, "slow", "odd") == ["odd?", "slow?"]
    assert names(tmp_path, NEW, "slow") == ["slow-1-py3-none-any.whl"]


def test_a_stable_interface_serves_later_pythons(tmp_path: Path) -> None:
    wheel(tmp_path, "stable-1-cp39-abi3-manylinux_2_17_x86_64")
    assert names(tmp_path, NEW, "stable") == ["stable-1-cp39-abi3-manylinux_2_17_x86_64.whl"]


def test_the_latest_version_that_fits_is_taken(tmp_path: Path) -> None:
    """1.10 comes after 1.9, and 2 is not asked for."""
    for version in ("1.9", "1.10", "2.0"):
        wheel(tmp_path, f"one-{version}-py3-none-any")
    assert names(tmp_path, OLD, "one<2") == ["one-1.10-py3-none-any.whl"]


def test_what_is_missing_is_named_with_what_it_must_be(tmp_path: Path) -> None:
    wheel(tmp_path, "ours-1-py3-none-any", "there>=2", "gone~=1.5")
    wheel(tmp_path, "there-1-py3-none-any")
    assert names(tmp_path, OLD, "ours") == ["ours-1-py3-none-any.whl", "gone~=1.5?", "there>=2?"]


def test_two_that_need_different_versions_are_refused(tmp_path: Path) -> None:
    wheel(tmp_path, "a-1-py3-none-any", "shared<2")
    wheel(tmp_path, "b-1-py3-none-any", "shared>=2")
    wheel(tmp_path, "shared-1-py3-none-any")
    with pytest.raises(ValueError, match="shared"):
        names(tmp_path, OLD, "b", "a")


def test_extras_are_followed_where_they_are_wanted(tmp_path: Path) -> None:
    wheel(tmp_path, "ours-1-py3-none-any", 'columns; extra == "parquet"')
    assert names(tmp_path, OLD, "ours") == ["ours-1-py3-none-any.whl"]
    assert names(tmp_path, OLD, "ours[parquet]") == ["ours-1-py3-none-any.whl", "columns?"]


def test_packages_that_need_each_other_come_to_an_end(tmp_path: Path) -> None:
    wheel(tmp_path, "a-1-py3-none-any", "B")
    wheel(tmp_path, "b-1-py3-none-any", "a")
    assert names(tmp_path, OLD, "a") == ["a-1-py3-none-any.whl", "b-1-py3-none-any.whl"]


def test_a_package_that_holds_a_model_comes_alone(tmp_path: Path) -> None:
    wheel(tmp_path, "model-1-py3-none-any", "framework")
    assert names(tmp_path, OLD, Wanted(Requirement("model"), with_its_own=False)) == ["model-1-py3-none-any.whl"]


@pytest.mark.parametrize(
    ("tags", "glibc"),
    [
        ("py3-none-any", (0, 0)),
        ("cp311-cp311-manylinux_2_28_x86_64", (2, 28)),
        ("cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.manylinux_2_28_x86_64", (2, 17)),
        ("cp311-cp311-manylinux1_x86_64", (2, 5)),
        ("py3-none-linux_x86_64", (0, 0)),
    ],
)
def test_a_wheel_runs_from_the_oldest_glibc_that_it_names(tags: str, glibc: tuple[int, int]) -> None:
    assert oldest_glibc(parse_wheel_filename(f"one-1-{tags}.whl")[3]) == glibc


def test_a_wheel_whose_copy_was_interrupted_is_fetched_again(tmp_path: Path) -> None:
    """Cut at any length, it is no wheel; what is whole stays."""
    whole, cut = wheel(tmp_path, "whole-1-py3-none-any"), wheel(tmp_path, "cut-1-py3-none-any")
    content = cut.read_bytes()
    for length in (0, 1, len(content) // 2, len(content) - 1):
        cut.write_bytes(content[:length])
        drop_broken(tmp_path)
        assert list(tmp_path.iterdir()) == [whole]


def test_the_lock_names_each_version_for_those_that_take_it(tmp_path: Path) -> None:
    """Sorted, each with the checksums of its wheels: two for a package that is compiled for each Python."""
    both = wheel(tmp_path, "both-1-py3-none-any")
    fast = [wheel(tmp_path, f"fast-1-cp{one}-cp{one}-manylinux_2_17_x86_64") for one in (311, 314)]
    late = wheel(tmp_path, "late-2-py3-none-any", python=">=3.12")
    early = wheel(tmp_path, "late-1-py3-none-any")
    roots = [Wanted(Requirement(name)) for name in ("late", "fast", "both")]
    chosen = {target: needed(wheels_in(tmp_path), roots, target).wheels.values() for target in (OLD, NEW)}
    sums = sorted(map(sha256_of, fast))
    assert lock_of(chosen) == (
        f"both==1 \\\n    --hash=sha256:{sha256_of(both)}\n"
        f"fast==1 \\\n    --hash=sha256:{sums[0]} \\\n    --hash=sha256:{sums[1]}\n"
        f'late==1 ; python_version == "3.11" \\\n    --hash=sha256:{sha256_of(early)}\n'
        f'late==2 ; python_version == "3.14" \\\n    --hash=sha256:{sha256_of(late)}\n'
    )
    assert lock_of(dict(reversed(chosen.items()))).splitlines()[:2] == lock_of(chosen).splitlines()[:2]


def test_pip_takes_the_lock_and_refuses_a_changed_wheel(tmp_path: Path) -> None:
    one = wheel(tmp_path, "one-1-py3-none-any")
    lock = tmp_path / "requirements.lock"
    lock.write_text(lock_of({HERE: wheels_in(tmp_path), Target("3.9"): []}), encoding="utf-8")
    assert "python_version" in lock.read_text(encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--isolated", "install", "--dry-run", "--no-index", "--no-deps"]
    install = [*pip, "--require-hashes", "--find-links", str(tmp_path), "-r", str(lock)]
    taken = subprocess.run(install, capture_output=True, text=True, check=False)
    assert "Would install one-1" in taken.stdout
    wheel(tmp_path, "one-1-py3-none-any", "another")
    refused = subprocess.run(install, capture_output=True, text=True, check=False)
    assert refused.returncode
    assert "DO NOT MATCH THE HASHES" in refused.stderr
    assert one.is_file()


def test_the_list_of_checksums_is_read_by_the_tool_that_it_is_for(tmp_path: Path) -> None:
    """All files but itself, by path, whatever they are called."""
    for name in ("b", "a b", "deep/er/c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")
    (tmp_path / SUMS).write_text(sums_of(tmp_path), encoding="utf-8")
    assert sums_of(tmp_path) == (tmp_path / SUMS).read_text(encoding="utf-8")
    check = subprocess.run(["sha256sum", "-c", SUMS], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert check.stdout.splitlines() == ["a b: OK", "b: OK", "deep/er/c: OK"]


def test_what_a_machine_must_have_is_read_back(tmp_path: Path) -> None:
    assert read_needs(tmp_path) == {}
    needs = {"machine": "x86_64", "python": "3.11 3.12", "judges": ""}
    write_needs(tmp_path, needs)
    assert read_needs(tmp_path) == needs
