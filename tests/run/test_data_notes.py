"""What a run says of the data: columns taken and not used, metrics left out for want of which, and what to do."""

import io
import json
import logging
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge.engine import ScriptedEngine
from localjudge.errors import InputError
from localjudge.report.terminal import Lines
from localjudge.run.estimate import estimate

ROW: dict[str, Any] = {"question": "Why?", "contexts": ["Because it is so.", "It is."]}
DOCUMENT_METRICS = "document_recall_single_hit, document_recall_multi_hit, document_mrr, document_map, document_ndcg"


class Said:
    """What a run or an estimate of the data says, as notes and as warnings."""

    def __init__(self, data: Any, caplog: pytest.LogCaptureFixture, **options: Any) -> None:
        stream = io.StringIO()
        with caplog.at_level(logging.WARNING):
            estimate(data, engine=ScriptedEngine({}, default=0.9), progress=Lines(stream), **options)
        self.notes = stream.getvalue()
        self.warnings = [record.getMessage() for record in caplog.records]


def refusal(row: dict[str, Any], **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        estimate([row], engine=ScriptedEngine({}), **options)
    return str(caught.value)


def test_columns_that_are_not_used_are_named_once_for_all_rows(caplog: pytest.LogCaptureFixture) -> None:
    rows = [{**ROW, "zone": "z", "name": None}, {**ROW, "lang": "en", "name": ""}]
    said = Said(rows, caplog)
    assert said.notes.splitlines()[:2] == [
        "2 samples with user_input (column question), retrieved_contexts (column contexts); contexts: 2 a sample",
        "columns not used: lang, zone",
    ]
    assert said.warnings == []


def test_the_number_of_contexts_is_said_and_one_in_each_sample_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert "contexts: 1 to 2 a sample" in Said([ROW, {**ROW, "contexts": ["So."]}], caplog).notes
    said = Said([{**ROW, "contexts": "So. || It is."}] * 2, caplog)
    assert "contexts: 1 a sample" in said.notes
    warning = "every sample has exactly 1 context: if several stand in one text, context_separator splits it"
    assert said.warnings == [warning]


def test_cells_that_say_nothing_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    said = Said([{**ROW, "answer": word} for word in ("NaN", "NULL", "NaN", "It is so.")], caplog)
    assert "3 cells of answer say NULL, NaN: taken as missing" in said.notes


def test_an_object_in_which_a_column_was_found_is_used(caplog: pytest.LogCaptureFixture) -> None:
    said = Said([{"vars": {"query": "Why?", "lang": "en"}, "contexts": ["So."]}], caplog)
    assert "not used" not in said.notes


def test_the_column_of_the_groups_is_used(caplog: pytest.LogCaptureFixture) -> None:
    said = Said([{**ROW, "meta": {"book": "b"}, "zone": "z"}], caplog, cluster_by="meta.book")
    assert "columns not used: zone" in said.notes


def test_many_columns_are_not_all_listed(caplog: pytest.LogCaptureFixture) -> None:
    """13 columns in the order of the alphabet, 10 of them shown."""
    said = Said([{**ROW, **{f"c{number:02}": "x" for number in range(13, 0, -1)}}], caplog)
    assert "columns not used: c01, c02, c03, c04, c05, c06, c07, c08, c09, c10 and 3 more" in said.notes


def test_files_that_differ_are_named_with_their_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, extra in (("a", {"x": 1}), ("b", {}), ("c", {"y": 1}), ("d", {"x": 1}), ("e", {"x": 1}), ("f", {"x": 2})):
        Path(f"{name}.jsonl").write_text(json.dumps({**ROW, **extra}))
    said = Said([f"{name}.jsonl" for name in "abcdef"], caplog)
    assert "columns not used: x (a.jsonl, d.jsonl and 2 more); y (c.jsonl)" in said.notes


def test_metrics_are_left_out_for_want_of_what_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing in the data looks like it: that is no reason for a warning."""
    said = Said([{**ROW, "reference": "It is so.", "zone": "z"}], caplog)
    assert "no column for response, so left out: faithfulness, answer_correctness" in said.notes
    assert f"no column for reference_contexts, so left out: {DOCUMENT_METRICS}" in said.notes
    assert said.warnings == []


def test_what_else_the_data_is_enough_for_is_said_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """With question and contexts alone: one metric is computed, and two more could be."""
    said = Said([ROW], caplog)
    possible = "also possible with this data: context_relevancy, context_sufficiency (localjudge run --list-metrics)"
    assert said.notes.count(possible) == 1
    named = Said([ROW], caplog, metrics=["context_relevancy"])
    assert "also possible" not in named.notes


def test_a_column_s_name_cannot_play_with_the_terminal(caplog: pytest.LogCaptureFixture) -> None:
    said = Said([{**ROW, "gold\x1b[2J_standard": "It is so."}], caplog)
    assert r"columns not used: gold\x1b[2J_standard" in said.notes


def test_who_names_the_metrics_is_not_told_of_others(caplog: pytest.LogCaptureFixture) -> None:
    said = Said([{**ROW, "gold_standard": "It is so."}], caplog, metrics=["context_relevancy"])
    assert "left out" not in said.notes
    assert said.warnings == []


def test_ids_alone_leave_out_what_is_judged(caplog: pytest.LogCaptureFixture) -> None:
    row = {"question": "Why?", "retrieved_context_ids": [1], "reference_context_ids": [1]}
    said = Said([row], caplog)
    assert "no column for response and no texts of retrieved_contexts, so left out: faithfulness" in said.notes


def test_a_run_says_what_an_estimate_says(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [{**ROW, "gold_standard": "It is so.", "zone": "z"}]
    estimated = Said(rows, caplog)
    caplog.clear()
    stream = io.StringIO()
    engine = ScriptedEngine({}, default=0.9)
    localjudge.evaluate(rows, engine=engine, out=tmp_path / "run", progress=Lines(stream))
    assert stream.getvalue().startswith(estimated.notes)
    assert [record.getMessage() for record in caplog.records] == estimated.warnings


def test_where_nothing_can_be_scored_the_data_s_own_columns_are_named_with_what_to_map() -> None:
    said = refusal({"question": "Why?", "context_1": "It is so.", "context_2": "It is not.", "lang": "en"})
    assert "enough for no metric (taken: user_input (column question); not used: context_1, context_2, lang)" in said
    assert "\n  no column for retrieved_contexts, so left out: context_relevancy_chunk" in said
    assert "\n  no column for response, so left out: answer_relevancy" in said
    assert "say so: mapping={'FIELD': 'COLUMN'}" in said


def test_where_a_metric_lacks_its_column_the_data_s_own_columns_are_named_with_what_to_map() -> None:
    said = refusal({**ROW, "gold_standard": "It is so."}, metrics=["context_recall"])
    assert (
        "context_recall needs reference, retrieved_contexts, and the data has no column for reference (taken: " in said
    )
    assert "not used: gold_standard)" in said
    assert "say so: mapping={'FIELD': 'COLUMN'}" in said


def test_a_conversation_is_said_to_be_judged_by_its_last_turn(caplog: pytest.LogCaptureFixture) -> None:
    talk = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]
    said = Said([{"messages": talk, "contexts": ["So it is."]}, ROW], caplog)
    line = "of which the last turn is judged: the last question, and the answer to it"
    assert f"; 1 is a conversation, {line}" in said.notes
    assert f"; 2 are conversations, {line}" in Said([{"messages": talk}] * 2, caplog, metrics=["refusal"]).notes
