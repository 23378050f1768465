"""The certificate of a difference states what was checked of both runs, and the difference."""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import printed
from human_labels import answer_all, draw, of_both

from localjudge import InputError, RunPair, ScriptedEngine, evaluate_pair
from localjudge.run_directory.label_rows import append_labels, stored_labels
from tests.conftest import LANGUAGES
from tests.report.conftest import HOSTILE, PageReader

LABELS = "labels.jsonl"

Text = Callable[..., str]
SECRET = "The vault opens at nine."


def engine() -> ScriptedEngine:
    return ScriptedEngine({}, default=0.6)


@pytest.fixture
def pair(tmp_path: Path) -> RunPair:
    """The judge says 1 to all; annotators say 0 to what A claims and 1 to what B claims."""
    rows = []
    for number in range(40):
        texts: dict[str, Any] = {"user_input": f"Why {number}?", "retrieved_contexts": [SECRET]}
        answers = {"old": f"Wrong {number}.", "new": f"Right {number}."}
        rows.append({"id": f"q{number}", "unit": f"unit {number % 2}", **texts, **answers})
    how: dict[str, Any] = {
        "mapping": {"response": "new"},
        "metrics": ["faithfulness"],
        "engine": engine(),
    }
    return evaluate_pair(rows, "old", out=tmp_path / "cmp", **how)


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def label(pair: RunPair, count: int = 1_000) -> None:
    answer_all(
        draw(of_both(pair.directory), count=count), lambda words: int(words.startswith("Right"))
    )


@pytest.fixture
def text(tmp_path: Path) -> Text:
    def written(pair: RunPair, **how: Any) -> str:
        file = pair.certificate(tmp_path / "page.html", **how).file
        return " ".join(PageReader(file.read_text()).text.split())

    return written


def without_time(page: str) -> str:
    """Two pages may be written in different minutes."""
    return re.sub(r"\d\d:\d\d UTC", "", page)


def test_certificate_has_difference_labels_verification_and_commands(
    pair: RunPair, text: Text
) -> None:
    """80 statements, all labelled: 0 for A and 1 for B; the judge says .6 to each, as in tables."""
    label(pair)
    assert pair.verify(engine=engine())
    page = text(pair, gates=["faithfulness.delta>=0.5"])
    assert "B is better than A in faithfulness: the difference is +1.000 (" in page
    assert "corrected by 80 labels of 1 person" in page
    assert "A: old, B: new" in page
    assert "0.6000.6000.000" in page.replace(" ", "")
    assert "sha256 of old/manifest.json" in page
    assert "40 pairs of answers" in page
    assert page.count("Verified on") == 2
    assert "faithfulness.delta>=0.5passed" in page
    assert "ann (80, 40 yes)" in page
    for run in (pair.baseline, pair.run):
        assert run.manifest.data.sha256 in page
        assert run.summary.signature in page
        assert sha256(run.directory / "manifest.json") in page
    assert sha256(pair.directory / LABELS) in page
    assert "localjudge verify cmp" in page
    again = "localjudge report cmp --certificate again.html --gate 'faithfulness.delta>=0.5'"
    assert again in page
    assert SECRET not in page
    for gates in (["faithfulness.delta>=0.5"], "faithfulness.delta>=0.5"):
        assert without_time(text(pair, gates=gates)) == without_time(page)


def test_certificate_has_slices_and_the_planned_number_of_labels(
    pair: RunPair, text: Text, tmp_path: Path
) -> None:
    """Two units of 20 pairs, all labelled by a sheet of 80 rows: 0 against 1 in each."""
    assert "planned" not in text(pair)
    sheet = pair.label(tmp_path / "sheet.jsonl", sample=80, annotator="ann")
    rows = [json.loads(line) for line in sheet.read_text().splitlines()]
    for row in rows:
        row["human"] = int(row["text"].startswith("Right"))
    sheet.write_text("\n".join(map(json.dumps, rows)))
    pair.read_labels(sheet)
    page = text(pair, by="unit")
    assert "Slices by unit" in page
    for unit in ("unit 0", "unit 1"):
        assert re.search(rf"{unit} ?faithfulness ?20 ?\+1.000", page), page
    assert page.count("corrected by 40 labels of 1 person") == 2
    assert "certificate again.html --by unit" in page
    assert "80 labels; statements with a label: 80" in page
    with pytest.raises(InputError, match="ward"):
        text(pair, by="ward")


def test_labels_by_keys_have_no_planned_number(pair: RunPair, text: Text) -> None:
    label(pair, 30)
    assert "no number of labels was planned" in text(pair)
    assert "statements with a label: 30" in text(pair)


def test_labels_have_a_box_for_each_of_their_files(pair: RunPair, text: Text) -> None:
    """30 joint labels, verified; then 10 more, and 5 of B alone, which no verification covers."""
    label(pair, 30)
    assert pair.verify(engine=engine())
    assert "Labels: 30 of 30 rows of labels.jsonl" in text(pair)
    label(pair, 40)
    answer_all(draw(pair.run, count=5))
    page = text(pair)
    assert re.search("Labels: 30 of 40 rows of labels.jsonl .* 10 rows were added since", page)
    assert "Labels: 5 rows in new/labels.jsonl, not verified" in page


@pytest.mark.parametrize("source", ["joint", "run", "baseline"])
def test_report_that_is_older_than_labels_is_no_alteration(
    pair: RunPair, text: Text, source: str
) -> None:
    """The page is compared with itself again once it is written with the labels."""
    label(pair, 30)
    page = pair.report().read_text()
    if source == "joint":
        label(pair, 40)
    else:
        answer_all(draw(getattr(pair, source), count=5))
    assert pair.certificate(pair.directory.parent / "page.html").problems == ()
    note = pair.verify(engine=engine()).run.report.note
    assert "older than the labels" in note
    assert "RunPair.open(" in note
    pair.report().write_text(page.replace("faithfulness", "correctness", 1))
    assert pair.certificate(pair.directory.parent / "page.html").problems == ()
    pair.report()
    assert "unchanged" in pair.verify(engine=engine()).run.report.note


def test_the_judge_s_means_are_those_of_the_quoted_difference(tmp_path: Path, text: Text) -> None:
    """20 pairs, .7 before and .9 after: all verdicts are 1, and expected scores differ by .2."""
    rows = []
    for number in range(20):
        row = {"user_input": f"Why {number}?", "retrieved_contexts": [SECRET]}
        rows.append({**row, "old": f"Bad {number}.", "new": f"Good {number}."})
    script = {f"Bad {number}.": 0.7 for number in range(20)}
    unsure = ScriptedEngine(script, default=0.9)
    how: dict[str, Any] = {"mapping": {"response": "new"}, "metrics": ["faithfulness"]}
    pair = evaluate_pair(rows, "old", out=tmp_path / "pair", engine=unsure, **how)
    page = text(pair)
    assert "+0.200" in page
    assert "0.7000.900+0.200" in page  # cells of a row
    assert "expected scores" in page
    certain = ScriptedEngine(dict.fromkeys(script, 0.0), default=1.0)
    pair = evaluate_pair(rows, "old", out=tmp_path / "certain", engine=certain, **how)
    assert "expected scores" not in text(pair)


def test_question_marks_in_a_sheet_are_answers(pair: RunPair, text: Text, tmp_path: Path) -> None:
    """Of 30 rows, 3 are ? and 2 are empty. Only the empty ones are asked again."""
    file = pair.label(tmp_path / "sheet.jsonl", sample=30, annotator="ann")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for number, row in enumerate(rows):
        row["human"] = "?" if number < 3 else 1
        if number >= 28:
            row["human"] = None
    file.write_text("\n".join(map(json.dumps, rows)))
    for expected in ((25, 0), (0, 25)):
        read = pair.read_labels(file)
        assert (read.new, read.known) == expected
        assert (read.undecidable, read.unlabelled) == (3, 2)
    assert len(draw(of_both(pair.directory), count=30).rows) == 2
    assert "3 statements that could not be decided (?)" in text(pair)
    rows[0]["human"] = 1
    file.write_text("\n".join(map(json.dumps, rows)))
    assert pair.read_labels(file).new == 1
    assert "2 statements that could not be decided (?)" in text(pair)


def test_without_labels_it_says_judge_only(pair: RunPair, text: Text) -> None:
    page = text(pair)
    assert "better" not in page
    assert "reverse the order" in page
    assert "no person has checked the judge" in page
    assert page.count("Not verified yet") == 2


@pytest.mark.parametrize("place", [0, 1])
def test_altered_run_leaves_no_difference(pair: RunPair, text: Text, place: int) -> None:
    label(pair)
    run = (pair.baseline, pair.run)[place]
    scores = run.directory / "scores.jsonl"
    scores.write_text(scores.read_text().replace("q1", "q9"))
    page = text(pair)
    assert "Do not quote" in page
    assert f"{'AB'[place]}: scores.jsonl" in page
    assert "+1.000" not in page
    assert not pair.certificate(pair.directory.parent / "other.html").passed


def test_comparison_warns_of_joint_labels_that_were_altered(pair: RunPair) -> None:
    label(pair, 30)
    assert pair.verify(engine=engine())
    path = pair.directory / LABELS
    assert not [each for each in pair.compare().warnings if LABELS in each]
    path.write_text(path.read_text().replace('"human": 1', '"human": 0', 1))
    [warning] = [each for each in pair.compare().warnings if LABELS in each]
    assert "30 rows" in warning


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_the_same_numbers(pair: RunPair, text: Text, language: Any) -> None:
    label(pair, 30)
    page = text(pair, language=language)
    english = text(pair)

    def numbers(page: str) -> list[str]:
        return re.findall(r"[+-]\d[.,]\d{3}", page)

    assert [each.replace(",", ".") for each in numbers(page)] == numbers(english)
    assert numbers(english)


def test_file_of_the_comparison_is_never_replaced(pair: RunPair) -> None:
    label(pair)
    assert pair.verify(engine=engine())
    own = ("comparison.json", "labels.jsonl", "verification.json")
    for name in (*own, "old/manifest.json", "new/scores.jsonl"):
        before = (pair.directory / name).read_bytes()
        with pytest.raises(InputError, match="name another file"):
            pair.certificate(pair.directory / name)
        assert (pair.directory / name).read_bytes() == before


@pytest.mark.parametrize("count", [1, 12, 40])
def test_equal_answers_have_no_interval(tmp_path: Path, text: Text, count: int) -> None:
    """No difference is between equal texts, so nothing remains to be detected on them."""
    rows = []
    for number in range(count):
        texts: dict[str, Any] = {"user_input": f"Why {number}?", "retrieved_contexts": [SECRET]}
        rows.append({**texts, "old": f"So {number}.", "new": f"So {number}.", "part": number % 2})
    how: dict[str, Any] = {"mapping": {"response": "new"}, "metrics": ["faithfulness"]}
    pair = evaluate_pair(rows, "old", out=tmp_path / "cmp", engine=engine(), **how)
    page = PageReader(pair.report().read_text()).text
    printed_tables = printed("compare", pair.directory, "--by", "part", width=200)
    for shown in (printed_tables, page, text(pair)):
        assert "detected" not in shown
        assert not re.search(r"[+-]0\.\d{3} to", shown)
    assert f"all {count} pairs are equal" in page


def test_page_of_both_names_the_columns_and_has_the_metrics_of_both(tmp_path: Path) -> None:
    """The judge says 0 to A and 1 to B. A page of B alone has only its own metrics."""
    texts = {"user_input": "Why?", "retrieved_contexts": [SECRET]}
    rows = [{**texts, "old system": f"Wrong {n}.", "new system": f"Right {n}."} for n in range(8)]
    judge = ScriptedEngine({f"Wrong {n}.": 0.2 for n in range(8)}, default=0.6)
    how: dict[str, Any] = {"mapping": {"response": "new system"}, "metrics": ["faithfulness"]}
    pair = evaluate_pair(rows, "old system", out=tmp_path / "cmp", engine=judge, **how)
    page = " ".join(PageReader(pair.report().read_text()).text.split())
    assert "new-system" not in page
    assert "This run" not in page
    one, _, other = page.partition("old system, the baseline Metric")
    assert one.count("1.000") > other.count("1.000")
    assert "0.000" in other
    verification = pair.verify(engine=judge)
    assert "new-system" in verification.baseline.report.note
    assert "unchanged" in verification.run.report.note
    alone = PageReader(pair.run.report().read_text()).text
    assert "the baseline" not in alone


def test_rows_left_out_are_counted_and_have_their_places(tmp_path: Path, text: Text) -> None:
    """Of 6 rows, the second lacks an answer: line 3. The page names no folder."""
    file = tmp_path / "data.csv"
    rows = ["question,contexts,old,new", *(f"Why {n}?,{SECRET},Old,New" for n in range(6))]
    rows[2] = f"Why 1?,{SECRET},,New"
    file.write_text("\n".join(rows))
    how: dict[str, Any] = {"metrics": ["faithfulness"], "mapping": {"response": "new"}}
    pair = evaluate_pair(file, "old", out=tmp_path / "cmp", engine=engine(), **how)
    assert pair.run.manifest.environment.skipped_places == (f"{file}:3",)
    assert re.search(r": 1 of 6 \(data\.csv:3\)", text(pair))
    assert str(tmp_path) not in text(pair)


def test_names_of_columns_and_titles_are_only_text(tmp_path: Path) -> None:
    for number, hostile in enumerate(HOSTILE):
        row = {"user_input": "Why?", "retrieved_contexts": [SECRET], "new": "It is."}
        column = f"old {hostile}".replace(".", " ").replace("[", " ")
        pair = evaluate_pair(
            [{**row, column: "It was."}],
            column,
            mapping={"response": "new"},
            metrics=["faithfulness"],
            engine=engine(),
            out=tmp_path / str(number),
        )
        file = tmp_path / f"{number}.html"
        pair.certificate(file, title=hostile)
        reader = PageReader(file.read_text())
        assert [name for name, _ in reader.elements].count("script") == 2


def test_means_are_those_of_the_screen_and_by_labels_where_they_give_them(
    pair: RunPair, text: Text
) -> None:
    """The judge gives .6 to all, as an expected score; people give 0 to A and 1 to B."""
    page = text(pair)
    assert "faithfulness0.000" in page
    assert "0.6000.6000.000" in page
    assert "By the judge only: A: in an average answer, about 60 % of the" in page
    label(pair)
    page = text(pair)
    assert "By the labels, without intervals: A: in an average answer, about 0 % of the" in page
    assert "B: in an average answer, about 100 % of the" in page
    assert "80 of 80 different statements can change the difference" in page
    assert str(pair.directory) not in page
    for side in ("old", "new"):
        assert f"sha256 of {side}/manifest.json" in page


def test_undecided_difference_says_why_labels_do_not_decide(pair: RunPair, text: Text) -> None:
    """Five labels; then a second person who contradicts all 80; 20 labels of B alone."""
    label(pair, 5)
    page = text(pair)
    assert "is not decided.5 labels" in page
    assert "5 labels are too few" in page
    label(pair)
    rows = stored_labels(pair.directory)
    others = []
    for row in rows:
        others.append(row.model_copy(update={"annotator": "bob", "human": 1 - int(row.human or 0)}))
    append_labels(pair.directory, others)
    page = text(pair)
    assert "differ on 80 statements" in page
    assert not re.search(r"\b0 labels", page)


def test_labels_of_one_system_are_named_so(pair: RunPair, text: Text) -> None:
    answer_all(draw(pair.run, count=20))
    page = text(pair)
    assert "is not decided." in page
    assert "one of the two systems" in page
    assert "- (-)" not in page
