import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from localjudge import InputError, Run, RunDirectoryError, ScriptedEngine, evaluate
from tests.conftest import ScriptedRun
from tests.report.conftest import HOSTILE, PageReader, check_policy, check_script

ROW = {
    "id": "a",
    "user_input": "Q?",
    "retrieved_contexts": ["Rain. Snow."],
    "reference": "It rains. It snows.",
}
TAGS = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "a",
        "header",
        "main",
        "footer",
        "section",
        "p",
        "h1",
        "h2",
        "h3",
        "article",
        "q",
        "mark",
    ),
    *("strong", "code", "bdi", "span", "dl", "div", "dt", "dd", "ul", "li", "noscript", "script"),
    *("table", "thead", "tbody", "tr", "th", "td", "svg", "line", "circle", "rect", "text"),
}


def in_words(html: str) -> str:
    return " ".join(PageReader(html).text.split())


def html(run: Run, **options: Any) -> str:
    return run.report(**options).read_text(encoding="utf-8")


@pytest.fixture
def hostile_page(tmp_path: Path) -> str:
    """Every text field, the id, group, reason, judge name and data file name contain attacks."""
    text = " ".join(HOSTILE)
    row = {
        "id": f"id {text}",
        **dict.fromkeys(("user_input", "reference"), text),
        "retrieved_contexts": [text],
    }
    engine = ScriptedEngine({}, default=0.2)
    rows = [{**row, "doc": "</script><b>group"}]
    run = evaluate(
        rows, engine=engine, metrics=["context_recall"], out=tmp_path / "run", cluster_by="doc"
    )
    card = run.judge.model_copy(update={"name": HOSTILE[0], "caution": HOSTILE[2]})
    manifest = run.manifest.with_environment(sources=["dir/<script>owned()<\\script>\u202e.jsonl"])
    name = f"{HOSTILE[0]}\u202e"
    metrics = {**run.summary.metrics, name: run.summary.metrics["context_recall"]}
    summary = run.summary.model_copy(update={"judge": card, "metrics": metrics})
    return html(replace(run, summary=summary, manifest=manifest))


def test_no_text_of_the_user_is_markup(hostile_page: str) -> None:
    read = PageReader(hostile_page)
    assert {tag for tag, _ in read.elements} <= TAGS
    attributes = {name for _, attrs in read.elements for name in attrs}
    assert not {name for name in attributes if name.startswith("on") or name in {"src", "style"}}
    links = {attrs["href"] or "" for _, attrs in read.elements if "href" in attrs}
    assert "#samples" in links
    assert all(re.fullmatch(r"#samples|#still-[0-9-]+", link) for link in links)
    kinds = [None, "application/json", *["application/octet-stream"] * 2, "module"]
    assert [attrs.get("type") for _, attrs, _ in read.raw] == kinds


def test_the_page_file_has_no_terminal_controls(hostile_page: str) -> None:
    text = " ".join(HOSTILE)
    (details,) = PageReader(hostile_page).unpacked("details")
    assert details["texts"] == {
        "user_input": text,
        "reference": text,
        "retrieved_contexts": [{"text": text}],
    }
    assert not re.findall(
        "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]",
        hostile_page,
    )
    assert "\\u202e" in PageReader(hostile_page).text
    assert "About the judge: <img src=x onerror=owned()>" in in_words(hostile_page)


def test_the_policy_allows_only_a_script_without_markup_and_network(run: Run) -> None:
    check_policy(html(run))
    check_script(html(run))


def test_the_page_is_private_and_independent_of_location(run: Run, tmp_path: Path) -> None:
    copy = tmp_path / "copy" / run.directory.name
    shutil.copytree(run.directory, copy)
    first = run.report().read_bytes()
    assert Run.open(copy).report().read_bytes() == first
    elsewhere = run.report(out=tmp_path / "elsewhere.html")
    assert (elsewhere.read_bytes(), elsewhere.stat().st_mode & 0o777) == (first, 0o600)


def test_the_first_screen_matches_the_summary(scripted_run: ScriptedRun) -> None:
    """One of two statements is attributed: 1/2; the interval of one score is [0, 1] inside."""
    run = scripted_run("run", [ROW, {**ROW, "id": "b", "reference": None}], {"It snows.": 0.1})
    read = in_words(html(run, gates=["context_recall>=0.9", "context_recall>=0"]))
    metric = run.summary.metrics["context_recall"]
    assert metric.ci95 is not None
    assert f"0.500 at least 0 at least 0.9 01 {metric.ci95[0]:.3f} to {metric.ci95[1]:.3f}" in read
    assert "undecided context recall is at least 0.9 context_recall>=0.9 " in read
    assert "passed context recall is at least 0 context_recall>=0 " in read
    assert read.index("How this was measured") < read.index(f"Signature{run.summary.signature}")
    assert "2 samples, judged by scripted" in read


def test_the_expected_mean_is_beside_the_mean(scripted_run: ScriptedRun) -> None:
    """Statements of .9 and .4, and of .6: scores 1/2 and 1, expected .65 and .6: mean .625."""
    rows = [{**ROW, "response": "It rains. It snows."}, {**ROW, "id": "b", "response": "It hails."}]
    script = {"It rains.": 0.9, "It snows.": 0.4, "It hails.": 0.6}
    run = scripted_run("run", rows, script, metrics=["faithfulness"])
    read = PageReader(html(run))
    cells = [attrs.get("data-label") for tag, attrs in read.elements if tag == "td"]
    assert cells[:4] == ["Mean", "95 % interval", "Expected", "Distribution"]
    words = " ".join(read.text.split())
    assert "Metric Mean 95 % interval Expected Distribution Scored" in words
    low, high = run["faithfulness"].ci95 or (0.0, 0.0)
    assert f"{low:.3f} to {high:.3f} 0.625" in words
    certain = scripted_run("certain", rows, dict.fromkeys(script, 1.0), metrics=["faithfulness"])
    assert "Expected" not in in_words(html(certain))


def test_drawings_show_mean_interval_and_distribution(scripted_run: ScriptedRun) -> None:
    """Scores 0, 1/2 and 1 on 200 units: the mean at 100; three of ten bins have one score each."""
    rows = [
        {**ROW, "id": str(at), "reference": text}
        for at, text in enumerate(["It rains.", "It rains. It snows.", "It snows."])
    ]
    run = scripted_run("run", rows, {"It rains.": 0.0}, metrics=["context_recall"])
    read = PageReader(html(run))
    assert [attrs["cx"] for tag, attrs in read.elements if tag == "circle"] == ["100.0"]
    heights = [attrs["height"] for tag, attrs in read.elements if tag == "rect"]
    assert heights == ["32.0", "0", "0", "0", "0", "32.0", "0", "0", "0", "32.0"]
    labels = [attrs["aria-label"] for tag, attrs in read.elements if tag == "svg"]
    assert labels[1] == "samples by tenth of the score: 1, 0, 0, 0, 0, 1, 0, 0, 0, 1"


def test_list_and_details_contain_every_sample(run: Run) -> None:
    read = PageReader(html(run))
    assert [row[0] for row in read.unpacked("list")] == [sample.id for sample in run.samples]
    assert [row[3] for row in read.unpacked("list")] == [[0.5, 0.0], [0.0, 0.0], ["u", 0.0]]
    assert [row[4] for row in read.unpacked("list")] == [[0.5, 0.1], [0.1, 0.1], [None, 0.1]]
    good = read.unpacked("details")[0]
    assert good["metrics"]["context_recall"] == {
        "outcome": "1/2 = 0.500",
        "why": '1 of 2 attributed; not attributed: "It is red."',
        "verdicts": [
            ["reference", None, 0, 9, 1, 0.9, None],
            ["reference", None, 10, 20, 0, 0.1, None],
        ],
        "evidence": [[[0, 0, 5, True, "evidence [1] 0.840", "Rain."]], []],
    }


def test_blocks_follow_each_other(
    scripted_run: ScriptedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each block has the number of its first sample: a sample is found without unpacking others."""
    monkeypatch.setattr("localjudge.report.page_data._SAMPLES_OF_A_LIST", 3)
    monkeypatch.setattr("localjudge.report.page_data._LETTERS_OF_DETAILS", 1)
    run = scripted_run("run", [{**ROW, "id": str(number)} for number in range(7)], {})
    blocks = [attrs for _, attrs, _ in PageReader(html(run)).raw]
    firsts = {
        kind: [int(attrs["data-first"] or 0) for attrs in blocks if attrs.get("data-kind") == kind]
        for kind in ("list", "details")
    }
    assert firsts == {"list": [0, 3, 6], "details": list(range(7))}


@pytest.mark.parametrize("column", ["sample_id", "metric"])
def test_a_verdict_without_a_score_is_refused(scripted_run: ScriptedRun, column: str) -> None:
    run = scripted_run("run", [ROW], {})
    file = run.directory / "verdicts.jsonl"
    row = json.loads(file.read_text(encoding="utf-8").splitlines()[0])
    with file.open("a", encoding="utf-8") as rows:
        rows.write(json.dumps({**row, column: "unknown"}) + "\n")
    with pytest.raises(RunDirectoryError, match=r"unknown|verdicts\.jsonl"):
        run.report()


@pytest.mark.parametrize("signs", ["", "a😀", "é", "\uffff", "👩‍👩‍👧𝄞𝄞", "\U00010000"])
def test_positions_count_utf16_units(scripted_run: ScriptedRun, signs: str) -> None:
    """In UTF-16 code units of two bytes; the text between two positions is the statement."""
    text = f"It rains {signs} here. It snows{signs} there.  {signs}It is {signs} cold."
    run = scripted_run("run", [{**ROW, "reference": text}], {}, metrics=["context_recall"])
    [sample] = PageReader(html(run)).unpacked("details")
    units = text.encode("utf-16-le")
    places = [values[2:4] for values in sample["metrics"]["context_recall"]["verdicts"]]
    shown = [units[2 * start : 2 * end].decode("utf-16-le") for start, end in places]
    assert shown == [verdict.text for verdict in run.verdicts]
    assert len(shown) == 3


def test_texts_shared_with_the_baseline_are_stored_once(scripted_run: ScriptedRun) -> None:
    rows = [{**ROW, "response": "Yes. No."}, {**ROW, "id": "b"}]
    old = scripted_run("old", rows, {"It snows.": 0.1}, metrics=["context_recall"])
    new = scripted_run(
        "new",
        [{**rows[0], "response": "No."}, {**rows[1], "id": "c"}],
        {},
        metrics=["context_recall"],
    )
    read = PageReader(html(new, baseline=old))
    assert [row[5] for row in read.unpacked("list")] == [[0.5], [0.5]]
    one, other = (sample["before"] for sample in read.unpacked("details"))
    assert (one["id"], one["texts"]) == ("a", {"response": "Yes. No."})
    assert (other["id"], other["texts"]) == ("b", {})
    assert one["metrics"]["context_recall"]["was"] == [[1, 1.0], [0, 0.1]]
    assert other["metrics"] == {"context_recall": {"score": 0.5, "was": [[1, 1.0], [0, 0.1]]}}
    assert "samples: 2 paired (1 by id, 1 by content), 1 with the same texts in both" in " ".join(
        read.text.split()
    )


def test_only_a_report_is_replaced(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text("{}")
    with pytest.raises(InputError, match=r"data\.jsonl is not a report"):
        run.report(out=data)
    with pytest.raises(InputError, match="is a directory"):
        run.report(out=tmp_path)
    (tmp_path / "link").symlink_to(run.report())
    with pytest.raises(RunDirectoryError, match="link is a link"):
        run.report(out=tmp_path / "link")
    with pytest.raises(InputError, match="cannot be written"):
        run.report(out=tmp_path / "none" / "report.html")
    assert data.read_text() == "{}"
