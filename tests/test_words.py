import json
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import localjudge
from localjudge import InputError, LocaljudgeError, ScriptedEngine
from localjudge.cli.main import main
from localjudge.words import (
    as_typed,
    call,
    option,
    option_name,
    percent,
    printable,
    printable_lines,
    roughly,
    signed,
    signed_difference,
    three_digits,
)

ROW = {"id": "a", "user_input": "Q?", "retrieved_contexts": ["Rain."], "reference": "It rains."}
FLAG = re.compile(r"--[a-z]")
NAMES = (
    "context_recall",
    "matrix_recall",
    "document_recall",
    "context_relevancy",
    "document_mrr",
    "recall@k",
)


@pytest.mark.parametrize(
    ("setting", "in_python", "typed"),
    [
        (("out",), "out=...", "--out"),
        (("quiet", True), "quiet=True", "--quiet"),
        (("threads", 4), "threads=4", "--threads 4"),
        (("reasons", "after"), "reasons='after'", 'reasons = "after" in localjudge.toml'),
        (("n_ctx",), "n_ctx=...", "n_ctx = ... in localjudge.toml"),
        (
            ("mapping", {"reference": "a b", "id": "k"}),
            "mapping={'reference': 'a b', 'id': 'k'}",
            "--map 'reference=a b' --map id=k",
        ),
    ],
)
def test_an_option_is_spelled_for_python_or_the_command_line(
    setting: tuple[Any, ...], in_python: str, typed: str
) -> None:
    assert option(*setting) == in_python
    with as_typed():
        assert option(*setting) == typed
    assert option(*setting) == in_python


def test_names_and_commands_are_spelled_for_python_or_the_command_line() -> None:
    command = ("verify", "my runs/a")
    assert (option_name("criteria"), option_name("profile")) == ("criteria", "profile")
    assert call(*command, judge="b.gguf") == "Run.open('my runs/a').verify(judge='b.gguf')"
    with as_typed():
        assert (option_name("criteria"), option_name("profile")) == ("--criterion", "profile")
        assert call(*command, judge="b.gguf") == "localjudge verify 'my runs/a' --judge b.gguf"


def evaluate(row: Any = ROW, **options: Any) -> None:
    localjudge.evaluate(
        [row], **{"engine": ScriptedEngine({}, default=1.0), "out": "run", **options}
    )


@pytest.mark.parametrize(
    ("row", "options", "words"),
    [
        (ROW, {"max_failed": -1}, "max_failed must be"),
        (ROW, {"abbreviations": 3}, "abbreviations must be a list"),
        (ROW, {"out": "."}, "out=..."),
        (
            {"question": "Q?", "documents": ["A text."], "chunks": ["A text."]},
            {},
            "'retrieved_contexts': 'documents'",
        ),
        ({**ROW, "reference": True}, {}, "skip_bad_rows=True"),
        ({**ROW, "document": None}, {"cluster_by": "document"}, "cluster_by needs a value"),
        (ROW, {"reuse": 3}, "reuse takes runs"),
    ],
)
def test_an_error_in_python_names_arguments_and_no_flags(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    row: Any,
    options: dict[str, Any],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("letter.txt").touch()  # without it, the directory may be used
    with pytest.raises(LocaljudgeError) as caught:
        evaluate(row, **options)
    assert words in str(caught.value)
    assert not FLAG.search(str(caught.value))


def test_the_same_error_on_the_command_line_names_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data.jsonl").write_text(json.dumps({**ROW, "document": None}))
    with pytest.raises(SystemExit, match=r"^1$"):
        main(["run", "data.jsonl", "--cluster-by", "document"])
    assert "--cluster-by needs a value" in capfd.readouterr().err


def test_files_of_a_run_are_the_same_from_python_and_the_command_line(tmp_path: Path) -> None:
    """A reason in `scores.jsonl` may name an option."""
    engine = {"engine": ScriptedEngine({}, default=1.0, capacity=10), "metrics": ["context_recall"]}
    evaluate(**engine, out=tmp_path / "python")
    with as_typed():
        evaluate(**engine, out=tmp_path / "typed")
    files = [(tmp_path / name / "scores.jsonl").read_bytes() for name in ("python", "typed")]
    assert files[0] == files[1]
    assert b"failed" in files[0]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("contxt_recall", "did you mean context_recall?"),
        ("faith", f"the columns are {', '.join(NAMES)}"),
        ("answer_relevancy", f"the columns are {', '.join(NAMES)}"),
        ("mrr", "did you mean document_mrr?"),
        ("recall", "did you mean recall@k, context_recall, matrix_recall?"),
    ],
)
def test_only_similar_names_are_suggested(name: str, hint: str) -> None:
    assert hint_for_column(name, NAMES) == hint
    columns = [f"column-{number}" for number in range(1_000)]
    assert hint_for_column("nope", columns).endswith(", column-19 and 980 more")


def hint_for_column(name: str, columns: Sequence[str]) -> str:
    """Return the hint for a mapping of data with these columns."""
    with pytest.raises(InputError) as caught:
        evaluate(dict.fromkeys(columns, "x"), mapping={"reference": name})
    return str(caught.value.hint)


@given(st.text(st.characters(categories=None, exclude_categories=())))
def test_printed_text_has_no_control_characters(text: str) -> None:
    """Neither controls (Cc), surrogates (Cs), nor line and paragraph separators."""
    assert not {unicodedata.category(character) for character in printable(text)} & {
        "Cc",
        "Cs",
        "Zl",
        "Zp",
    }
    printable(text).encode()


@pytest.mark.parametrize("text", ["Größe 5 %", "日本語。", "مرحبا", "👩‍👩‍👧 family", "a\\nb"])
def test_ordinary_text_of_any_script_is_unchanged(text: str) -> None:
    assert printable(text) == text
    assert printable(f"{text}\x1b[31m\n\x9b\u202e") == f"{text}\\x1b[31m\\n\\x9b\\u202e"
    assert printable_lines(f"{text}\ntwo\x07") == f"{text}\ntwo\\x07"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.1, "5 seconds"),
        (12, "10 seconds"),
        (53.9, "55 seconds"),
        (54, "1 minute"),
        (133, "2 minutes"),
        (7_199, "120 minutes"),
        (7_200, "2 hours"),
        (60_000, "17 hours"),
    ],
)
def test_estimates_are_rounded(seconds: float, text: str) -> None:
    assert roughly(seconds) == f"about {text}"


@pytest.mark.parametrize(
    ("share", "shown"), [(0.625, "63"), (0.285, "29"), (0.615, "62"), (0.0, "0"), (1.0, "100")]
)
def test_shares_are_rounded_half_up(share: float, shown: str) -> None:
    """100 x .285 is 28.499999999999996 in floats, and .625 was once 63 % and once about 62 %."""
    assert percent(share) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0625, "0.063"), (-0.3125, "-0.313"), (0.2345, "0.235"), (0.0, "0.000")]
)
def test_digits_are_rounded_half_away_from_0(value: float, shown: str) -> None:
    """5/16 is .3125: "0.312" in Python, which rounds half to even, and "0.313" in a browser."""
    assert three_digits(value) == shown


@pytest.mark.parametrize(("value", "shown"), [(0.0004, "0.000"), (-0.0625, "-0.063")])
def test_a_difference_has_a_sign_unless_it_rounds_to_0(value: float, shown: str) -> None:
    assert signed(value) == shown


@pytest.mark.parametrize(
    ("value", "limit", "shown"),
    [
        (0.79996, 0.8, "0.79996"),
        (0.79966, 0.8, "0.7997"),
        (0.8, 0.8, "0.800"),
        (0.1 + 0.2, 0.3, "0.300"),
        (0.80014, 0.8001, "0.80014"),
        (0.8001, 0.8001, "0.8001"),
        (0.9, 0.8, "0.900"),
        (-0.00003, 0.0, "-0.00003"),
    ],
)
def test_digits_show_on_which_side_of_a_limit_a_number_is(
    value: float, limit: float, shown: str
) -> None:
    assert three_digits(value, limit) == shown


@pytest.mark.parametrize(
    ("numbers", "limits", "shown"),
    [
        ((0.145, -0.00003, 0.29), (), ("+0.145", "-0.00003", "+0.290")),
        ((-0.1, -0.2, 0.0004), (), ("-0.100", "-0.200", "+0.0004")),
        ((0.00004, -0.1, 0.1), (), ("0.000", "-0.100", "+0.100")),
        ((0.0003, 0.0001, 0.0004), (), ("+0.0003", "+0.0001", "+0.0004")),
        ((0.1, 0.0, 0.2), (), ("+0.100", "0.000", "+0.200")),
        ((0.03, -0.0203, 0.08), (-0.02,), ("+0.030", "-0.0203", "+0.080")),
    ],
)
def test_no_end_of_an_interval_is_rounded_to_the_other_side(
    numbers: tuple[float, float, float], limits: tuple[float, ...], shown: tuple[str, str, str]
) -> None:
    value, low, high = numbers
    assert signed_difference(value, (low, high), *limits) == shown


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_a_shown_number_is_on_its_side_of_any_limit(value: float, limit: float) -> None:
    if abs(value - limit) > 2e-8:
        assert (float(signed(value, limit)) < limit) == (value < limit)
