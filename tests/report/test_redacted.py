"""A redacted run says no text of anybody, and can be proved to be of its run."""

import hashlib
import hmac
import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge import Criterion, InputError, Run, RunDirectoryError, ScriptedEngine, evaluate
from localjudge.cli.main import main
from localjudge.engine.scripted import unit_text
from localjudge.metrics.criterion import CriterionExample
from localjudge.report.redacted import check_redacted, redacted_lines, salt_in, salt_of
from localjudge.run.job import run_plan
from localjudge.run.plan import plan
from localjudge.run.settings import RunSettings
from localjudge.types import Answer, NoAnswer, VerdictRequest

SALT = b"sixteen bytes at least"
PIECE = 12

DATA: list[dict[str, Any]] = [
    {
        "id": "patient Kowalczyk, ward seven",
        "user_input": "Which dosage did Doctor Abernathy prescribe?",
        "retrieved_contexts": ["Amoxicillin was prescribed on Tuesday evening.", "Her sister Philippa called."],
        "reference": "Five hundred milligrams, thrice daily. Stop after Wednesday.",
        "response": "Probably Penicillin, said the nurse. Nobody is certain.",
        "case number": "file reference Zeppelin-0815-Quebec",
        "ward": "ward of the unfortunate Marmaduke",
    },
    {
        "id": "patient Oppenheimer, discharged",
        "user_input": "Wherefore was she discharged prematurely?",
        "retrieved_contexts": [],
        "reference": "",
        "response": "Unanswerable from these documents.",
        "case number": "file reference Hindenburg-4711",
        "ward": "ward of the unfortunate Marmaduke",
    },
]
CRITERION = Criterion(
    name="mentions_kowalczyks_allergy",
    question="Does it mention the allergy that Kowalczyk keeps secret?",
    of="response",
    good="yes",
    shows=("user_input",),
    examples=(CriterionExample(text="Mistress Quickly tells everything.", user_input="Whodunnit?", answer="yes"),),
)
SUITE: dict[str, Any] = {
    "file": "confidential-suite.toml",
    "sha256": "0" * 64,
    "says": {"gates": ["secretive gate of Sylvester>=1"]},
}
REASON = "because the Benedictine monk testified"
ERROR = "the tokenizer choked on Scheherazade"
JUDGE = "finetuned-on-Kowalczyk-records"


class Talkative(ScriptedEngine):
    """A judge with a telling name, which gives reasons and fails with words."""

    def __init__(self) -> None:
        def said(request: VerdictRequest) -> Answer | NoAnswer:
            if "nurse" in unit_text(request):
                return NoAnswer(error=ERROR)
            return Answer(p_yes=0.8125, legal_mass=1.0, raw="1", reason=REASON)

        super().__init__(said)

    @property
    def name(self) -> str:
        """The file's name."""
        return JUDGE


def texts(value: Any) -> Iterator[str]:
    """All texts in a JSON value, its names too."""
    match value:
        case str():
            yield value
        case dict():
            for name, item in value.items():
                yield from (name, *texts(item))
        case list() | tuple():
            for item in value:
                yield from texts(item)


def pieces(given: str) -> set[str]:
    return {given[start : start + PIECE] for start in range(max(len(given) - PIECE, 0) + 1) if len(given) >= PIECE}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with words in every place that can hold some."""
    folder = tmp_path_factory.mktemp("Confidential-Clinic-of-Saint-Eustace")
    data = folder / "Oppenheimer-versus-Kowalczyk.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in DATA))
    options = RunSettings(
        criteria=(CRITERION,),
        cluster_by="ward",
        mapping={"user_input": "user_input"},
        abbreviations=("Abernathy-Smythe.",),
    )
    planned = plan(str(data), ["context_recall", "faithfulness", CRITERION.name], options)
    return Run.of(run_plan(planned._replace(suite=SUITE), engine=Talkative(), out=folder / "run-about-Kowalczyk"))


def secrets(run: Run) -> list[str]:
    """What was put in, and what the run adds of this machine and this user."""
    environment = run.manifest.environment
    added = [environment["sources"], str(run.directory), environment["host"]["node"], environment["host"]["system"]]
    details = [row.detail for row in run.scores if row.detail]
    put_in = [*texts(DATA), *texts(CRITERION.model_dump(mode="json")), *texts(SUITE), REASON, ERROR, JUDGE]
    return [*put_in, *texts(added), *details, "Abernathy-Smythe."]


FIXED = {"user_input", "retrieved_contexts", "reference", "response"}
"""Names of our fields, which are no text of anybody, and stand in the output as the places of verdicts."""


def test_no_twelve_characters_of_any_text_go_out(run: Run) -> None:
    """With a salt not even of an id; the same search finds each of them in the run itself, so it can fail."""
    out = "".join(redacted_lines(run, SALT))
    inside = "".join(
        (run.directory / name).read_text()
        for name in ("manifest.json", "summary.json", "scores.jsonl", "verdicts.jsonl")
    )
    assert all(one in inside for one in (REASON, ERROR, JUDGE, SUITE["file"], CRITERION.question))
    assert run.manifest.environment["host"]["node"] in inside
    given = [one for one in secrets(run) if one not in FIXED]
    assert len(given) > 30
    assert {piece for one in given for piece in pieces(one) if piece in out} == set()
    words = [
        "Kowalczyk",
        "kowalczyk",
        "Abernathy",
        "Zeppelin",
        "Marmaduke",
        "ward",
        "monk",
        "Clinic",
        "confidential",
        "/",
    ]
    assert [word for word in words if word in out] == []


def test_without_a_salt_ids_stand_as_they_are_and_nothing_else_does(run: Run) -> None:
    out = "".join(redacted_lines(run))
    ids = {row["id"] for row in DATA}
    assert {json.loads(line)["sample"] for line in out.splitlines()[1:]} == ids
    for one in ids:
        out = out.replace(one, "")
    given = [one for one in secrets(run) if one not in FIXED | ids]
    assert {piece for one in given for piece in pieces(one) if piece in out} == set()
    assert "text_hash" not in out


@settings(deadline=None, max_examples=15)
@given(st.lists(st.text("ghijklmnopqrstuvwxyz ÄÖ.", min_size=12, max_size=30), min_size=1, max_size=4))
def test_no_data_goes_out(given: list[str]) -> None:
    """Whatever is asked, found and answered; of letters that no hexadecimal number has."""
    rows = [
        {"id": f"{place}{one}", "user_input": one, "retrieved_contexts": given, "reference": one, "response": one[::-1]}
        for place, one in enumerate(given)
    ]
    with TemporaryDirectory() as folder:
        engine = ScriptedEngine({}, default=0.25)
        done = evaluate(rows, metrics=["context_recall", "faithfulness"], engine=engine, out=Path(folder) / "run")
        out = "".join(redacted_lines(done, SALT))
    ours = "retrieved_contexts context_recall faithfulness response reference"
    every = {piece for row in rows for one in texts(row) for piece in pieces(one)}
    assert {piece for piece in every if piece in out} - {piece for piece in every if piece in ours} == set()


def test_numbers_and_places_go_out(run: Run) -> None:
    """Each score and verdict, in their order, and the intervals."""
    head, *lines = map(json.loads, redacted_lines(run, SALT))
    scores = [line for line in lines if line["row"] == "score"]
    verdicts = [line for line in lines if line["row"] == "verdict"]
    assert [(one["status"], one["score"]) for one in scores] == [(row.status, row.score) for row in run.scores]
    assert [(one["start"], one["end"], one["p_yes"], one["label"]) for one in verdicts] == [
        (row.start, row.end, row.p_yes, row.label) for row in run.verdicts
    ]
    assert [one["failed"] for one in verdicts].count(True) == 2  # the sentence with the nurse, and her response
    assert head["summary"]["metrics"]["context_recall"]["mean"] == run["context_recall"].mean
    assert list(head["summary"]["metrics"]) == ["context_recall", "faithfulness", "metric-3"]
    assert head["signature"] == run.summary.signature.partition("|")[0]


def test_whoever_has_the_salt_can_name_sample_and_text(run: Run) -> None:
    """HMAC-SHA256 with the salt as the key, of which 32 digits stand there."""
    verdict = next(line for line in map(json.loads, redacted_lines(run, SALT)) if line["row"] == "verdict")
    for kind, text, said in (
        ("sample", DATA[0]["id"], verdict["sample"]),
        ("text", "Five hundred milligrams, thrice daily.", verdict["text_hash"]),
    ):
        assert hmac.digest(SALT, f"localjudge|{kind}|{text}".encode(), "sha256").hex()[:32] == said


def test_with_a_salt_no_hash_of_texts_can_be_tried(run: Run) -> None:
    """Those of the data and of the files, which anybody could work out who guesses what is in them, are keyed, too."""
    out = "".join(redacted_lines(run, SALT))
    known = [run.manifest.data["sha256"], run.manifest.data["clusters_sha256"]]
    known += [
        hashlib.sha256((run.directory / name).read_bytes()).hexdigest() for name in ("scores.jsonl", "verdicts.jsonl")
    ]
    assert [one for one in known if one[:32] in out] == []
    assert all(one in "".join(redacted_lines(run)) for one in known)


def written(run: Run, folder: Path, salt: bytes = b"") -> Path:
    file = folder / "redacted.jsonl"
    file.write_text("".join(redacted_lines(run, salt)))
    return file


@pytest.mark.parametrize("salt", [b"", SALT])
def test_a_redacted_file_belongs_to_its_run_alone(run: Run, tmp_path: Path, salt: bytes) -> None:
    file = written(run, tmp_path, salt)
    found = check_redacted(run, file, salt)
    assert (found.belongs, found.first_difference) == (True, None)
    assert found.lines == 1 + len(run.scores) + len(run.verdicts)
    other = evaluate(DATA, metrics=["context_recall"], engine=Talkative(), out=tmp_path / "other")
    assert not check_redacted(other, file, salt).belongs


def test_one_changed_byte_is_named_by_its_line(run: Run, tmp_path: Path) -> None:
    """A changed line, one that is missing, and one too many."""
    file = written(run, tmp_path)
    lines = file.read_text().splitlines(keepends=True)
    changes = [(n, line.replace("null", "0", 1).replace("false", "true", 1)) for n, line in enumerate(lines[1:], 1)]
    files = [(n + 1, [*lines[:n], line, *lines[n + 1 :]]) for n, line in changes if line != lines[n]]
    for number, changed in [*files, (len(lines), lines[:-1]), (len(lines) + 1, [*lines, lines[-1]])]:
        file.write_text("".join(changed))
        assert check_redacted(run, file).first_difference == number


@pytest.mark.parametrize(
    ("made_with", "given", "problem"),
    [(b"", SALT, "without a salt"), (SALT, b"", "with a salt"), (SALT, SALT + b".", "with another salt")],
)
def test_the_salt_has_to_be_the_same(run: Run, tmp_path: Path, made_with: bytes, given: bytes, problem: str) -> None:
    with pytest.raises(InputError, match=f"was made {problem}"):
        check_redacted(run, written(run, tmp_path, made_with), given)


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"row": "run", "schema_version": 99}', "\x00" * 50])
def test_what_is_no_redacted_run(run: Run, tmp_path: Path, content: str) -> None:
    file = tmp_path / "file"
    file.write_text(content)
    with pytest.raises(InputError):
        check_redacted(run, file)


def test_a_salt_is_in_a_file_and_not_short(tmp_path: Path) -> None:
    file = tmp_path / "salt.key"
    file.write_bytes(bytes(range(32)))
    assert salt_in(file) == bytes(range(32))
    file.write_bytes(b"too short")
    with pytest.raises(InputError, match="16 at least"):
        salt_in(file)
    with pytest.raises(InputError, match=r"no\.key cannot be read: No such file"):
        salt_in(tmp_path / "no.key")


def command(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(str(ended.value.code))


def test_export_and_verify(run: Run, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The list beside the file is one that sha256sum takes."""
    salt, file, directory = tmp_path / "salt.key", tmp_path / "out.jsonl", str(run.directory)
    salt.write_bytes(SALT)
    assert command("redact", directory, "--salt", str(salt), "--out", str(file)) == 0
    assert file.read_text() == "".join(redacted_lines(run, SALT))
    assert subprocess.run(["sha256sum", "-c", "out.jsonl.sha256"], cwd=tmp_path, check=False).returncode == 0
    checked = ("verify", directory, str(file), "--salt", str(salt))
    assert command(*checked) == 0
    assert "every byte the same" in " ".join(capfd.readouterr().out.split())
    file.write_text(file.read_text().replace('"label": 1', '"label": 0', 1))
    assert command(*checked, "--json") == 3
    assert json.loads(capfd.readouterr().out)["belongs"] is False


def test_ids_are_hashed_unless_they_are_asked_for(run: Run, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The salt stays in the run's directory, for its owner alone; a second export and verify take it from there."""
    directory, file = str(run.directory), tmp_path / "out.jsonl"
    ids = [str(row["id"]) for row in DATA]
    assert command("redact", directory, "--out", str(file)) == 0
    assert "whoever has a text can recognise it" in capfd.readouterr().err
    first = file.read_bytes()
    assert not any(one in first.decode() for one in ids)
    salt = run.directory / "salt.key"
    assert (len(salt.read_bytes()), salt.stat().st_mode & 0o777) == (32, 0o600)
    assert command("redact", directory, "--out", str(file)) == 0
    assert file.read_bytes() == first
    assert command("verify", directory, str(file)) == 0
    assert command("redact", directory, "--keep-ids", "--out", str(file)) == 0
    assert "the ids of the samples stand in it as they are" in capfd.readouterr().err
    assert all(one in file.read_text() for one in ids)
    assert command("verify", directory, str(file)) == 0


def test_a_salt_that_is_a_link_is_not_followed(run: Run, tmp_path: Path) -> None:
    """A run's directory may be a stranger's."""
    own = replace(run, directory=tmp_path)
    (tmp_path / "secret").write_bytes(SALT)
    (tmp_path / "salt.key").symlink_to(tmp_path / "secret")
    with pytest.raises(RunDirectoryError, match=r"salt\.key is a link"):
        salt_of(own)


@pytest.mark.parametrize(
    "arguments",
    [
        ("redact", "RUN", "--out", "a\\b"),
        ("redact", "RUN", "--salt", "salt.key", "--keep-ids"),
    ],
)
def test_what_does_not_go_together(run: Run, arguments: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    assert command(*(str(run.directory) if one == "RUN" else one for one in arguments)) == 1
    assert "hint" in capfd.readouterr().err
