"""The answers of two columns, judged on the same questions and texts."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge import DataError, InputError, RunDirectoryError, RunPair, ScriptedEngine

COMPARISON = "comparison.json"

Row = dict[str, Any]
MAPPING = {"response": "answer_b"}
FAITHFUL = ["faithfulness"]


def row(name: str, before: str | None, after: str | None, **more: Any) -> Row:
    texts = {"question": f"Why {name}?", "contexts": ["It rains."]}
    return {"id": name, **texts, "answer_a": before, "answer_b": after, **more}


ROWS = [
    row("q1", "It is red.", "It rains."),
    row("q2", "It rains.", "It rains."),
    row("q3", "It rains. It is red.", "It rains. It pours."),
]


def engine() -> ScriptedEngine:
    return ScriptedEngine({"It rains.": 0.9, "It pours.": 0.8}, default=0.1)


def judged(rows: Any, out: Any = False, **options: Any) -> RunPair:
    options = {"mapping": MAPPING, "metrics": FAITHFUL, "engine": engine(), **options}
    return localjudge.evaluate_pair(rows, "answer_a", out=out, **options)


def without_id(rows: list[Row]) -> list[Row]:
    return [{key: value for key, value in each.items() if key != "id"} for each in rows]


def test_both_columns_become_runs_on_the_same_questions(tmp_path: Path) -> None:
    """Scores 0, 1 and .5 against 1, 1 and 1: means .5 and 1."""
    pair = judged(ROWS, tmp_path / "cmp")
    assert json.loads((tmp_path / "cmp" / COMPARISON).read_text())["run"] == "answer_b"
    assert pair.baseline.directory == tmp_path / "cmp" / "answer_a"
    assert [score.score for score in pair.baseline.scores] == [0, 1, 0.5]
    assert [score.score for score in pair.run.scores] == [1, 1, 1]
    change = pair.comparison.metrics["faithfulness"]
    assert change.scores is not None
    assert change.scores.difference == 0.5
    assert pair.comparison.samples.by_id == 3
    assert [sample.user_input for sample in pair.run.samples] == [
        sample.user_input for sample in pair.baseline.samples
    ]
    assert RunPair.open(tmp_path / "cmp").run == pair.run


@pytest.mark.parametrize("kind", ["csv", "rows", "iterator", "without id"])
def test_the_same_runs_from_any_form_of_the_data(tmp_path: Path, kind: str) -> None:
    data: Any = ROWS
    if kind == "iterator":
        data = iter(ROWS)
    if kind == "without id":
        data = without_id(ROWS)
    if kind == "csv":
        data = tmp_path / "data.csv"
        with data.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["id", "question", "contexts", "answer_a", "answer_b"])
            writer.writeheader()
            for each in ROWS:
                writer.writerow({**each, "contexts": each["contexts"][0]})
    pair = judged(data)
    assert [score.score for score in pair.baseline.scores] == [0, 1, 0.5]
    assert [score.score for score in pair.run.scores] == [1, 1, 1]
    assert pair.comparison.samples.by_id == 3


def test_generated_ids_depend_on_the_question_and_not_on_the_answers() -> None:
    """So another column of the same file has the same ids. Equal questions are numbered."""
    rows = without_id([*ROWS, ROWS[0]])
    ids = [sample.id for sample in judged(rows).run.samples]
    changed = [{**each, "answer_b": f"{each['answer_b']} It pours."} for each in rows]
    assert [sample.id for sample in judged(changed).run.samples] == ids
    assert ids[3] == f"{ids[0]}-2"


@pytest.mark.parametrize("missing", [None, "", "  \n"])
@pytest.mark.parametrize("column", ["answer_a", "answer_b"])
def test_row_without_one_answer_is_left_out_counted_and_named(
    column: str, missing: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [*ROWS, {**row("q4", "It rains.", "It rains."), column: missing}]
    pair = judged(rows)
    for run in (pair.baseline, pair.run):
        assert [sample.id for sample in run.samples] == ["q1", "q2", "q3"]
        assert run.summary.skipped_rows == 1
    assert "1 row left out" in caplog.text
    assert "q4" in caplog.text


def test_row_without_id_is_named_by_its_place(caplog: pytest.LogCaptureFixture) -> None:
    rows = without_id([row("q0", None, "It rains."), *ROWS])
    judged(rows)
    assert "missing: rows" in caplog.text


def test_word_for_a_missing_answer_in_a_csv_is_no_answer(tmp_path: Path) -> None:
    file = tmp_path / "data.csv"
    file.write_text(
        "question,contexts,answer_a,answer_b\nWhy?,It rains.,NaN,It rains.\n"
        "How?,It rains.,It pours.,It rains.\n"
    )
    pair = judged(file)
    assert pair.run.summary.samples == 1


def test_no_row_with_both_answers_is_an_error() -> None:
    with pytest.raises(DataError, match="both answers"):
        judged([row("q1", "It rains.", None), row("q2", None, "It rains.")])


def test_bad_answer_of_either_column_is_refused_or_skipped() -> None:
    for column in ("answer_a", "answer_b"):
        rows = [*ROWS, {**row("q4", "It rains.", "It rains."), column: ["a", "list"]}]
        with pytest.raises(DataError, match=f"{column}.*a list of 2"):
            judged(rows)
        pair = judged(rows, skip_bad_rows=True)
        assert pair.run.summary.samples == pair.baseline.summary.samples == 3
        assert pair.run.summary.skipped_rows == pair.baseline.summary.skipped_rows == 1


def test_equal_answers_are_asked_once() -> None:
    """The second run reuses all answers about the sentence that both columns have."""
    asked = engine()
    pair = judged([row("q1", "It rains.", "It rains.")], engine=asked)
    assert len(asked.asked) == 1
    answers = pair.run.manifest.environment.answers
    assert answers is not None
    assert sum(answers.reused.values()) == 1
    assert pair.comparison.samples.same_content == 1


@pytest.mark.parametrize(
    ("against", "options", "words"),
    [
        ("answer_b", {}, "answer_b"),
        ("answer_c", {}, "answer_c"),
        ("", {}, "against"),
        ("answer_a", {"mapping": {}}, "response"),
        ("answer_a", {"metrics": ["context_relevancy"]}, "context_relevancy"),
        ("answer_a", {"metrics": ["faithfulness", "context_relevancy"]}, "context_relevancy"),
        ("answer_a", {"until": "faithfulness>=0.5"}, "until"),
        ("answer_a", {"budget": "5m"}, "budget"),
        ("answer_a", {"shards": "1/2"}, "shards"),
    ],
)
def test_what_two_columns_cannot_have_is_refused(
    against: str, options: dict[str, Any], words: str
) -> None:
    arguments = {"mapping": MAPPING, "engine": engine(), **options}
    with pytest.raises(InputError, match=words):
        localjudge.evaluate_pair(ROWS, against, out=False, **arguments)


def test_known_name_of_an_answer_may_be_the_baseline() -> None:
    """`response` and `answer` are both names of the response; the baseline is not taken for it."""
    rows = [{**row("q1", None, None), "response": "It rains.", "answer": "It is red."}]
    pair = localjudge.evaluate_pair(rows, "answer", metrics=FAITHFUL, engine=engine(), out=False)
    assert pair.run["faithfulness"].mean == 1
    assert pair.baseline["faithfulness"].mean == 0


def test_answer_inside_an_object_may_be_the_baseline() -> None:
    rows = [
        {**each, "systems": {"old": each["answer_a"], "new": each["answer_b"]}} for each in ROWS
    ]
    pair = localjudge.evaluate_pair(
        rows,
        "systems.old",
        mapping={"response": "systems.new"},
        metrics=FAITHFUL,
        engine=engine(),
        out=False,
    )
    assert pair.baseline["faithfulness"].mean == 0.5
    assert pair.run["faithfulness"].mean == 1


def test_default_metrics_are_those_of_the_response() -> None:
    pair = judged([{**each, "reference": "It rains."} for each in ROWS], metrics=None)
    assert set(pair.run) == set(pair.baseline)
    assert "faithfulness" in pair.run
    assert "context_recall" not in pair.run


def test_sample_and_shard_choose_the_same_rows_of_both() -> None:
    rows = without_id([row(f"q{number}", "It rains.", "It pours.") for number in range(20)])
    for options in ({"sample": 5}, {"limit": 5}, {"shard": "1/2"}):
        pair = judged(rows, **options)
        ids = [sample.id for sample in pair.run.samples]
        assert ids == [sample.id for sample in pair.baseline.samples]
        assert 0 < len(ids) < 20


def test_shards_are_reused_for_the_whole_comparison(tmp_path: Path) -> None:
    rows = [row(f"q{number}", f"It is {number}.", f"It rains {number}.") for number in range(9)]
    shards = [tmp_path / "one", tmp_path / "two"]
    for number, shard in enumerate(shards, 1):
        judged(rows, shard, shard=f"{number}/2")
    asked = engine()
    pair = judged(rows, tmp_path / "all", engine=asked, reuse=shards)
    assert pair.run.summary.samples == 9
    assert not asked.asked


def test_interrupted_comparison_resumes_without_a_repeated_question(tmp_path: Path) -> None:
    """At every question: the second process asks the rest, and leaves the same files."""
    whole = engine()
    expected = judged(ROWS, tmp_path / "whole", engine=whole)
    names = ["scores.jsonl", "verdicts.jsonl", "summary.json"]
    for most in range(len(whole.asked)):
        out = tmp_path / str(most)
        first = _Interrupted(most)
        with pytest.raises(KeyboardInterrupt):
            judged(ROWS, out, engine=first)
        second = engine()
        pair = judged(ROWS, out, engine=second)
        assert len(first.asked) - 1 + len(second.asked) == len(whole.asked)
        for run, same in ((pair.run, expected.run), (pair.baseline, expected.baseline)):
            for name in names:
                content = (run.directory / name).read_bytes()
                assert content == (same.directory / name).read_bytes()


class _Interrupted(ScriptedEngine):
    def __init__(self, most: int) -> None:
        super().__init__({"It rains.": 0.9, "It pours.": 0.8}, default=0.1)
        self._most = most

    def _answer(self, request: Any) -> Any:
        if len(self.asked) > self._most:
            raise KeyboardInterrupt
        return super()._answer(request)


def test_directory_of_other_columns_or_a_run_is_refused_before_judging(tmp_path: Path) -> None:
    judged(ROWS, tmp_path / "cmp")
    rows = [{**each, "answer_c": "It pours."} for each in ROWS]
    asked = engine()
    with pytest.raises(RunDirectoryError, match="answer_b with answer_a"):
        judged(rows, tmp_path / "cmp", mapping={"response": "answer_c"}, engine=asked)
    with pytest.raises(RunDirectoryError, match="contains a run"):
        judged(ROWS, tmp_path / "cmp" / "answer_a", engine=asked)
    with pytest.raises(RunDirectoryError, match="no run"):
        localjudge.evaluate(rows, out=tmp_path / "cmp", engine=asked)
    assert not asked.asked


def test_gate_on_the_difference_is_decided_with_the_baseline_column(tmp_path: Path) -> None:
    pair = judged([row(f"q{number}", "It is red.", "It rains.") for number in range(30)])
    assert pair.check(["faithfulness.delta>=0.5"])
    assert not pair.check(["faithfulness.delta<=0.5"])
    assert pair.report(tmp_path / "page.html").exists()


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_default_directory_is_named_after_the_data_and_both_answers(in_folder: Path) -> None:
    file = in_folder / "answers.jsonl"
    file.write_text("\n".join(map(json.dumps, ROWS)))
    pair = judged(file, None)
    assert pair.directory.parent.name == "runs"
    assert pair.directory.name.startswith("answers-")
    assert judged(file, None).directory == pair.directory
    file.write_text("\n".join(map(json.dumps, ROWS[:2])))
    assert judged(file, None).directory != pair.directory


def test_both_runs_are_verified(tmp_path: Path) -> None:
    pair = judged(ROWS, tmp_path / "cmp")
    assert pair.verify(engine=engine())
    scores = pair.baseline.directory / "scores.jsonl"
    scores.write_text(scores.read_text().replace("q1", "q9"))
    result = pair.verify(engine=engine())
    assert not result
    assert result.run
    assert not result.baseline


def test_one_sheet_labels_the_difference(tmp_path: Path) -> None:
    """A has "It is red." in 30 pairs (label 0) and nothing in B, of 60: the difference is .5 * .5.

    Of A's pair "It rains. It is red." and B's "It rains.", the first counts 1/2, then 1.
    """
    rows = []
    for number in range(60):
        answer = "It rains."
        if number % 2:
            answer = "It rains. It is red."
        rows.append(row(f"q{number}", answer, "It rains."))
    pair = judged(rows, tmp_path / "cmp")
    sheet = pair.label(tmp_path / "sheet.csv", sample=100)
    lines = list(csv.reader(sheet.read_text(encoding="utf-8-sig").splitlines()))
    human = lines[1].index("human")
    for line in lines[2:]:
        line[human] = str(int("red" not in line[0]))
    assert len(lines) - 2 == 60  # "It rains." of the pairs with two statements, and "It is red."
    with sheet.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(lines)
    assert pair.read_labels(sheet, "ann").new == 60
    corrected = pair.comparison.metrics["faithfulness"].corrected
    assert corrected is not None
    assert corrected.difference == pytest.approx(0.25)
    with pytest.raises(InputError, match="label"):
        pair.label(tmp_path / "more.html", sample=100)
