"""A redacted run contains no user text and can be matched to its run."""

import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge import Criterion, InputError, Run, RunDirectoryError, ScriptedEngine, evaluate
from localjudge.analysis.labelling import Labelling
from localjudge.engine.scripted import unit_text
from localjudge.metrics.criterion import CriterionExample
from localjudge.report.redacted import redacted_lines, salt_of
from localjudge.run.job import run_plan
from localjudge.run.plan import plan
from localjudge.run.settings import RunSettings
from localjudge.types import Answer, NoAnswer, VerdictRequest
from tests.cli.conftest import called

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
REASON = "because the Benedictine monk testified"
ERROR = "the tokenizer choked on Scheherazade"
JUDGE = "finetuned-on-Kowalczyk-records"


class Talkative(ScriptedEngine):
    """A judge with a revealing name, reasons and error texts."""

    def __init__(self) -> None:
        def said(request: VerdictRequest) -> Answer | NoAnswer:
            if "nurse" in unit_text(request):
                return NoAnswer(error=ERROR)
            return Answer(p_yes=0.8125, legal_mass=1.0, raw="1", reason=REASON)

        super().__init__(said)

    @property
    def name(self) -> str:
        """Return the name of the file."""
        return JUDGE


def texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for name, item in value.items():
                yield from (name, *texts(item))
        case list() | tuple():
            for item in value:
                yield from texts(item)


def leaked(out: str, private: Iterable[str]) -> set[str]:
    pieces = {text[start : start + PIECE] for text in private for start in range(len(text) - PIECE + 1)}
    return {piece for piece in pieces if piece in out}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with text in every possible place."""
    folder = tmp_path_factory.mktemp("Confidential-Clinic-of-Saint-Eustace")
    data = folder / "Oppenheimer-versus-Kowalczyk.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in DATA))
    mapping, abbreviations = {"user_input": "user_input"}, ("Abernathy-Smythe.",)
    options = RunSettings(criteria=(CRITERION,), cluster_by="ward", mapping=mapping, abbreviations=abbreviations)
    planned = plan(str(data), ["context_recall", "faithfulness", CRITERION.name], options)
    return Run.of(run_plan(planned, engine=Talkative(), out=folder / "run-about-Kowalczyk"))


def secrets(run: Run) -> list[str]:
    """Return the inputs, and the texts about machine and user that the run adds."""
    environment = run.manifest.environment
    added = [list(environment.sources), str(run.directory), environment.host["node"], environment.host["system"]]
    details = [row.detail for row in run.scores if row.detail]
    put_in = [*texts(DATA), *texts(CRITERION.model_dump(mode="json")), REASON, ERROR, JUDGE]
    return [*put_in, *texts(added), *details, "Abernathy-Smythe."]


FIXED = {"user_input", "retrieved_contexts", "reference", "response"}
"""Names of result fields, which appear in the output."""


def test_a_redacted_run_keeps_corrected_means(tmp_path: Path) -> None:
    """Names of annotators are left out. Before, the file had only the judge's mean."""
    engine = ScriptedEngine({f"Fact {n}.": 0.1 for n in range(5)}, default=0.9)
    rows = [{"id": f"s{n}", "reference": f"Fact {n}.", "retrieved_contexts": ["Rain."]} for n in range(20)]
    run = evaluate(rows, engine=engine, metrics=["context_recall"], out=tmp_path / "run")
    assert "corrected" not in json.loads(next(redacted_lines(run)))["summary"]["metrics"]["context_recall"]
    labelling = Labelling(run, "Annotator Nightingale")
    while labelling.rows:
        labelling.answer(1)
    head = next(redacted_lines(run))
    corrected = run["context_recall"].corrected
    assert corrected is not None
    assert json.loads(head)["summary"]["metrics"]["context_recall"]["corrected"] == {
        "mean": corrected.mean,
        "ci95": list(corrected.ci95 or ()),
        "labels": 20,
    }
    assert "Nightingale" not in head


def test_no_twelve_characters_of_any_text_are_exported(run: Run) -> None:
    """With a salt, ids are hidden too. The same search finds each text in the run, so it can fail."""
    out = "".join(redacted_lines(run, SALT))
    names = ("manifest.json", "summary.json", "scores.jsonl", "verdicts.jsonl")
    inside = "".join((run.directory / name).read_text() for name in names)
    assert all(text in inside for text in (REASON, ERROR, JUDGE, CRITERION.question))
    assert run.manifest.environment.host["node"] in inside
    private = [text for text in secrets(run) if text not in FIXED]
    assert len(private) > 30
    assert leaked(out, private) == set()
    words = ("owalczyk", "Abernathy", "Zeppelin", "Marmaduke", "ward", "monk", "Clinic", "confidential", "/")
    assert [word for word in words if word in out] == []


def test_without_a_salt_only_ids_are_readable(run: Run) -> None:
    out = "".join(redacted_lines(run))
    ids = {row["id"] for row in DATA}
    assert {json.loads(line)["sample"] for line in out.splitlines()[1:]} == ids
    for name in ids:
        out = out.replace(name, "")
    assert leaked(out, [text for text in secrets(run) if text not in FIXED | ids]) == set()
    assert "text_hash" not in out


@settings(deadline=None, max_examples=15)
@given(st.lists(st.text("ghijklmnopqrstuvwxyz ÄÖ.", min_size=12, max_size=30), min_size=1, max_size=4))
def test_no_data_is_exported(contexts: list[str]) -> None:
    """For any question, finding and answer, in letters that do not occur in hexadecimal."""
    rows = [
        {
            "id": f"{n}{text}",
            "user_input": text,
            "retrieved_contexts": contexts,
            "reference": text,
            "response": text[::-1],
        }
        for n, text in enumerate(contexts)
    ]
    with TemporaryDirectory() as folder:
        engine = ScriptedEngine({}, default=0.25)
        done = evaluate(rows, metrics=["context_recall", "faithfulness"], engine=engine, out=Path(folder) / "run")
        out = "".join(redacted_lines(done, SALT))
    names = "retrieved_contexts context_recall faithfulness response reference"
    assert leaked(out, texts(rows)) - leaked(names, texts(rows)) == set()


def test_numbers_and_positions_are_exported(run: Run) -> None:
    """Each score and verdict in order, and the intervals."""
    head, *lines = map(json.loads, redacted_lines(run, SALT))
    scores = [line for line in lines if line["row"] == "score"]
    verdicts = [line for line in lines if line["row"] == "verdict"]
    assert [(line["status"], line["score"]) for line in scores] == [(row.status, row.score) for row in run.scores]
    assert [(line["start"], line["end"], line["p_yes"], line["label"]) for line in verdicts] == [
        (row.start, row.end, row.p_yes, row.label) for row in run.verdicts
    ]
    assert [line["failed"] for line in verdicts].count(True) == 2  # the sentence with the nurse, and her response
    assert head["summary"]["metrics"]["context_recall"]["mean"] == run["context_recall"].mean
    assert list(head["summary"]["metrics"]) == ["context_recall", "faithfulness", "metric-3"]
    assert head["signature"] == run.summary.signature.partition("|")[0]


def test_the_salt_identifies_samples_and_texts(run: Run) -> None:
    """HMAC-SHA256 with the salt as the key, cut to 32 digits."""
    verdict = next(line for line in map(json.loads, redacted_lines(run, SALT)) if line["row"] == "verdict")
    for kind, text, said in (
        ("sample", DATA[0]["id"], verdict["sample"]),
        ("text", "Five hundred milligrams, thrice daily.", verdict["text_hash"]),
    ):
        assert hmac.digest(SALT, f"localjudge|{kind}|{text}".encode(), "sha256").hex()[:32] == said


def test_hashes_with_a_salt_cannot_be_guessed(run: Run) -> None:
    """Hashes of data and files, which a guess at the content would confirm, are keyed too."""
    out = "".join(redacted_lines(run, SALT))
    files = [(run.directory / name).read_bytes() for name in ("scores.jsonl", "verdicts.jsonl")]
    hashes = [run.manifest.data.sha256, run.manifest.data.clusters_sha256 or ""]
    hashes += [hashlib.sha256(content).hexdigest() for content in files]
    assert [digest for digest in hashes if digest[:32] in out] == []
    assert all(digest in "".join(redacted_lines(run)) for digest in hashes)


@pytest.mark.parametrize("keep_ids", [False, True])
def test_the_command_writes_and_explains_the_redacted_lines(
    run: Run, tmp_path: Path, capfd: pytest.CaptureFixture[str], keep_ids: bool
) -> None:
    """The salt stays private in the run directory, so a second export has the same bytes."""
    file = tmp_path / "out.jsonl"
    arguments: list[str | Path] = ["redact", run.directory, "--out", file, *(["--keep-ids"] if keep_ids else [])]
    code, _, errors = called(capfd, *arguments)
    assert (code, "anybody with a text can recognise it" in errors) == (0, True)
    assert ("the ids of the samples stand in it as they are" in errors) == keep_ids
    salt = run.directory / "salt.key"
    assert file.read_text() == "".join(redacted_lines(run, b"" if keep_ids else salt.read_bytes()))
    assert all((row["id"] in file.read_text()) == keep_ids for row in DATA)
    assert keep_ids or (len(salt.read_bytes()), salt.stat().st_mode & 0o777) == (32, 0o600)
    assert called(capfd, "redact", run.directory, *arguments[4:])[1] == file.read_text()


def test_short_and_linked_salts_are_refused(run: Run, tmp_path: Path) -> None:
    """A run directory may be untrusted."""
    own, salt = replace(run, directory=tmp_path), tmp_path / "salt.key"
    salt.write_bytes(b"too short")
    with pytest.raises(InputError, match="16 at least"):
        salt_of(own)
    salt.rename(tmp_path / "secret")
    salt.symlink_to(tmp_path / "secret")
    with pytest.raises(RunDirectoryError, match=r"salt\.key is a link"):
        salt_of(own)
