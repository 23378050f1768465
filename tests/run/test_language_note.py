"""Whoever runs data in another language is told so beside the other notes, and nobody else."""

import json
from pathlib import Path

import pytest

import localjudge
from localjudge import ScriptedEngine
from localjudge.cli.main import main

GERMAN = (
    "Der Patient klagt seit dem 3. April über Schmerzen im Bauch. Er wurde von seiner Frau in die Klinik gebracht und "
    "hat sich dort nicht mehr übergeben. Die Aufnahme erfolgte durch den Arzt, der auch für die Station da ist."
)
ENGLISH = (
    "The patient has had pain in the belly since the third of April. He was brought to the hospital by his wife and "
    "did not vomit there again. He was admitted by the physician who is also there for the ward."
)
NOTE = "the texts look like language de, and --language is en: sentences may be cut wrongly; give --language de\n"
IN_PYTHON = "the texts look like language de, and language is en: sentences may be cut wrongly; give language='de'"


def rows(text: str) -> list[dict[str, object]]:
    return [{"id": "a", "reference": text, "retrieved_contexts": [text]}]


def evaluated(tmp_path: Path, text: str, **options: str) -> None:
    localjudge.evaluate(
        rows(text),
        out=tmp_path / "run",
        metrics=["context_recall"],
        engine=ScriptedEngine({}, default=1.0),
        **options,  # type: ignore[arg-type] # a language alone
    )


def test_a_run_warns_of_it_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A warning, which `--quiet` does not hide: cut wrongly, sentences give wrong numbers."""
    evaluated(tmp_path, GERMAN)
    assert [(record.levelname, record.message) for record in caplog.records] == [("WARNING", IN_PYTHON)]


@pytest.mark.parametrize(("text", "language"), [(ENGLISH, "en"), (GERMAN, "de"), (GERMAN, "xx")])
def test_a_run_in_the_right_language_says_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, language: str
) -> None:
    evaluated(tmp_path, text, language=language)
    assert "look like" not in caplog.text


@pytest.mark.parametrize(("language", "said"), [("en", NOTE), ("de", "")])
def test_segment_says_it_beside_the_sentences(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], language: str, said: str
) -> None:
    """What it prints stays JSON."""
    file = tmp_path / "text.txt"
    file.write_text(GERMAN, encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--sentences", str(file), "--language", language, "--json"])
    printed, errors = capfd.readouterr()
    assert (ended.value.code, errors) == (0, said)
    assert all(json.loads(line)["text"] for line in printed.splitlines())
