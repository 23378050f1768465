"""Whoever runs data in another language is told so beside the other notes, and nobody else."""

import io
import json
from pathlib import Path

import pytest

import localjudge
from localjudge import ScriptedEngine
from localjudge.cli.main import main
from localjudge.run.progress import Lines

GERMAN = (
    "Der Patient klagt seit dem 3. April über Schmerzen im Bauch. Er wurde von seiner Frau in die Klinik gebracht und "
    "hat sich dort nicht mehr übergeben. Die Aufnahme erfolgte durch den Arzt, der auch für die Station da ist."
)
ENGLISH = (
    "The patient has had pain in the belly since the third of April. He was brought to the hospital by his wife and "
    "did not vomit there again. He was admitted by the physician who is also there for the ward."
)
NOTE = "this looks like German (de), and --language is en: sentences may be cut wrongly; give --language de\n"


def rows(text: str) -> list[dict[str, object]]:
    return [{"id": "a", "reference": text, "retrieved_contexts": [text]}]


def notes(tmp_path: Path, text: str, **options: str) -> str:
    lines = io.StringIO()
    localjudge.evaluate(
        rows(text),
        out=tmp_path / "run",
        metrics=["context_recall"],
        engine=ScriptedEngine({}, default=1.0),
        progress=Lines(lines),
        **options,  # type: ignore[arg-type] # a language alone
    )
    return lines.getvalue()


def test_a_run_says_it_once_beside_the_other_notes(tmp_path: Path) -> None:
    assert notes(tmp_path, GERMAN).count(NOTE) == 1


@pytest.mark.parametrize(("text", "language"), [(ENGLISH, "en"), (GERMAN, "de"), (GERMAN, "xx")])
def test_a_run_in_the_right_language_says_nothing(tmp_path: Path, text: str, language: str) -> None:
    assert "looks like" not in notes(tmp_path, text, language=language)


@pytest.mark.parametrize(("language", "said"), [("en", NOTE), ("de", "")])
def test_segment_says_it_beside_the_sentences(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], language: str, said: str
) -> None:
    """What it prints stays JSON."""
    file = tmp_path / "text.txt"
    file.write_text(GERMAN, encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["segment", str(file), "--language", language, "--json"])
    printed, errors = capfd.readouterr()
    assert (ended.value.code, errors) == (0, said)
    assert all(json.loads(line)["text"] for line in printed.splitlines())
