"""Every bundled grammar file says what grammars/README.md says of it."""

import json
import re
from pathlib import Path

import pytest

from localjudge.judge import grammars

FOLDER = Path(__file__).resolve().parents[2] / "grammars"
README = (FOLDER / "README.md").read_text(encoding="utf-8")
VERDICTS = ("attributed", "relevant", "useful")
LONGEST_REASON = "\U0001f600" * 200


def written(*entries: tuple[str, object]) -> str:
    return json.dumps(dict(entries), ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_every_grammar_is_described(path: Path) -> None:
    """Purpose, user and longest answer stand in the table."""
    assert f"`{path.name}`" in README


@pytest.mark.parametrize("key", VERDICTS)
def test_the_verdict_grammars_allow_two_answers(key: str) -> None:
    """No white space, no other value; as long as the table says."""
    pattern = grammars.load(key).pattern
    assert all(re.fullmatch(pattern, written((key, value))) for value in (0, 1))
    assert not re.fullmatch(pattern, written((key, 2)))
    assert not re.fullmatch(pattern, f'{{"{key}": 1}}')
    assert f"`{written((key, 0))}`, {len(written((key, 0)))} bytes" in README


@pytest.mark.parametrize("key", VERDICTS)
def test_the_reason_grammars_bound_the_reason(key: str) -> None:
    """1 to 200 characters, in the order of the name; the frame is as long as the table says."""
    before, after = grammars.load(f"reason_{key}").pattern, grammars.load(f"{key}_reason").pattern
    assert re.fullmatch(before, written(("reason", LONGEST_REASON), (key, 1)))
    assert re.fullmatch(after, written((key, 1), ("reason", LONGEST_REASON)))
    for reason in ("", LONGEST_REASON + "x"):
        assert not re.fullmatch(before, written(("reason", reason), (key, 1)))
        assert not re.fullmatch(after, written((key, 1), ("reason", reason)))
    assert str(len(written(("reason", ""), (key, 1)))) in README


def test_the_frame_of_a_joint_answer_is_as_long_as_described() -> None:
    """21 bytes, and 44 for each statement beside the statement and its reason."""
    entry = {"statement": "", "reason": "", "attributed": 0}
    lengths = [len(written(("classifications", [entry] * count))) for count in (1, 2)]
    assert lengths == [21 + 44, 21 + 2 * 44]
    assert "21 bytes, and for each statement 44 bytes" in README
