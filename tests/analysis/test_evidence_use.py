"""Evidence while labelling: what annotators see, what is stored, and what is counted."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import printed, printed_summary
from human_labels import answer_all, second_opinion

from localjudge import DataError, InputError, Run, ScriptedEngine, calibrate, evaluate
from localjudge.engine.scripted import unit_text
from localjudge.labels.drawing import DrawingOptions
from localjudge.labels.label_source import LabelSource
from localjudge.labels.labelling import Labelling
from localjudge.report.label_views import write_label_page
from localjudge.run_directory.label_rows import stored_labels
from localjudge.types import VerdictRequest
from tests.analysis.conftest import corrected, expect, written
from tests.conftest import LANGUAGES
from tests.report.conftest import PageReader

LABELS = "labels.jsonl"

METRIC = "faithfulness"
CITIES = ("Ulm", "Linz", "Budapest", "Regensburg")
SAMPLES: list[dict[str, Any]] = [
    {
        "id": city,
        "user_input": f"Where is {city}?",
        "retrieved_contexts": [f"{city} has a town hall.", f"{city} lies on the Danube."],
        "response": f"{city} lies on the Danube.",
    }
    for city in CITIES
]
SUPPORTED = 3
"""The judge says 1 to the first three statements."""


def judge(request: VerdictRequest) -> float:
    return 0.1 if CITIES[SUPPORTED] in unit_text(request) else 0.9


def judged(out: Path, *metrics: str, **options: Any) -> Run:
    names = list(metrics) or [METRIC]
    return evaluate(SAMPLES, metrics=names, out=out, engine=ScriptedEngine(judge), **options)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return judged(tmp_path / "run")


def seen_by_sample(run: Run) -> dict[str, str | None]:
    return {row.sample_id: row.evidence_seen for row in stored_labels(run.directory)}


def expect_use(run: Run, **counts: int) -> None:
    use = corrected(run, METRIC).evidence_use
    assert use is not None
    expect(use, **counts)


def stored_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def sheet_cells(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    return list(csv.DictReader(lines[1:]))


def filled(path: Path, label: str = "1") -> Path:
    """Return a copy of a JSONL sheet with this label in every row."""
    rows = [{**row, "human": label} for row in stored_rows(path)]
    return written(path.with_name(f"filled-{path.name}"), *rows)


# What annotators see


def test_the_closest_sentences_are_those_of_the_run(run: Run) -> None:
    labelling = Labelling(LabelSource.of_run(run))

    sentences = {
        row["sample_id"]: labelling.closest_sentences[row["label_id"]] for row in labelling.rows
    }
    text = "Ulm lies on the Danube."
    assert sentences["Ulm"][0] == ("contexts", 1, 0, len(text), text)


def test_they_do_not_depend_on_the_verdict(tmp_path: Path) -> None:
    """An annotator who sees them must not learn what the judge said."""
    seen = []
    for p_yes in (0.1, 0.9):
        engine = ScriptedEngine({}, default=p_yes)
        run = evaluate(SAMPLES, metrics=[METRIC], out=tmp_path / str(p_yes), engine=engine)
        seen.append(Labelling(LabelSource.of_run(run)).closest_sentences)

    assert seen[0] == seen[1]
    assert len(seen[0]) == len(CITIES)


@pytest.mark.parametrize("metric", ["matrix_recall", "answer_correctness", "citation_support"])
def test_they_lie_in_the_texts_that_are_shown(tmp_path: Path, metric: str) -> None:
    """A statement compared with one context is shown with this context only."""
    samples = []
    for sample in SAMPLES:
        reference = f"It is known that {sample['response']}"
        response = f"{sample['response'].removesuffix('.')} [1]."
        samples.append({**sample, "reference": reference, "response": response})
    engine = ScriptedEngine(judge)
    run = evaluate(samples, metrics=[metric], out=tmp_path / metric, engine=engine)
    labelling = Labelling(LabelSource.of_run(run), options=DrawingOptions(metrics=[metric]))

    checked = 0
    for row in labelling.rows:
        for sentence in labelling.closest_sentences.get(row["label_id"], ()):
            text = row[sentence.field]
            if sentence.context is not None:
                text = text[sentence.context]
            assert text[sentence.start : sentence.end] == sentence.text
            checked += 1
    assert checked >= len(CITIES)


def test_a_run_without_evidence_has_none_and_cannot_show_it(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", no_evidence=True)

    assert Labelling(LabelSource.of_run(run)).closest_sentences == {}
    with pytest.raises(InputError, match="no evidence") as raised:
        Labelling(LabelSource.of_run(run), show_evidence=True)
    assert "no-evidence" in (raised.value.hint or "") or "no_evidence" in (raised.value.hint or "")
    with pytest.raises(InputError, match="no evidence"):
        run.label(tmp_path / "labels.html", show_evidence=True)
    assert not (tmp_path / "labels.html").exists()


def test_units_without_evidence_are_remarked(tmp_path: Path) -> None:
    samples = [{**sample, "reference": sample["response"]} for sample in SAMPLES]
    engine = ScriptedEngine({}, default=0.9)
    run = evaluate(samples, metrics=["context_precision"], out=tmp_path / "run", engine=engine)

    source = LabelSource.of_run(run)
    options = DrawingOptions(metrics=["context_precision"])
    labelling = Labelling(source, options=options, show_evidence=True)

    assert [remark for remark in labelling.remarks if "evidence" in remark]
    assert {row["evidence_seen"] for row in labelling.rows_to_send()} == {None}


# Sheets


def test_a_sheet_has_no_evidence_unless_asked(run: Run, tmp_path: Path) -> None:
    cells = sheet_cells(run.label(tmp_path / "plain.csv"))

    assert len(cells) == len(CITIES)
    assert not {"closest", "evidence_seen"} & cells[0].keys()


def test_a_sheet_with_evidence_has_it_after_the_contexts(run: Run, tmp_path: Path) -> None:
    path = run.label(tmp_path / "shown.csv", show_evidence=True)
    cells = sheet_cells(path)

    assert list(cells[0])[:4] == ["statement", "context", "closest", "answer"]
    for row in cells:
        assert row["closest"].startswith(f"[2] {row['statement']}")
        assert row["evidence_seen"] == "shown"


@pytest.mark.parametrize("show_evidence", [False, True])
def test_labels_of_a_sheet_say_whether_it_was_shown(
    run: Run, tmp_path: Path, show_evidence: bool
) -> None:
    sheet = run.label(tmp_path / "sheet.jsonl", show_evidence=show_evidence)
    run.read_labels(filled(sheet), "ann")

    expected = "shown" if show_evidence else None
    assert seen_by_sample(run) == dict.fromkeys(CITIES, expected)
    stored = (run.directory / LABELS).read_text(encoding="utf-8")
    assert ("evidence_seen" in stored) is show_evidence


@pytest.mark.parametrize("cell", ["yes", "open", 1, " Opened ", "OPENED", "opened"])
def test_the_column_takes_known_words_in_any_spelling(
    run: Run, tmp_path: Path, cell: object
) -> None:
    rows = stored_rows(filled(run.label(tmp_path / "sheet.jsonl", show_evidence=True)))
    sheet = written(tmp_path / "changed.jsonl", *[{**row, "evidence_seen": cell} for row in rows])
    if str(cell).strip().lower() == "opened":
        run.read_labels(sheet, "ann")
        assert set(seen_by_sample(run).values()) == {"opened"}
        return
    with pytest.raises(DataError, match="evidence_seen"):
        run.read_labels(sheet, "ann")
    assert not stored_labels(run.directory)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_deleted_column_does_not_hide_that_evidence_was_shown(
    run: Run, tmp_path: Path, ending: str
) -> None:
    """The column `evidence` itself says so."""
    sheet = run.label(tmp_path / f"sheet.{ending}", show_evidence=True)
    read = sheet_cells if ending == "csv" else stored_rows
    rows = [{**row, "human": 1} for row in read(sheet)]
    for row in rows:
        del row["evidence_seen"]

    run.read_labels(written(tmp_path / "returned.jsonl", *rows), "ann")

    assert seen_by_sample(run) == dict.fromkeys(CITIES, "shown")


@pytest.mark.parametrize("with_evidence", [0, 1, 4])
def test_a_calibration_on_labels_with_open_evidence_says_so(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_evidence: int
) -> None:
    monkeypatch.setenv("LOCALJUDGE_HOME", str(tmp_path / "home"))
    labelling = Labelling(LabelSource.of_run(run), "ann")
    for index in range(len(CITIES)):
        if index < with_evidence:
            labelling.open_evidence()
        labelling.answer(1 if index % 2 else 0)
    (calibration,) = calibrate(run)
    remarks = [remark for remark in calibration.remarks if "evidence" in remark]
    numbers = [re.findall(r"\d+", remark) for remark in remarks]
    assert numbers == ([[str(with_evidence), "4"]] if with_evidence else [])


# The terminal


def test_the_terminal_records_what_was_opened(run: Run) -> None:
    labelling = Labelling(LabelSource.of_run(run), "ann")
    first = labelling.rows[0]["sample_id"]
    second = labelling.rows[1]["sample_id"]

    assert labelling.open_evidence()[0].context == 1
    labelling.answer(1)
    labelling.answer(1)

    assert seen_by_sample(run) == {first: "opened", second: None}


def test_a_postponed_statement_remains_opened(run: Run) -> None:
    labelling = Labelling(LabelSource.of_run(run), "ann")
    first = labelling.rows[0]["sample_id"]
    labelling.open_evidence()
    labelling.skip()
    answer_all(labelling)

    seen = seen_by_sample(run)
    assert seen.pop(first) == "opened"
    assert set(seen.values()) == {None}


@pytest.mark.parametrize("is_undone", [False, True])
def test_evidence_opened_before_an_answer_is_remembered(run: Run, is_undone: bool) -> None:
    """Quit with the evidence open, or after undo: the same command resumes with this statement."""
    labelling = Labelling(LabelSource.of_run(run), "ann")
    first = labelling.rows[0]["sample_id"]
    labelling.open_evidence()
    if is_undone:
        labelling.answer(1)
        assert labelling.undo()
    labelling.remember_opened()
    labelling.remember_opened()
    assert [row.human for row in stored_labels(run.directory)][-1] is None
    assert len(stored_labels(run.directory)) == (2 if is_undone else 1)

    resumed = Labelling(LabelSource.of_run(run), "ann")
    assert resumed.labelled == 0
    answer_all(resumed)

    seen = seen_by_sample(run)
    assert seen.pop(first) == "opened"
    assert set(seen.values()) == {None}


def test_only_the_annotator_who_opened_it_has_seen_it(run: Run) -> None:
    labelling = Labelling(LabelSource.of_run(run), "ann", show_evidence=True)
    labelling.open_evidence()
    labelling.remember_opened()
    assert list(seen_by_sample(run).values()) == ["shown"]

    answer_all(Labelling(LabelSource.of_run(run), "bob"))

    assert [row.evidence_seen for row in stored_labels(run.directory)[1:]] == [None] * len(CITIES)


def test_opened_evidence_is_no_label_and_spoils_no_plan(run: Run, tmp_path: Path) -> None:
    unlabelled = printed("show", run)
    labelling = Labelling(LabelSource.of_run(run), "ann")
    labelling.open_evidence()
    labelling.remember_opened()
    assert printed("show", run) == unlabelled

    sheet = run.label(tmp_path / "sheet.jsonl")
    run.read_labels(filled(sheet), "ann")

    labels = [row for row in stored_labels(run.directory) if row.human is not None]
    assert [row.planned for row in labels] == [len(CITIES)] * len(CITIES)


def test_evidence_shown_at_once_marks_each_label(run: Run) -> None:
    answer_all(Labelling(LabelSource.of_run(run), "ann", show_evidence=True))

    assert set(seen_by_sample(run).values()) == {"shown"}
    words = (
        "closest sentences open for 4 of 4 labels (shown at once for 4): the judge agrees with 3"
    )
    assert words in printed_summary(run)


# What is counted


def label_all(run: Run, annotator: str, opened: set[str], label: int = 1) -> None:
    with second_opinion(run, annotator) as labelling:
        while labelling.rows:
            if labelling.rows[0]["sample_id"] in opened:
                labelling.open_evidence()
            labelling.answer(1 if label else 0)


def test_agreement_is_counted_with_and_without(run: Run) -> None:
    """The judge says 1, 1, 1, 0 and the annotator 1 to all; Linz and Regensburg were opened."""
    label_all(run, "ann", {"Linz", "Regensburg"})

    expect_use(run, open=2, open_agreeing=1, shown=0, closed=2, closed_agreeing=2)


def test_labels_of_each_annotator_count(run: Run) -> None:
    """Ann opened none and says 1: right 3 times of 4. Bob opened all and says 0: right once."""
    label_all(run, "ann", set())
    label_all(run, "bob", set(CITIES), label=0)

    expect_use(run, open=4, open_agreeing=1, shown=0, closed=4, closed_agreeing=3)


def test_a_later_label_replaces_the_one_with_evidence(run: Run, tmp_path: Path) -> None:
    label_all(run, "ann", set(CITIES))
    expect_use(run, open=4, closed=0)
    rows = []
    for row in stored_labels(run.directory):
        rows.append({"label_id": row.key, "text": row.text, "human": 0, "annotator": "ann"})

    run.read_labels(written(tmp_path / "sheet.jsonl", *rows))

    assert corrected(run, METRIC).evidence_use is None


def test_labels_taken_from_another_run_keep_it(run: Run, tmp_path: Path) -> None:
    """The other run has the same statements, by another judge that says 1 to all."""
    label_all(run, "ann", {"Linz", "Regensburg"})
    engine = ScriptedEngine({}, default=0.9)
    other = evaluate(SAMPLES, metrics=[METRIC], out=tmp_path / "other", engine=engine)

    other.read_labels(run.directory)

    expect_use(other, open=2, open_agreeing=2, shown=0, closed=2, closed_agreeing=2)


def test_a_page_file_read_twice_changes_nothing(run: Run, tmp_path: Path) -> None:
    rows = []
    for row in Labelling(LabelSource.of_run(run)).rows_to_send():
        decision = {"human": 1, "annotator": "ann", "when": "2026-01-31T09:30:00Z"}
        named = {name: row[name] for name in ("label_id", "draw", "text", "planned")}
        rows.append({**named, **decision, "evidence_seen": "opened"})
    page_file = written(tmp_path / "labels-ann.jsonl", *rows)

    run.read_labels(page_file)
    content = (run.directory / LABELS).read_bytes()
    run.read_labels(page_file)

    assert (run.directory / LABELS).read_bytes() == content
    assert seen_by_sample(run) == dict.fromkeys(CITIES, "opened")
    assert {row.way for row in stored_labels(run.directory)} == {"page"}


def printed_use(run: Run) -> Any:
    return json.loads(printed("show", run, "--json"))["metrics"][METRIC]["corrected"][
        "evidence_use"
    ]


def test_the_summary_states_it_once(run: Run) -> None:
    label_all(run, "ann", {"Linz"})
    table = printed_summary(run)
    assert table.count("closest sentences open for 1 of 4 labels") == 1
    assert "agrees with 1 of them, and with 2 of the other 3" in table
    counts = {"open": 1, "open_agreeing": 1, "shown": 0, "closed": 3, "closed_agreeing": 2}
    assert printed_use(run) == counts


def test_no_view_says_anything_without_use(run: Run, tmp_path: Path) -> None:
    label_all(run, "ann", set())
    run.certificate(tmp_path / "certificate.html")

    assert "evidence open" not in printed("show", run)
    assert printed_use(run) is None
    for page in (tmp_path / "certificate.html", run.report()):
        assert "evidence open" not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("language", LANGUAGES)
def test_report_and_certificate_state_it(run: Run, tmp_path: Path, language: Any) -> None:
    """Linz was opened: the judge agrees with 1 of 1, and with 2 of the other 3."""
    label_all(run, "ann", {"Linz"})
    run.certificate(tmp_path / "certificate.html", language=language)

    use = corrected(run, METRIC).evidence_use
    assert use is not None
    certificate = PageReader((tmp_path / "certificate.html").read_text(encoding="utf-8")).text
    assert re.search(r"\b1\b\D+\b4\b\D+\b1\b\D+\b2\b\D+\b3\b", certificate)
    assert (use.in_words in " ".join(certificate.split())) == (language == "en")
    report = PageReader(run.report().read_text(encoding="utf-8")).text
    assert " ".join(report.split()).count(use.in_words) == 1


def test_old_labels_without_the_field_stay_readable(run: Run) -> None:
    label_all(run, "ann", set(CITIES))
    file = run.directory / LABELS
    rows = stored_rows(file)
    for row in rows:
        del row["evidence_seen"]
    written(file, *rows)

    assert set(seen_by_sample(run).values()) == {None}
    assert corrected(Run.open(run.directory), METRIC).evidence_use is None


def test_the_page_contains_the_places_only(run: Run, tmp_path: Path) -> None:
    """The texts are in the page already, and neither score nor verdict is."""
    labelling = Labelling(LabelSource.of_run(run))
    rows = labelling.rows_to_send()
    write_label_page(tmp_path / "a.html", rows, title="run", evidence=labelling.closest_sentences)
    html = (tmp_path / "a.html").read_text(encoding="utf-8")

    config = json.loads(html.partition('id="config">')[2].partition("</script>")[0])
    assert config["showsEvidence"] is False
    for row in config["rows"]:
        for field, context, start, end in row["closest"]:
            assert field == "contexts"
            assert row["contexts"][context][start:end]
    assert "supports" not in json.dumps(config["rows"])
