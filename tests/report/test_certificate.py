"""The certificate states what was checked and no more."""

import hashlib
import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from human_labels import answer_all, draw_disputed

from localjudge import InputError, Run, ScriptedEngine, evaluate
from localjudge.report.verification_views import verification_view
from localjudge.run_directory.label_rows import append_labels, label_file
from tests.analysis.conftest import label, label_words
from tests.analysis.labelled_runs import make_run, same_judge
from tests.conftest import ScriptedRun
from tests.report.conftest import HOSTILE, PageReader
from tests.run_directory.conftest import edited

VERIFICATION = "verification.json"
LABELS = "labels.jsonl"

Text = Callable[..., str]


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.fixture
def run(scripted_run: ScriptedRun) -> Run:
    return label(make_run(scripted_run, "run", samples=30), n=40)


@pytest.fixture
def text(tmp_path: Path) -> Text:

    def written(run: Run, **how: Any) -> str:
        path = run.certificate(tmp_path / "certificate.html", **how).file
        return " ".join(PageReader(path.read_text()).text.split())

    return written


def test_a_certificate_names_result_inputs_labels_and_commands(run: Run, text: Text) -> None:
    """30 samples of 1 to 3 sentences, 40 labels of ann; 30 of them count at this look."""
    page = text(run, title="Help desk <autumn>")
    corrected = run["context_recall"].corrected
    assert corrected is not None
    assert corrected.mean is not None
    assert corrected.ci95 is not None
    low, high = (f"{100 * end:.0f}" for end in corrected.ci95)
    sentence = (
        "In an average right answer, about {:.0f} % of the sentences "
        "are supported by the documents ({} to {})."
    )
    written = "localjudge certificate, written on "
    assert re.search(rf"{written}20\d\d-\d\d-\d\d at \d\d:\d\d UTC Help desk <autumn>", page)
    assert sentence.format(100 * corrected.mean, low, high) in page
    assert "context_recall: corrected by 30 of 40 labels" in page
    assert f"in any order and format {run.manifest.data.sha256}" in page
    manifest = sha256(run.directory / "manifest.json")
    assert f"{run.summary.signature} sha256 of manifest.json {manifest}" in page
    ones = sum(row.human == 1 for row in label_file(run.directory).rows)
    assert f"ann (40, {ones} yes); labels from " in page
    assert f"sha256 of labels.jsonl {sha256(run.directory / LABELS)}" in page
    assert "Obtain the run directory run, which contains the texts" in page
    assert "localjudge verify run" in page
    assert "localjudge report run --certificate again.html --title 'Help desk <autumn>'" in page


def test_a_certificate_names_who_settled_disputes(run: Run, text: Text) -> None:
    """Bo contradicts ann's 40 labels, and carol settles all."""
    label(run, lambda words: 1 - label_words(words), n=40, annotator="bo", again=True)
    answer_all(draw_disputed(run))
    page = text(run)
    assert "40 statements with several labels: 0 % agreement" in page
    assert re.search(r"; 40 of 40 disputed statements .*\(carol\)", page)
    assert "durch Schiedsspruch geklärt (carol)" in text(run, language="de")


def test_a_certificate_states_what_the_last_verification_covered(run: Run, text: Text) -> None:
    """Of 60 answers; then 5 of them; then 10 labels more; then another run in its place."""
    assert "Not verified yet" in text(run)
    assert run.verify(engine=same_judge(run))
    today = r"Verified on 20\d\d-\d\d-\d\d on [^:]*: "
    whole = today + "the judge repeated 60 of 60 stored answers, every bit the same. "
    assert re.search(f"{whole}The judge's results have not changed since. Labels: ", text(run))
    assert run.verify(engine=same_judge(run), sample=5)
    assert re.search(today + "the judge repeated 5 of 60 stored answers", text(run))
    label(run, n=50)
    assert re.search("Labels: 40 of 50 rows of labels.jsonl .* 10 rows were added since", text(run))
    edited("verification.json", '"manifest_sha256": "', '"manifest_sha256": "0')(run.directory)
    assert "Not verified since" in text(run)


def test_a_certificate_says_which_changes_of_labels_are_excluded(run: Run, text: Text) -> None:
    """None before the first verification, which is the second one once its result was removed."""
    assert re.search("Labels: 40 rows in labels.jsonl, not verified", text(run))
    assert run.verify(engine=same_judge(run))
    assert "Labels: 40 of 40 rows of labels.jsonl " in text(run)
    assert "No earlier verification" in text(run)
    path = run.directory / VERIFICATION
    content = json.loads(path.read_text())
    content["labels"]["first"] = "2026-01-31T09:00:00+00:00"
    path.write_text(json.dumps(content))
    assert run.verify(engine=same_judge(run), sample=5)
    assert "The first verification was on 2026-01-31" in text(run)
    edited(LABELS, '"human": 1', '"human": 0')(run.directory)
    (run.directory / VERIFICATION).unlink()
    assert run.verify(engine=same_judge(run), sample=5)
    assert "No earlier verification" in text(run)


def test_labels_are_not_called_altered_if_the_run_was(run: Run, tmp_path: Path) -> None:
    """The texts in run.sqlite are changed; then a row of labels.jsonl as well."""
    assert run.verify(engine=same_judge(run))
    with closing(sqlite3.connect(run.directory / "run.sqlite")) as store, store:
        store.execute("UPDATE sample SET content = replace(content, 'All of', 'None of')")
    altered = Run.open(run.directory, check=False)
    found = altered.verify(engine=same_judge(run))
    assert not found
    assert found.labels.problems
    assert not [note for note in verification_view(found).notes if "labels: altered" in note]
    problems = altered.certificate(tmp_path / "page.html").problems
    assert not any("labels.jsonl was changed" in problem for problem in problems)
    edited(LABELS, '"human": 1', '"human": 0')(run.directory)
    found = Run.open(run.directory, check=False).verify(engine=same_judge(run))
    assert "labels: altered" in verification_view(found).notes


def test_forged_sizes_of_labels_are_named_before_the_first_verification(
    run: Run, text: Text
) -> None:
    """A label counts by one over its size, so a tiny one would decide the mean alone."""
    assert "Result" in text(run)
    rows = label_file(run.directory).rows
    forged = rows[0].model_copy(update={"size_share": 1e-9})
    (run.directory / LABELS).unlink()
    append_labels(run.directory, [forged, *rows[1:]])
    page = text(run)
    assert "size_share of 1 row" in page
    assert "30 of 40 labels" not in page
    found = run.verify(engine=same_judge(run))
    assert "labels: altered" in verification_view(found).notes


def test_a_certificate_without_labels_has_nothing_about_them_on_top(
    scripted_run: ScriptedRun, text: Text
) -> None:
    run = make_run(scripted_run, "unlabelled", samples=3)
    assert run.verify(engine=same_judge(run))
    assert "Labels: " not in text(run)


def test_a_run_that_was_not_reproduced_has_no_result(run: Run, text: Text) -> None:
    assert not run.verify(engine=type(same_judge(run))({}, default=0.4))
    page = text(run)
    assert "did not reproduce this run. Do not quote" in page
    assert "In an average" not in page
    assert "not yet" not in page


def test_an_altered_run_has_no_result(run: Run, text: Text, tmp_path: Path) -> None:
    assert run.verify(engine=same_judge(run))
    edited("summary.json", '"mean": 0.', '"mean": 0.9')(run.directory)
    altered = Run.open(run.directory, check=False)
    file, problems, decisions = altered.certificate(tmp_path / "altered.html")
    assert decisions == ()
    page = PageReader(file.read_text()).text
    assert re.search("summary.json was changed: .*manifest.json", problems[0])
    assert page.index("This run was altered.") < page.index(problems[0])
    assert not re.search("In an average|Verified|had the checksum", page)


@pytest.mark.parametrize(
    ("file", "content", "german"),
    [
        ("scores.jsonl", '{"sample_id": ""}', "scores.jsonl wurde geändert: Die sha256"),
        ("report.html", "<p>", "report.html: Die Angaben"),
    ],
)
def test_a_german_certificate_says_in_german_what_was_altered(
    run: Run, tmp_path: Path, file: str, content: str, german: str
) -> None:
    (run.directory / file).write_text(content)
    altered = Run.open(run.directory, check=False)
    certificate = altered.certificate(tmp_path / "de.html", language="de")
    page = PageReader(certificate.file.read_text()).text
    assert german in page
    assert re.search("differs from|are missing", certificate.problems[0])
    assert certificate.problems[0] not in page


@pytest.mark.parametrize(
    ("language", "row", "formatting"),
    [
        ("en", "row 2", "formatting"),
        ("de", "Zeile 2", "Formatierung"),
        ("fr", "ligne 2", "mise en forme"),
        ("es", "fila 2", "formato"),
    ],
)
def test_places_of_an_alteration_are_in_the_language(
    run: Run, text: Text, language: Any, row: str, formatting: str
) -> None:
    """The checksums of the files are adapted. A value has its name in each language."""
    scores = run.directory / "scores.jsonl"
    first, second, *others = scores.read_text().splitlines(keepends=True)
    scores.write_text("".join([first, f" {second}", *others]))
    summary = run.directory / "summary.json"
    content = summary.read_text()
    values = json.loads(content)
    changed = json.dumps({**values, "samples": values["samples"] + 1})
    for written, place in ((f" {content}", formatting), (changed, "samples")):
        summary.write_text(written)
        manifest = json.loads((run.directory / "manifest.json").read_text())
        for name in manifest["environment"]["files"]:
            manifest["environment"]["files"][name] = sha256(run.directory / name)
        (run.directory / "manifest.json").write_text(json.dumps(manifest))
        page = text(Run.open(run.directory, check=False), language=language)
        assert f"({row})" in page
        assert f"({place})" in page


@pytest.mark.parametrize("language", ["de", "fr", "es"])
def test_certificates_are_whole_in_each_language(
    run: Run, text: Text, tmp_path: Path, language: Any
) -> None:
    """Verified, with labels of two annotators, then altered. Names and sha256 stay."""
    text(label(run, n=30, annotator="bo", again=True), language=language)
    assert run.verify(engine=same_judge(run), sample=5)
    page = text(run, language=language)
    assert f"--language {language}" in page
    english = (
        "In an average",
        "about",
        "labels from",
        "agreement",
        "Verified",
        "sentences",
        "by the judge",
    )
    assert [words for words in english if words in page] == []
    edited("scores.jsonl", '"score": ', '"score": 0')(run.directory)
    path = (
        Run.open(run.directory, check=False)
        .certificate(tmp_path / "altered.html", language=language)
        .file
    )
    assert f'<html lang="{language}">' in path.read_text()


def test_equal_runs_have_equal_certificates_apart_from_the_date(run: Run, tmp_path: Path) -> None:
    pages = [run.certificate(tmp_path / f"{at}.html").file for at in (1, 2)]
    first, second = (
        re.subn(r"written on 20\d\d-\d\d-\d\d at \d\d:\d\d UTC", "", path.read_text())
        for path in pages
    )
    assert first == second
    assert first[1] > 0
    assert pages[0].stat().st_mode & 0o077 == 0


def test_a_certificate_has_no_texts_and_replaces_no_other_file(
    run: Run, text: Text, tmp_path: Path
) -> None:
    assert "Fact 0 of sample" not in text(run)
    other = tmp_path / "notes.html"
    other.write_text("<p>mine")
    with pytest.raises(InputError, match="not a certificate"):
        run.certificate(other)
    assert other.read_text() == "<p>mine"


def test_hostile_names_are_text(scripted_run: ScriptedRun, tmp_path: Path) -> None:
    run = label(make_run(scripted_run, "run", samples=30), n=40, annotator=" ".join(HOSTILE))
    html = run.certificate(tmp_path / "page.html", title=" ".join(HOSTILE)).file.read_text()
    assert {name for name, _ in PageReader(html).elements} & {"img", "svg", "b"} == set()
    assert len(PageReader(html).raw) == 3
    assert "\x1b" not in html


def test_a_certificate_names_all_that_decides_the_number(
    scripted_run: ScriptedRun, text: Text
) -> None:
    """Nineteen labels of 0 at a threshold of 0.01, with a gate and slices: no mean is quoted."""
    rows = [
        {
            "id": f"s{n}",
            "user_input": "?",
            "unit": "ab"[n % 2],
            "retrieved_contexts": ["All."],
            "response": f"Fact {n}.",
        }
        for n in range(40)
    ]
    run = scripted_run(
        "run",
        rows,
        {f"Fact {n}.": 0.2 for n in range(40)},
        metrics=["faithfulness"],
        threshold=0.01,
    )
    label(run, lambda _: 0, n=19)
    gates = ["faithfulness>=0.6", "faithfulness[unit=a]>=0.6"]
    page = text(run, gates=gates, by="unit")
    assert "contradict the judge: 0 of 19 labelled" in page.lower()
    assert "about 100 %" not in page
    assert (
        "a verdict is yes at a probability of 0.010 or above (changed from the default of 0.5)"
        in page
    )
    assert "ann (19, 0 yes)" in page
    assert "faithfulness>=0.6undecided--19 labels" in page
    assert "faithfulness: 19 labels " in page
    assert "by 19 labels" not in page
    labels = label_file(run.directory).rows
    for value, remainder in (("a", 0), ("b", 1)):
        count = sum(int(row.sample_id[1:]) % 2 == remainder for row in labels)
        assert f"{value}faithfulness20--{count} labels" in page
    assert (
        "Files checkedmanifest.json, run.sqlite, summary.json, scores.jsonl, verdicts.jsonl, "
        "evidence.jsonl, labels.jsonl" in page
    )
    for gate in gates:
        assert gate in page
    german = text(run, language="de", gates=gates)
    assert (
        "Die Labels widersprechen dem Prüfmodell: 0 von 19 gelabelten Aussagen sind durch die "
        "Dokumente belegt, das Prüfmodell sagt 19 (p < 0,001)" in german
    )
    certificate = run.certificate(run.directory.parent / "gates.html", gates=gates)
    assert not certificate.passed
    assert [decision.outcome for decision in certificate.decisions] == ["undecided", "undecided"]


@pytest.mark.parametrize("spelling", ["plain", "dots", "case", "link", "hard link"])
@pytest.mark.parametrize(
    "name", ["report.html", "manifest.json", "labels.jsonl", "verification.json", "run.sqlite"]
)
def test_a_certificate_replaces_no_file_of_its_run(
    run: Run, tmp_path: Path, name: str, spelling: str
) -> None:
    run.report()
    target = run.directory / name
    path = {
        "plain": target,
        "dots": run.directory / ".." / run.directory.name / name,
        "case": run.directory / name.upper(),
    }.get(spelling, tmp_path / f"other-{name}")
    if not target.exists() and "link" in spelling:
        target.write_text("")
    if spelling == "link":
        path.symlink_to(target)
    elif spelling == "hard link":
        path.hardlink_to(target)
    before = target.read_bytes() if target.exists() else None
    with pytest.raises(InputError, match="file of the run"):
        run.certificate(path)
    assert (target.read_bytes() if target.exists() else None) == before


def test_an_edited_report_is_named(run: Run, text: Text) -> None:
    page = run.report()
    assert "and report.html" in text(run)
    page.write_text(page.read_text().replace("</h1>", " 100 %</h1>"))
    shown = text(run)
    assert "report.html: it differs from the page of the run" in shown
    assert "In an average" not in shown


def test_certificates_of_two_systems_name_the_judged_column(tmp_path: Path, text: Text) -> None:
    """One file, two columns with answers: only the column tells the certificates apart."""
    row = {"id": "a", "retrieved_contexts": ["It rains."], "A": "It rains.", "B": "It snows."}
    pages: dict[str, str] = {}
    for system in ("A", "B"):
        run = evaluate(
            [row],
            engine=ScriptedEngine({}, default=0.9),
            metrics="faithfulness",
            mapping={"response": system},
            out=tmp_path / system / "run",
        )
        pages[system] = text(run)
    for system, other in (("A", "B"), ("B", "A")):
        assert f"response: {system}" in pages[system]
        assert f"response: {other}" not in pages[system]
        assert f"Run {system}/run; response: {system}" in pages[system]
