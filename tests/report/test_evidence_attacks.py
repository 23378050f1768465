"""Hard inputs for evidence, through a whole run: to the file, the terminal and the page."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from command_line import printed
from playwright.sync_api import expect

from localjudge import Run, RunDirectoryError, ScriptedEngine, evaluate
from tests.report.conftest import HOSTILE, Open

FACT = "Ulm lies on the Danube."
OTHER = "Snow fell last winter."


def judged(out: Path, contexts: list[str], reference: str, **how: Any) -> Run:
    sample = {"id": "s", "retrieved_contexts": contexts, "reference": reference}
    engine = ScriptedEngine({}, default=0.9)
    return evaluate([sample], metrics=["context_recall"], out=out, engine=engine, **how)


def evidence(run: Run) -> list[list[Any]]:
    """The evidence of each statement; each row is checked against the text that it names."""
    contexts = run.samples[0].retrieved_contexts or ()
    for row in run.iter_evidence():
        assert row.context is not None
        assert (contexts[row.context].text or "")[row.start : row.end] == row.text
    return [list(verdict.evidence) for verdict in run.verdicts]


def places(rows: list[Any]) -> list[tuple[int | None, str]]:
    return [(row.context, row.text) for row in rows]


def test_a_statement_that_repeats_the_question(tmp_path: Path) -> None:
    """The question has nearly all words of the statement, and asserts nothing."""
    contexts = [OTHER, "When was the tower of Ulm built and opened? In 1889. It is high."]
    run = judged(tmp_path / "run", contexts, "The tower of Ulm was built and opened in 1889.")

    [[first, *_]] = evidence(run)
    assert (first.context, first.text) == (1, "In 1889.")


@pytest.mark.parametrize(
    "contexts",
    [
        [FACT, OTHER, FACT],
        [OTHER, f"{OTHER} {FACT}", f"{FACT} {OTHER}"],
        [f"{FACT} {OTHER} {FACT}"],
        [f"{FACT} {FACT}"],
    ],
)
def test_the_same_sentence_twice_is_named_twice(tmp_path: Path, contexts: list[str]) -> None:
    [rows] = evidence(judged(tmp_path / "run", contexts, FACT))

    assert [row.text for row in rows] == [FACT, FACT]
    found = [(row.context, row.start) for row in rows]
    assert found == sorted(set(found), key=lambda place: (place[0] or 0, place[1]))
    assert [row.rank for row in rows] == [1, 2]
    assert rows[0].score == rows[1].score == 1.0


@pytest.mark.parametrize(
    ("context", "sentence"),
    [
        ("| City | River |\n|---|---|\n| Bonn | Rhine |\n| Ulm | Danube |", "| Ulm | Danube |"),
        ("City;River\nBonn;Rhine\nUlm;Danube", "Ulm;Danube"),
        ("City\tRiver\nBonn\tRhine\nUlm\tDanube", "Ulm\tDanube"),
    ],
)
def test_a_row_of_a_table(tmp_path: Path, context: str, sentence: str) -> None:
    [[first, *_]] = evidence(judged(tmp_path / "run", [OTHER, context], FACT))

    assert first.context == 1
    assert sentence in first.text
    assert "Bonn" not in first.text


@pytest.mark.parametrize("bullet", ["- ", "* ", "• ", "1. ", "a) "])
def test_an_item_of_a_list(tmp_path: Path, bullet: str) -> None:
    items = ("Bonn: on the Rhine", "Ulm: on the Danube", "Linz: in Austria")
    context = "\n".join(f"{bullet}{item}" for item in items)
    [[first, *_]] = evidence(judged(tmp_path / "run", [OTHER, context], FACT))

    assert "Ulm: on the Danube" in first.text
    assert "Bonn" not in first.text
    assert "Linz" not in first.text


@pytest.mark.parametrize(
    ("language", "contexts", "statement", "sentence"),
    [
        (
            "ja",
            ["大阪は商業の町です。", "東京は日本の首都です。人口が多い。"],
            "日本の首都は東京です。",
            "東京は日本の首都です。",
        ),
        (
            "zh",
            ["上海是一座大城市。", "北京是中国的首都。它很古老。"],
            "中国的首都是北京。",
            "北京是中国的首都。",
        ),
        (
            "ko",
            ["부산은 항구 도시이다.", "서울은 한국의 수도이다. 사람이 많다."],
            "한국의 수도는 서울이다.",
            "서울은 한국의 수도이다.",
        ),
        (
            "th",
            ["เชียงใหม่อยู่ทางเหนือ", "กรุงเทพเป็นเมืองหลวงของประเทศไทย"],
            "เมืองหลวงของประเทศไทยคือกรุงเทพ",
            "กรุงเทพเป็นเมืองหลวงของประเทศไทย",
        ),
    ],
)
def test_languages_without_spaces_or_with_other_letters(
    tmp_path: Path, language: str, contexts: list[str], statement: str, sentence: str
) -> None:
    run = judged(tmp_path / "run", contexts, statement, language=language)

    [[first, *_]] = evidence(run)
    assert (first.context, first.text) == (1, sentence)


def test_200_contexts_name_the_right_one(tmp_path: Path) -> None:
    contexts = [f"Town {number} lies on river {number}." for number in range(200)]
    run = judged(tmp_path / "run", contexts, "Town 137 lies on river 137.")

    [[first, *_]] = evidence(run)
    assert first.context == 137
    assert "evidence [138]" in printed("show", run, "s")


@pytest.mark.parametrize("filler", ["Snow fell. ", "lorem ipsum ", "x"])
def test_a_context_of_100000_characters(tmp_path: Path, filler: str) -> None:
    """Sentences, words without a stop, and letters without a space; the fact is in the middle.

    Quadratic time would be beyond the limit of a test.
    """
    half = filler * (50_000 // len(filler))
    run = judged(tmp_path / "run", [OTHER, f"{half} {FACT} {half}"], FACT)

    [[first, *_]] = evidence(run)
    assert first.context == 1
    assert "Ulm" in first.text
    assert len(first.text) <= 1_000


def test_a_context_of_100000_equal_words_without_the_fact(tmp_path: Path) -> None:
    [rows] = evidence(judged(tmp_path / "run", ["snow " * 20_000], FACT))

    assert rows == []


@pytest.mark.engine
@pytest.mark.parametrize("text", HOSTILE)
def test_text_that_looks_like_html_is_verbatim_in_the_file_and_text_on_the_page(
    tmp_path: Path, open_page: Open, text: str
) -> None:
    context = f"{OTHER} {text} Ulm lies on the Danube {text}"
    run = judged(tmp_path / "run", [context], FACT)

    [rows] = evidence(run)
    assert rows
    stored = (run.directory / "evidence.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["text"] for line in stored] == [row.text for row in rows]
    assert "\x1b" not in printed("show", run, "s")
    page = open_page(run.report())
    page.locator(".opener").first.click()
    expect(page.locator("mark.evidence").first).to_be_visible()
    expect(page.locator("#samples img, #samples script")).to_have_count(0)


@pytest.mark.engine
def test_the_page_moves_to_evidence_late_in_a_long_context(tmp_path: Path, open_page: Open) -> None:
    """A page shows the first 20,000 characters of a text, or more if its evidence is later."""
    run = judged(tmp_path / "run", ["Snow fell. " * 9_000 + FACT + " Snow fell." * 100], FACT)
    page = open_page(run.report())
    page.locator(".opener").first.click()
    page.get_by_role("link", name="evidence [1]").click()
    marked = page.locator("mark.evidence.shown")
    expect(marked).to_have_text(FACT)
    expect(marked).to_be_in_viewport()


def test_evidence_in_a_context_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    """A foreign run may have a file that was changed together with its checksum."""
    run = judged(tmp_path / "run", ["Ulm lies on the Danube."], "Ulm lies on the Danube.")
    file = run.directory / "evidence.jsonl"
    text = file.read_text(encoding="utf-8").replace('"context": 0', '"context": 7')
    file.write_text(text, encoding="utf-8")
    manifest = json.loads((run.directory / "manifest.json").read_bytes())
    checksum = hashlib.sha256(file.read_bytes()).hexdigest()
    manifest["environment"]["files"]["evidence.jsonl"] = checksum
    (run.directory / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    changed = Run.open(run.directory)

    with pytest.raises(RunDirectoryError, match="context 7"):
        changed.report(tmp_path / "report.html")
    with pytest.raises(RunDirectoryError, match="context 7"):
        changed.label(tmp_path / "labels.html")
