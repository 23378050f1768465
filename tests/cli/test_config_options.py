import json
from pathlib import Path
from typing import Any

import pytest

import localjudge
from tests.cli.conftest import Call, write_rows

pytestmark = pytest.mark.engine

CONFIG_FILE = """\
data = "data.jsonl"
metrics = ["hit_rate@1", "recall@1"]
out = "run"
gates = ["hit_rate@1>=0.9"]
"""
LENIENT = f'{CONFIG_FILE}undecided = "pass"\n'


@pytest.fixture(autouse=True)
def config() -> None:
    write_rows(
        "data.jsonl",
        {"id": "a", "retrieved_contexts": ["x", "y"], "reference_contexts": ["x"]},
    )
    Path("localjudge.toml").write_text(CONFIG_FILE, encoding="utf-8")


def manifest(run: str) -> Any:
    return json.loads(Path(run, "manifest.json").read_text(encoding="utf-8"))


def test_run_reads_the_suite_of_the_folder(call: Call) -> None:
    """One sample of 1 leaves the gate at .9 undecided: exit code 3."""
    code, output, errors = call("run", "--json")
    summary = json.loads(output)
    assert code == 3
    assert list(summary["metrics"]) == ["hit_rate@1", "recall@1"]
    assert summary["gates"][0]["outcome"] == "undecided"
    assert "settings from localjudge.toml" in errors


def test_the_command_line_wins(call: Call) -> None:
    arguments = (
        "run",
        "--metrics",
        "hit_rate@1",
        "--gate",
        "hit_rate@1>=0.01",
        "--out",
        "other",
        "--json",
    )
    code, output, _ = call(*arguments)
    summary = json.loads(output)
    assert (code, list(summary["metrics"])) == (0, ["hit_rate@1"])
    assert [gate["gate"] for gate in summary["gates"]] == ["hit_rate@1>=0.01"]
    assert not Path("run").exists()


def test_a_suite_does_not_change_the_signature(call: Call) -> None:
    code, _, errors = call("run", "--config", "none")
    assert (code, "no data file" in errors) == (1, True)
    typed = ("data.jsonl", "--config", "none", "--metrics", "hit_rate@1,recall@1", "--out", "typed")
    assert [call("run", *arguments, "--quiet")[0] for arguments in (typed, ())] == [0, 3]
    assert manifest("run")["signature"] == manifest("typed")["signature"]


@pytest.mark.parametrize("key", ["markdown", "junit"])
def test_a_file_of_the_user_is_replaced_only_by_name(key: str, call: Call) -> None:
    file = Path("notes")
    arguments = ("run", "--quiet")
    file.write_text("mine\n", encoding="utf-8")
    Path("localjudge.toml").write_text(f'{LENIENT}{key} = "notes"\n', encoding="utf-8")
    code, _, errors = call(*arguments)
    assert (code, file.read_text(encoding="utf-8")) == (1, "mine\n")
    assert f"{key} = notes would replace" in errors
    assert f"type --{key}" in errors
    file.unlink()
    assert [call(*arguments)[0] for _ in range(2)] == [0, 0]
    file.write_text("mine\n", encoding="utf-8")
    Path("localjudge.toml").write_text(LENIENT, encoding="utf-8")
    assert call(*arguments, f"--{key}", "notes")[0] == 0
    assert "localjudge" in file.read_text(encoding="utf-8")


def test_a_folder_without_a_run_is_not_written_to(call: Call) -> None:
    Path("src").mkdir()
    Path("src/main.py").write_text("mine\n", encoding="utf-8")
    Path("localjudge.toml").write_text(CONFIG_FILE.replace('"run"', '"src"'), encoding="utf-8")
    assert call("run", "--quiet")[0] == 1
    assert [path.name for path in Path("src").iterdir()] == ["main.py"]


def test_a_suite_that_the_user_names_reads_elsewhere_and_writes_below_its_folder(
    call: Call, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    Path("data.jsonl").rename(outside / "data.jsonl")
    config = LENIENT.replace("data.jsonl", str(outside / "data.jsonl"))
    for text, named, code in (
        (config, (), 1),
        (config, ("--config", "localjudge.toml"), 0),
        (config.replace('"run"', f'"{outside}/run"'), ("--config", "localjudge.toml"), 1),
    ):
        Path("localjudge.toml").write_text(text, encoding="utf-8")
        assert call("run", *named, "--quiet")[0] == code
    assert Path("run/summary.json").is_file()
    assert not (outside / "run").exists()


JUDGED = {"retrieved_contexts": ["It rains."], "response": "It snows. It hails."}


def test_every_view_names_a_suite_that_supplies_answers_or_labels(call: Call) -> None:
    """A foreign config could supply answers that no judge gave."""
    write_rows("data.jsonl", *({"id": str(number), **JUDGED} for number in range(3)))
    Path("localjudge.toml").write_text(
        'data = "data.jsonl"\nmetrics = ["faithfulness"]\n', encoding="utf-8"
    )
    assert call("run", "--quiet", "--out", "evil")[0] == 0
    config = 'reuse = ["evil"]\nout = "run"\nmarkdown = "m.md"\njunit = "j.xml"\nreport = true\n'
    config += 'gates = ["faithfulness<=0.9"]\ndata = "data.jsonl"\nmetrics = ["faithfulness"]\n'
    Path("localjudge.toml").write_text(config, encoding="utf-8")
    origin = "2 of 2 answers were reused from evil"
    assert origin in " ".join(call("run", "--quiet")[1].split())
    for file in ("m.md", "j.xml", "run/report.html"):
        assert origin in Path(file).read_text(encoding="utf-8"), file
    Path("localjudge.toml").write_text(
        config.replace('reuse = ["evil"]\n', "").replace('"run"', '"evil"')
    )
    [statement] = [
        row for row in map(json.loads, Path("evil/verdicts.jsonl").read_text().splitlines())
    ][:1]
    write_rows(
        "sheet.jsonl",
        {**_sheet_row("evil", statement["text"]), "human": 1, "annotator": "ann"},
    )
    assert call("label", "evil", "--read", "sheet.jsonl")[0] == 0
    origins = json.loads(call("run", "--json")[1])["origins"]
    printed = " ".join(call("show", "evil")[1].split())
    assert all(origin in printed for origin in origins)
    assert origins == [
        "2 of 2 answers were stored by earlier commands",
        "1 label of ann stored before the last command",
    ]


def _sheet_row(run: str, text: str) -> dict[str, Any]:
    localjudge.Run.open(run).label(f"{run}-labels.jsonl", sample=50)
    rows = map(json.loads, Path(f"{run}-labels.jsonl").read_text(encoding="utf-8").splitlines())
    return next(row for row in rows if row["text"] == text)
