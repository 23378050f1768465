import io
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from localjudge import InputError, ScriptedEngine, evaluate
from localjudge.report.terminal import Lines

ROW: dict[str, Any] = {"question": "Why?", "contexts": ["Because it is so.", "It is."]}
IDS = {"question": "Why?", "retrieved_context_ids": [1], "reference_context_ids": [1]}
TALK = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]
THOUGHT = "<think>Why? Hm.</think>So."
GERMAN = (
    "Der Patient klagt seit dem 3. April über Schmerzen im Bauch. Er wurde von seiner Frau in die "
    "Klinik gebracht und hat sich dort nicht mehr übergeben. Die Aufnahme erfolgte durch den Arzt, "
    "der auch für die Station da ist."
)
GERMAN_ROW = {"reference": GERMAN, "contexts": [GERMAN, "Ja."]}


def said(data: Any, caplog: pytest.LogCaptureFixture, **options: Any) -> tuple[str, list[str]]:
    stream = io.StringIO()
    with caplog.at_level(logging.WARNING):
        evaluate(
            data,
            engine=ScriptedEngine({}, default=0.9),
            progress=Lines(stream),
            out=False,
            **options,
        )
    return stream.getvalue(), [record.getMessage() for record in caplog.records]


def with_different_questions(rows: list[Any]) -> list[Any]:
    different = []
    for number, row in enumerate(rows):
        different.append({**row, "question": f"Why {number}?"} if "question" in row else row)
    return different


@pytest.mark.parametrize(
    ("rows", "options", "note"),
    [
        (
            [ROW] * 2,
            {},
            "2 samples with user_input (column question), retrieved_contexts (column contexts);"
            " contexts:",
        ),
        (
            [{**ROW, "zone": "z", "name": None}, {**ROW, "lang": "en", "name": ""}],
            {},
            "columns not used: lang, zone\n",
        ),
        ([ROW, {**ROW, "contexts": ["So."]}], {}, "contexts: 1 to 2 per sample"),
        ([{**ROW, "answer": '{"text": "So."}'}], {}, "1 response in JSON"),
        (
            [{**ROW, "answer": THOUGHT}] * 3 + [{**ROW, "answer": "So."}],
            {},
            "thinking left out of 3 responses (column answer); ",
        ),
        (
            [{**ROW, "answer": THOUGHT}],
            {"keep_thinking": True},
            "thinking in 1 response (column answer) is judged (keep_thinking)",
        ),
        (
            [{**ROW, "meta": {"book": "b"}, "z": 1}],
            {"cluster_by": "meta.book"},
            "columns not used: z\n",
        ),
        (
            [{"question": "Why?", "answer": "So.", "text_2": "b", "text_1": "So."}],
            {},
            "perhaps mapping={'retrieved_contexts': 'text_1,text_2'}",
        ),
        (
            [{**ROW, "gold_standard": "So.", "zone": "z"}],
            {},
            "perhaps mapping={'reference': 'gold_standard'}",
        ),
        ([{**ROW, **{f"c{n:02}": 1 for n in range(13, 0, -1)}}], {}, "c08, c09, c10 and 3 more"),
        (
            [{**ROW, "reference": "So."}],
            {},
            "skipped: faithfulness, answer_correctness",
        ),
        (
            [IDS],
            {},
            "texts of retrieved_contexts, so skipped: faithfulness",
        ),
        (
            [{"messages": TALK, "contexts": ["So it is."]}, ROW],
            {},
            "; 1 conversation (the last question",
        ),
    ],
)
def test_used_unused_and_missing_columns_are_noted(
    rows: list[Any], options: dict[str, Any], note: str, caplog: pytest.LogCaptureFixture
) -> None:
    notes, warnings = said(with_different_questions(rows), caplog, **options)
    assert note in notes
    assert warnings == []


def test_words_and_encodings_of_files_are_noted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.csv"
    lines = ["question,contexts,answer", "q,It is.,NaN", "q,It is.,N/A", "é,It is.,NaN"]
    path.write_text("\n".join([*lines, "q,It is."]), encoding="cp1252")
    notes, _ = said(path, caplog)
    assert "1 row of CSV with fewer cells" in notes
    assert "3 cells of answer say N/A, NaN:" in notes
    assert re.search(rf"{re.escape(str(path))} .*Windows-1252", notes)


def test_an_answer_word_is_kept_for_a_metric_about_refusals(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("question,contexts,answer\nq,It is.,N/A\nq,It is.,\n")
    for metrics, scored in (("refusal", 1), ("abstention", 1), ("faithfulness", 0)):
        run = evaluate(
            path,
            engine=ScriptedEngine({}, default=0.9),
            metrics=[metrics],
            out=False,
            progress=False,
        )
        assert run[metrics].scored == scored


@pytest.mark.parametrize(
    ("rows", "options", "warning"),
    [
        ([{**ROW, "contexts": "So. || It is."}] * 2, {}, "every sample has exactly 1 context"),
        (
            [{**ROW, "contexts": "[So it is, It is so]"}] * 2,
            {},
            "every sample has exactly 1 context",
        ),
        ([{**ROW, "contexts": '{"price": 5}'}] * 2, {}, "every sample has exactly 1 context"),
        ([GERMAN_ROW], {}, "the texts look like language de"),
        ([{**ROW, "contexts": ["So. | It is."]}] * 2, {}, None),
        ([{**ROW, "contexts": "So it is."}] * 2, {}, None),
        ([GERMAN_ROW], {"language": "de"}, None),
        ([GERMAN_ROW], {"language": "xx"}, None),
    ],
)
def test_risks_for_the_numbers_are_warnings_with_advice(
    rows: list[Any],
    options: dict[str, Any],
    warning: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One context is a risk only if it may contain several; a named language is not a risk."""
    _, warnings = said(with_different_questions(rows), caplog, **options)
    assert len(warnings) == (0 if warning is None else 1)
    assert all(text.startswith(str(warning)) and text.isprintable() for text in warnings)


SAID = {"answer": "So.", "contexts": ["So it is."]}
ASKED = {**SAID, "question": "Why?"}


@pytest.mark.parametrize(
    ("rows", "options", "words"),
    [
        (
            [ASKED] * 24 + [{**ASKED, "question": "Who?"}],
            {},
            ("25 samples", "2 different", "question"),
        ),
        ([{**ASKED, "contexts": [f"{n}."]} for n in range(3)], {}, ("3 samples", "1 different")),
        ([{"q": "Why?", **SAID}] * 2, {"mapping": {"user_input": "q"}}, ("cluster_by='q'",)),
        ([SAID] * 3, {}, ("3 samples", "1 different", "cluster_by='answer'")),
        ([{**SAID, "id": f"{n}"} for n in range(4)], {}, ("4 samples", "1 different")),
        ([{**SAID, "messages": TALK}] * 2, {}, ("2 samples", "cluster_by='messages'")),
        (
            [{**ASKED, "question": text} for text in ("Why caf\u00e9?", " Why  cafe\u0301? ")],
            {},
            ("2 samples", "1 different"),
        ),
        ([ASKED, ASKED], {"cluster_by": "question"}, None),
        ([SAID, {**SAID, "answer": "No."}], {}, None),
        ([SAID, {**SAID, "contexts": ["No."]}], {}, None),
        ([{**ASKED, "question": f"Why {n}?"} for n in range(4)], {}, None),
    ],
)
def test_repeated_questions_and_rows_are_counted_with_a_grouping(
    rows: list[Any],
    options: dict[str, Any],
    words: tuple[str, ...] | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Twenty-four answers to six questions are not twenty-four independent samples."""
    _, warnings = said(rows, caplog, metrics=["faithfulness"], **options)
    if words is None:
        assert warnings == []
    else:
        [warning] = warnings
        assert all(word in warning for word in words), warning


@pytest.mark.parametrize(
    "ids", [("q1", "Q1"), ("a-1", "a-l"), ("Ann", "\u0410nn"), ("x", "x\u200b"), ("x", "x ")]
)
def test_ids_that_look_alike_are_named_once(
    ids: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    rows = [
        {**ROW, "id": name, "question": f"Why {number}?"}
        for number, name in enumerate((*ids, "z9", "z8"))
    ]
    _, warnings = said(rows, caplog, metrics=["context_relevancy_chunk"])
    [warning] = warnings
    assert warning.startswith("2 ids look")
    assert all(ascii(name) in warning for name in ids)


def test_a_script_is_warned_about_omitted_default_metrics(caplog: pytest.LogCaptureFixture) -> None:
    """Scripts show only warnings; a renamed column silently removed three of four metrics."""
    row = {"question": "Why?", "my_docs": ["It is so."], "answer": "So."}
    with caplog.at_level(logging.WARNING):
        evaluate([row], engine=ScriptedEngine({}, default=0.9), progress=False, out=False)
    assert "so skipped: faithfulness" in caplog.text


@pytest.mark.parametrize(
    ("row", "metrics", "parts"),
    [
        (
            {"question": "Why?", "context_1": "It is so.", "context_2": "It is not.", "lang": "en"},
            None,
            (
                "from these columns (used: user_input (column question);"
                " not used: context_1, context_2, lang)",
                "\n  no column for response, so skipped: answer_relevancy",
                "map it: mapping={'retrieved_contexts': 'context_1,context_2'}",
            ),
        ),
        (
            {**ROW, "gold_standard": "It is so."},
            ["context_recall"],
            ("the data has no column for reference (used: ", "not used: gold_standard)"),
        ),
    ],
)
def test_a_missing_column_gets_a_mapping_hint(
    row: Any, metrics: Any, parts: tuple[str, ...]
) -> None:
    with pytest.raises(InputError) as caught:
        evaluate([row], metrics=metrics, engine=ScriptedEngine({}), out=False)
    assert [part for part in parts if part not in str(caught.value)] == []


def documents(meta: dict[str, Any]) -> list[dict[str, Any]]:
    context = {"text": "It rains.", "meta": meta}
    empty: dict[str, Any] = {"retrieved_contexts": [], "reference_contexts": []}
    return [
        empty,
        {
            "retrieved_contexts": [context],
            "reference_contexts": [{"text": "So.", "meta": {"page": 1}}],
        },
    ]


def test_a_key_that_no_meta_has_is_refused() -> None:
    metrics = ["document_mrr(compare_by=meta.page)"]
    how: dict[str, Any] = {"engine": ScriptedEngine({}), "out": False, "progress": False}
    with pytest.raises(InputError, match=r"by page, .*retrieved_contexts"):
        evaluate(documents({"pages": 1}), metrics=metrics, **how)
    run = evaluate(documents({"page": 1}), metrics=metrics, **how)
    assert [score.score for score in run.scores] == [0, 1]


def test_thinking_is_noted_once_and_changes_the_signature_if_it_is_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without thinking, one sentence is asked about; with it "Why?", "Hm." and "So."."""
    rows = [{**ROW, "answer": THOUGHT}]
    notes, _ = said(rows, caplog)
    assert notes.count("thinking left out") == 1
    arguments: dict[str, Any] = {"metrics": "faithfulness", "out": False}
    runs = [
        evaluate(rows, engine=ScriptedEngine({}, default=0.9), keep_thinking=keep, **arguments)
        for keep in (False, True)
    ]
    assert [len(run.verdicts) for run in runs] == [1, 3]
    assert [verdict.text for verdict in runs[0].verdicts] == ["So."]
    assert runs[0].summary.signature != runs[1].summary.signature


def test_responses_without_a_metric_about_them_are_not_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    notes, _ = said([{**ROW, "answer": THOUGHT}], caplog, metrics="context_relevancy_chunk")
    assert "thinking" not in notes
