import csv
import threading
from pathlib import Path
from typing import Any

import pytest
from command_line import printed_slices

from localjudge import DataError, InputError, Run, ScriptedEngine, evaluate
from localjudge.dataset import load

EMPTY: list[str | None] = ["", "  ", None]


@pytest.mark.parametrize(
    ("content", "answers"),
    [
        ('question,answer\na, "b, c"\n', ["b, c"]),
        ('question, answer\n"a", "b, c"\n"d", "e"\n', ["b, c", "e"]),
        ('question; answer\na;   "b; ""c"""\n', ['b; "c"']),
        ('"question", "answer"\n"a", "two\nlines"\n', ["two\nlines"]),
        ("question,answer\na, b\n", [" b"]),
        ('question,answer\na, "To be" or not\n', [' "To be" or not']),
        ('question,answer\na,"b, "\n', ["b, "]),
        ('question,answer\na," ""b"" c"\n', [' "b" c']),
    ],
)
def test_a_quote_may_follow_a_space(tmp_path: Path, content: str, answers: list[str]) -> None:
    (tmp_path / "a.csv").write_text(content)
    assert [sample.response for sample in load(tmp_path / "a.csv").samples] == answers


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        ("question, as asked;answer, final;contexts\nWhen?;In 1962.;It was.\n", 3),
        ("answer;question, q;answer, final;contexts, best, first\n1;When?;In 1962.;It was.\n", 4),
        ("question; as asked,answer; final,contexts\nWhen?,In 1962.,It was.\n", 3),
        ("question, asked\tanswer, final\tcontexts\nWhen?\tIn 1962.\tIt was.\n", 3),
        ("Frage, kurz;answer;contexts\nWann?;Im Mai, am 3.;Es war im Mai, am 3.\n", 3),
        ("question;answer, final\nWhen?;On May 3, 1962.\n", 2),
        ('question,"contexts; best",answer\nWhen?,It was.,In May; in 1962.\n', 3),
        ("question,answer,contexts; best\nWhen?,It was.\nWho?,Ann.,It was Ann.\n", 3),
    ],
)
def test_the_delimiter_is_the_one_that_fits_the_rows(
    tmp_path: Path, content: str, columns: int
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(content)
    data = load(path)
    assert len(data.mapping) + len(data.unused[0]) == columns


def test_a_record_with_too_many_cells_names_the_delimiter(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("question,answer\nWhen, then?,In 1962.\n")
    with pytest.raises(DataError, match=r"a\.csv:2: found a record of 3.*comma.*2 cells.*sep="):
        load(path)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_empty_cells_at_the_end_may_be_missing_or_too_many(
    tmp_path: Path, delimiter: str, end: str
) -> None:
    rows = [
        ["question", "answer", "contexts", "comment"],
        ["When?", "In 1962.", "It was in 1962.", "good"],
        ["Where?", "In Ulm.", "It is in Ulm."],
        ["Who?", "Ann."],
        ["Why?", "So.", "So it is.", "", "", " "],
    ]
    path = tmp_path / "a.csv"
    path.write_text(end.join(delimiter.join(row) for row in rows), newline="")
    data = load(path)
    assert [sample.response for sample in data.samples] == ["In 1962.", "In Ulm.", "Ann.", "So."]
    assert data.samples[2].retrieved_contexts is None
    assert data.short_rows == 2


@pytest.mark.parametrize("blank", [",,", ";;;", ",", " , ,", '"",,'])
def test_a_row_of_empty_cells_is_a_blank_line(tmp_path: Path, blank: str) -> None:
    """Spreadsheets save them below a table whose cells were once used."""
    delimiter = ";" if ";" in blank else ","
    rows = ["question,answer,contexts", "When?,In 1962.,It was.", "Where?,In Ulm.,It is."]
    lines = [row.replace(",", delimiter) for row in rows]
    path = tmp_path / "a.csv"
    path.write_text("\n".join([*lines[:2], blank, lines[2], blank, blank, ""]))
    assert [sample.response for sample in load(path).samples] == ["In 1962.", "In Ulm."]


def test_the_limit_of_the_csv_module_is_restored(tmp_path: Path) -> None:
    """The limit is the process's: a cell of 200,000 characters is read, the host's limit stays."""
    (tmp_path / "a.csv").write_text(f"question,answer\na,{'b' * 200_000}\nc,d\n")
    (tmp_path / "b.csv").write_text('question\n"a\n')
    before = csv.field_size_limit(1_000)
    try:
        assert len(load(tmp_path / "a.csv").samples[0].response or "") == 200_000
        assert csv.field_size_limit() == 1_000
        with pytest.raises(DataError):
            load(tmp_path / "b.csv")
        assert csv.field_size_limit() == 1_000
    finally:
        csv.field_size_limit(before)


def test_threads_read_large_cells_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("question,answer\n" + f"a,{'b' * 140_000}\n" * 20)
    before = csv.field_size_limit()
    sizes: list[int] = []

    def read() -> None:
        sizes.append(len(load(tmp_path / "a.csv").samples))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sizes == [20] * 4
    assert csv.field_size_limit() == before


def as_file(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "rows.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def rows_with_topics(topics: list[str | None]) -> list[dict[str, Any]]:
    rows = []
    for number, topic in enumerate(topics):
        rows.append(
            {
                "id": f"s{number}",
                "response": "It rains.",
                "retrieved_contexts": '["It rains."]',
                "topic": topic,
            }
        )
    return rows


def score(source: Any, **options: Any) -> Run:
    engine = ScriptedEngine({}, default=0.9)
    return evaluate(
        source, metrics=["faithfulness"], engine=engine, out=False, progress=False, **options
    )


@pytest.mark.parametrize("empty", EMPTY)
def test_an_empty_cell_is_a_missing_value_of_a_slice(tmp_path: Path, empty: str | None) -> None:
    rows = rows_with_topics(["a", "a", empty, empty])
    for source in (rows, as_file(tmp_path, rows)):
        parts = printed_slices(score(source), "topic")
        assert [(part["value"], part["samples"]) for part in parts] == [("a", 2), (None, 2)]


@pytest.mark.parametrize("empty", [*EMPTY, "N/A"])
def test_an_empty_cell_is_no_cluster(tmp_path: Path, empty: str | None) -> None:
    rows = rows_with_topics(["a", "b", empty, empty])
    sources: list[Any] = [as_file(tmp_path, rows)]
    if empty != "N/A":  # in Python, a text
        sources.append(rows)
    for source in sources:
        with pytest.raises(InputError, match=r"'s2' has no value .*'topic'"):
            score(source, cluster_by="topic")


@pytest.mark.parametrize("empty", EMPTY)
def test_a_gate_on_a_slice_ignores_empty_cells(tmp_path: Path, empty: str | None) -> None:
    rows = rows_with_topics(["a", "a", empty])
    results = []
    for source in (rows, as_file(tmp_path, rows)):
        checked = score(source).check(["faithfulness[topic=a]>=0.5"])
        results.append(checked.model_dump(exclude={"run"}))
    assert results[0] == results[1]
