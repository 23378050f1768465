"""Small runs of every kind, made again from their data and judges.

    MAKERS["labelled"](folder)      makes the run directories folder/labelled and what it needs
    python -m tests.frozen.frozen_runs    writes runs/NAME.tar.xz and views/NAME.json.xz again

The archives were made before the code that they check. Write them again only if results are meant
to change, and say in the changelog what has changed.
"""

import hashlib
import io
import json
import lzma
import os
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import random_model

import localjudge
from localjudge import OutOfResource
from localjudge.cli.main import main
from localjudge.engine.scripted import unit_text
from localjudge.judging.verify import verify_run
from localjudge.judging.verify_files import alterations
from localjudge.types import Answer, VerdictRequest

ARCHIVES = Path(__file__).parent / "runs"
VIEWS = Path(__file__).parent / "views"
RESULTS = ("scores.jsonl", "verdicts.jsonl", "evidence.jsonl", "summary.json")
SAMPLES = 20
_PLACES = ("Bremen", "Ghent", "Lyon", "Turin", "Porto")
_MATERIALS = ("stone", "steel", "timber", "brick")
_ARCHITECTS = ("Ada Moor", "Ben Reed", "Cleo Hart")
_LOW = Answer(p_yes=0.9, valid_mass=0.001, raw="")
TRUSTS_ITS_TEXT = localjudge.Criterion(
    name="certain", question="Is the response free of doubt?", of="response"
)


def _make_row(number: int) -> dict[str, Any]:
    """Return a row about a bridge. Every fifth lacks something, every seventh is long."""
    place = _PLACES[number % len(_PLACES)]
    material = _MATERIALS[number % len(_MATERIALS)]
    architect = _ARCHITECTS[number % len(_ARCHITECTS)]
    year = 1800 + 7 * number
    facts = f"The bridge of {place} opened in {year}. It is built of {material}."
    row: dict[str, Any] = {
        "id": f"bridge-{number:02d}",
        "user_input": f"When did the bridge of {place} open, and who designed it?",
        "retrieved_contexts": [
            facts,
            f"{architect} designed the bridge in {place}. The work took {number + 2} years.",
            f"The market of {place} is held on Mondays.",
        ],
        "response": f"The bridge of {place} opened in {year} [1]. {architect} designed it [2]. "
        f"It has {number + 3} arches.",
        "reference": f"{facts} {architect} designed it.",
        "group": f"group {number % 11}",
        "source": place,
    }
    if number % 7 == 6:
        years = range(1500, 1560)
        row["retrieved_contexts"].append(" ".join(f"A ferry sank in {each}." for each in years))
    if number == 4:
        row["retrieved_contexts"] = ["", "  "]
    if number == 9:
        row["response"] = None
    if number == 14:
        row["reference"] = ""
    return row


ROWS = [_make_row(number) for number in range(SAMPLES)]


def _answer(text: str, salt: str) -> float | str | Answer:
    """Return a probability between 0 and 1 by the hash of a text; few texts have no answer."""
    digest = hashlib.sha256(f"{salt}{text}".encode()).digest()
    if digest[0] < 3:
        return "the model gave up"
    if digest[0] < 6:
        return _LOW
    return round(digest[1] / 255, 3)


class HashingEngine(localjudge.ScriptedEngine):
    """Answer by the hash of the unit's text. `ends_after` ends the process's work earlier."""

    def __init__(self, salt: str = "", ends_after: int | None = None) -> None:
        self._salt = salt
        self._ends_after = ends_after
        super().__init__(self._probability, capacity=1500)

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "engine": "scripted",
            "script_sha256": hashlib.sha256(self._salt.encode()).hexdigest(),
        }

    def _probability(self, request: VerdictRequest) -> float | str | Answer:
        if self._ends_after is not None and len(self.asked) > self._ends_after:
            raise OutOfResource("the power fails")
        return _answer(unit_text(request), self._salt)


METRICS = [
    "faithfulness",
    "context_recall",
    "context_precision",
    "context_relevancy",
    "citation_support",
    "noise_sensitivity",
    "refusal",
]
JURY_METRICS = ["faithfulness", "context_recall", "context_precision"]


def _evaluate(out: Path, rows: object = ROWS, **options: Any) -> localjudge.Run:
    settings: dict[str, Any] = {"progress": False, "metrics": METRICS, "max_failed": 4, **options}
    if "judge" not in settings:
        settings.setdefault("engine", HashingEngine())
    return localjudge.evaluate(rows, out=out, **settings)  # type: ignore[arg-type]


def _make_single(folder: Path) -> None:
    _evaluate(folder / "single", cluster_by="group")


def _make_lexical(folder: Path) -> None:
    _evaluate(folder / "lexical-nearest", judge="lexical", metrics=None, threads=1)


def _make_small_model(folder: Path) -> Path:
    """Return a tiny random model, which has the same bytes everywhere."""
    path = folder / "small.gguf"
    if not path.exists():
        shape = random_model.Shape(context=1024)
        random_model.write(path, random_model.piece_vocabulary(), shape=shape)
    return path


def _make_jury(folder: Path) -> None:
    judges = ["lexical", _make_small_model(folder)]
    options: dict[str, Any] = {"metrics": JURY_METRICS, "min_valid_mass": 0, "threads": 1}
    _evaluate(folder / "jury-nearest", judge=judges, **options)


def _make_shards(folder: Path) -> None:
    shards = [folder / "shard-1", folder / "shard-2"]
    for number, shard in enumerate(shards, 1):
        _evaluate(shard, shard=f"{number}/2")
    _evaluate(folder / "merged", None, reuse=shards, metrics=None)


def _make_stopped(folder: Path) -> None:
    _evaluate(folder / "stopped", until="context_recall>=0.05", seed=3, cluster_by="source")


def _make_resumed(folder: Path) -> None:
    try:
        _evaluate(folder / "resumed", engine=HashingEngine(ends_after=50))
    except OutOfResource:
        _evaluate(folder / "resumed")


def _make_reused(folder: Path) -> None:
    _make_single(folder)
    metrics = [*METRICS, "answer_correctness"]
    _evaluate(folder / "reused", reuse=folder / "single", metrics=metrics, threshold=0.3)


def _make_criterion(folder: Path) -> None:
    metrics = ["faithfulness", TRUSTS_ITS_TEXT]
    _evaluate(folder / "criterion", metrics=metrics, no_evidence=True, sample=15, seed=1)


def _make_labelled(folder: Path) -> None:
    _make_labels(folder, "labelled")


def _make_labels(folder: Path, name: str) -> localjudge.Run:
    """Label a run by two annotators, who differ on some statements, of which one is settled."""
    run = _evaluate(folder / name)
    sheets = {"ann": folder / f"{name}-ann.jsonl", "bob": folder / f"{name}-bob.jsonl"}
    metrics = ["faithfulness", "context_recall"]
    for annotator, sample in (("ann", 60), ("bob", 30)):
        sheet = sheets[annotator]
        run.label(sheet, sample=sample, metrics=metrics, annotator=annotator, seed=5)
        _fill(sheet, annotator)
    for annotator, sheet in sheets.items():
        run.read_labels(sheet, annotator)
        sheet.unlink()
        run = localjudge.Run.open(folder / name)
    sheet = folder / f"{name}-settled.jsonl"
    run.label(sheet, annotator="carl", disputed=True)
    _fill(sheet, "carl")
    run.read_labels(sheet, "carl")
    sheet.unlink()
    return localjudge.Run.open(folder / name)


def _fill(sheet: Path, annotator: str) -> None:
    """Label each row of a sheet by the hash of its text; bob reads some differently.

    carl leaves the second half empty.
    """
    lines = sheet.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    for row in rows:
        digest = hashlib.sha256(row["text"].encode()).digest()
        likely = _answer(row["text"], "")
        is_supported = isinstance(likely, float) and likely > 0.5
        if digest[2] < 40:
            is_supported = not is_supported
        if annotator == "bob" and digest[3] < 16:
            is_supported = not is_supported
        row["human"] = int(is_supported)
    if annotator == "carl":
        rows = rows[: (len(rows) + 1) // 2]
    sheet.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _make_calibrated(folder: Path) -> None:
    run = _make_labels(folder, "source-of-labels")
    calibrations = localjudge.calibrate(run, name="frozen", metrics=["faithfulness"])
    _evaluate(folder / "calibrated", calibration=calibrations)


MAKERS: dict[str, Callable[[Path], None]] = {
    "single": _make_single,
    "lexical-nearest": _make_lexical,
    "jury-nearest": _make_jury,
    "shard-1": _make_shards,
    "merged": _make_shards,
    "stopped": _make_stopped,
    "resumed": _make_resumed,
    "reused": _make_reused,
    "criterion": _make_criterion,
    "labelled": _make_labelled,
    "calibrated": _make_calibrated,
}
EARLIER = ("lexical", "jury", "weighted", "ended")
"""Runs of earlier versions, which cannot be repeated.

lexical    the lexical judge, which read whole texts
jury       the lexical judge and a small model
weighted   a jury with weights, stopped by the width of its intervals
ended      a jury with weights; labels of more disagreements, and a second opinion
"""
NAMES = (*MAKERS, *EARLIER)
MODELS = ("lexical-nearest", "jury-nearest", *EARLIER)
"""Runs by models; the others are by a scripted engine."""
STOPPED_BY_SCORES = ("weighted", "stopped")
"""Runs that labels cannot correct."""
BASELINES = {
    "reused": "single",
    "labelled": "single",
    "calibrated": "single",
    "stopped": "single",
    "merged": "single",
    "shard-1": "merged",
    "jury": "lexical",
    "weighted": "jury",
    "lexical": "single",
    "lexical-nearest": "lexical",
    "jury-nearest": "lexical-nearest",
}
"""The run with which a run is compared."""


def read_views(name: str) -> dict[str, Any]:
    """Return what the commands showed of a run when it was frozen."""
    content = lzma.decompress((VIEWS / f"{name}.json.xz").read_bytes())
    views: dict[str, Any] = json.loads(content)
    return views


def unpack(name: str, folder: Path) -> Path:
    """Return the run directory of an archive in a folder."""
    with tarfile.open(ARCHIVES / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name


def _open_judge(name: str, folder: Path) -> dict[str, Any]:
    """Return the judge or engine of a run for its verification."""
    if name.startswith("lexical"):
        return {"judge": "lexical"}
    if name in MODELS:
        return {"judge": ["lexical", str(_make_small_model(folder))]}
    return {"engine": HashingEngine()}


def look(name: str, folder: Path) -> dict[str, Any]:
    """Return what the commands show of a run in a folder, in which they are called."""
    metric = "faithfulness"
    views: dict[str, Any] = {
        "show": _call("show", name, "--json"),
        "slices": _call("show", name, "--by", "source", "--json"),
        "details": _call("show", name, "--details", "--json"),
        "sample": _call("show", name, "2", "--json"),
        "gates": _call(
            "report", name, "--gate", f"{metric}>=0.2", "--gate", f"{metric}>=0.9",
            "--out", "page.html", "--json",
        ),
    }  # fmt: skip
    _call("export", name, "--format", "csv", "--rows", "verdicts", "--with-columns",
          "--out", "verdicts.csv")  # fmt: skip
    views["export"] = (folder / "verdicts.csv").read_text(encoding="utf-8-sig")
    _call("export", name, "--format", "jsonl", "--out", "rows.jsonl")
    views["scores"] = (folder / "rows.jsonl").read_text(encoding="utf-8")
    if name == "labelled":
        views["disputes"] = _call("show", name, "--labels", "--json")
        views["disagreements"] = _call("show", name, "--disagree", "--json")
    if name in BASELINES:
        unpack(BASELINES[name], folder)
        views["compare"] = _call("compare", BASELINES[name], name, "--json")
    verification = verify_run(name, **_open_judge(name, folder))
    views["verify"] = verification.model_dump(mode="json")
    for time_of_labels in ("when", "first"):
        views["verify"]["labels"]["current"].pop(time_of_labels, None)
    if views["verify"]["labels"]["verified"]:
        views["verify"]["labels"]["verified"].pop("when")
    views["alterations"] = list(alterations(localjudge.Run.open(name)))
    if name in STOPPED_BY_SCORES:
        return views
    _call("label", name, "--out", "sheet.csv", "--sample", "12", "--seed", "4",
          "--annotator", "dora")  # fmt: skip
    views["sheet"] = (folder / "sheet.csv").read_text(encoding="utf-8-sig")
    return views


def _call(*arguments: str) -> Any:
    """Return the output of a command, as values if it is JSON."""
    output = io.StringIO()
    with redirect_stdout(output):
        try:
            main(list(arguments))
        except SystemExit as ended:
            code = ended.code
    text = output.getvalue()
    if "--json" in arguments:
        return {"exit_code": code, "output": json.loads(text)}
    return text


def _freeze(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        work = folder / f"making-{name}"
        work.mkdir()
        os.environ["LOCALJUDGE_HOME"] = str(work / "home")
        MAKERS[name](work)
        _forget_machine(work / name / "manifest.json")
        (work / name / "run.lock").unlink(missing_ok=True)
        with tarfile.open(ARCHIVES / f"{name}.tar.xz", "w:xz", preset=9) as archive:
            archive.add(work / name, name, filter=_without_owner)
    for name in names:
        work = folder / f"looking-{name}"
        work.mkdir()
        os.environ["LOCALJUDGE_HOME"] = str(work / "home")
        unpack(name, work)
        os.chdir(work)
        text = json.dumps(look(name, work), indent=1, ensure_ascii=False)
        (VIEWS / f"{name}.json.xz").write_bytes(lzma.compress(text.encode()))


def _forget_machine(manifest: Path) -> None:
    content = json.loads(manifest.read_text(encoding="utf-8"))
    content["environment"]["host"] |= {"node": "", "release": "", "version": ""}
    manifest.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    import sys

    with tempfile.TemporaryDirectory(prefix="localjudge-frozen-") as made:
        _freeze(Path(made), sys.argv[1:] or list(MAKERS))
