"""Evidence of a run: which texts are searched, what supports, and what it leaves unchanged."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localjudge import Run, RunDirectoryError, ScriptedEngine, evaluate
from localjudge.engine.scripted import unit_text
from localjudge.types import NoAnswer, VerdictRequest

FILES = ("scores.jsonl", "verdicts.jsonl", "summary.json")
KEYS = [
    "sample_id",
    "metric",
    "source",
    "source_index",
    "index",
    "position",
    "rank",
    "context",
    "start",
    "end",
    "text",
    "score",
    "supports",
    "cited",
    "cites",
    "name",
]
SAMPLE = {
    "id": "danube",
    "user_input": "Where does the Danube rise?",
    "retrieved_contexts": [
        "The Rhine ends in the Netherlands.",
        "It is long. The Danube rises in the Black Forest.",
    ],
    "reference": "The Danube rises in the Black Forest.",
    "response": "The Danube rises in the Black Forest [1]. The Rhine ends in the Netherlands [1].",
}
RISES = "The Danube rises in the Black Forest."
ENDS = "The Rhine ends in the Netherlands."


def by_metric(run: Run, metric: str) -> list[list[Any]]:
    return [list(verdict.evidence) for verdict in run.verdicts if verdict.metric == metric]


def always(_: VerdictRequest) -> float:
    return 0.9


def judged(
    out: Path,
    *metrics: str,
    answer: Callable[[VerdictRequest], float | NoAnswer] = always,
    **options: Any,
) -> Run:
    names = list(metrics) or ["faithfulness"]
    return evaluate([SAMPLE], metrics=names, out=out, engine=ScriptedEngine(answer), **options)


def test_each_statement_has_its_sentence(tmp_path: Path) -> None:
    run = judged(tmp_path / "run")

    [[rises, *_], [ends, *_]] = by_metric(run, "faithfulness")
    assert (rises.context, rises.start, rises.end, rises.text) == (1, 12, 49, RISES)
    assert (ends.context, ends.start, ends.end, ends.text) == (0, 0, 34, ENDS)
    assert rises.score == ends.score == 1.0
    assert rises.supports
    assert ends.supports
    assert (rises.rank, rises.cited, rises.position) == (1, None, 0)


def test_the_file_has_the_keys_of_the_verdicts(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", "faithfulness", "context_recall")

    lines = (run.directory / "evidence.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert [list(row) for row in rows] == [KEYS] * len(rows)
    verdicts = {(row.metric, row.source, row.index, row.position) for row in run.verdicts}
    assert {(row["metric"], row["source"], row["index"], row["position"]) for row in rows} == (
        verdicts
    )


@pytest.mark.parametrize(
    ("answer", "failed"), [(0.1, 0), (NoAnswer(error="a logit is not a number"), 1)]
)
def test_an_unsupported_or_unanswered_statement_names_the_closest_sentence(
    tmp_path: Path, answer: float | NoAnswer, failed: int
) -> None:
    run = judged(tmp_path / "run", answer=lambda _: answer)

    [[rises, *_], _] = by_metric(run, "faithfulness")
    assert run["faithfulness"].failed == failed
    assert rises.text == RISES
    assert not rises.supports


def test_a_distant_sentence_does_not_support(tmp_path: Path) -> None:
    """The context has none of `Danube`, `rises`, `Black`, `Forest`; `the` and `in` count little."""
    sample = SAMPLE | {"retrieved_contexts": ["The Rhine ends in the Netherlands."]}
    run = evaluate(
        [sample],
        metrics=["context_recall"],
        out=tmp_path / "run",
        engine=ScriptedEngine({}, default=0.9),
    )

    [[closest]] = by_metric(run, "context_recall")
    assert closest.text == ENDS
    assert 0 < closest.score < 0.2
    assert not closest.supports


def test_a_single_context_is_searched_if_the_judge_read_it(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", "matrix_recall")

    rows = [(verdict.against, verdict.evidence) for verdict in run.verdicts]
    assert [against for against, _ in rows] == [0, 1]
    for against, evidence in rows:
        assert {row.context for row in evidence} <= {against}


def test_evidence_in_another_context_than_the_cited_is_marked(tmp_path: Path) -> None:
    """Both statements cite [1]; the first one's sentence is in [2], which the judge did not see."""

    def answer(request: VerdictRequest) -> float:
        return 0.1 if "rises" in unit_text(request) else 0.9

    run = judged(tmp_path / "run", "citation_support", answer=answer)

    [[rises, *_], [ends, *_]] = by_metric(run, "citation_support")
    assert (rises.context, rises.cited, rises.supports) == (1, False, True)
    assert (ends.context, ends.cited, ends.supports) == (0, True, True)


def cited_rows(tmp_path: Path, contexts: list[Any], response: str) -> list[Any]:
    """The first evidence of each statement of a response; no statement is supported."""
    samples = [{"id": "s", "retrieved_contexts": contexts, "response": response}]
    run = evaluate(
        samples,
        metrics=["citation_support(of=all)"],
        out=tmp_path / "run",
        engine=ScriptedEngine({}, default=0.1),
    )
    return [verdict.evidence[0] for verdict in run.verdicts]


def with_ids(first: str, second: str) -> list[Any]:
    return [{"id": first, "text": ENDS}, {"id": second, "text": RISES}]


BARE = [ENDS, "It is wide.", "It is old.", RISES]


@pytest.mark.parametrize(
    ("contexts", "mark", "cites", "name"),
    [
        (BARE, "[1]", ("1",), "4"),
        (BARE, "[doc1]", ("1",), "4"),
        (BARE, "[^1]", ("1",), "4"),
        (BARE, "[1, 9]", ("1", "9"), "4"),
        (BARE, "[1-3]", ("1", "2", "3"), "4"),
        (BARE, "[1][1]", ("1",), "4"),
        (with_ids("rhine-7", "danube-3"), "[rhine-7]", ("rhine-7",), "danube-3"),
        (with_ids("rhine", "danube"), "[1]", ("1",), "2"),
        (with_ids("7", "1"), "[7]", ("7",), "1"),
    ],
)
def test_evidence_in_the_last_context_names_what_is_cited_as_the_response_does(
    tmp_path: Path, contexts: list[Any], mark: str, cites: tuple[str, ...], name: str
) -> None:
    """By rank, also if contexts have ids. In the last case the ids look like ranks."""
    [row] = cited_rows(tmp_path, contexts, f"The Danube rises in the Black Forest {mark}.")

    assert (row.context, row.cited) == (len(contexts) - 1, False)
    assert (row.cites, row.name) == (cites, name)
    assert row.supports


def test_a_sentence_without_a_citation_cites_nothing(tmp_path: Path) -> None:
    response = "The Danube rises in the Black Forest. The Rhine ends in the Netherlands [1]."
    rises, ends = cited_rows(tmp_path, [ENDS, RISES], response)

    assert (rises.cited, rises.cites, rises.name) == (False, (), "2")
    assert (ends.cited, ends.cites, ends.name) == (True, ("1",), "1")


def test_metrics_without_citations_have_no_names(tmp_path: Path) -> None:
    [[row, *_], _] = by_metric(judged(tmp_path / "run"), "faithfulness")

    assert (row.cited, row.cites, row.name) == (None, None, None)


@pytest.mark.parametrize(
    ("sentence", "supports"),
    [
        ("The Danube rises in the Black Forest.", True),
        ("The Danube rises in a forest, the Black one.", True),
        ("The Danube has a forest.", False),
    ],
)
def test_an_unread_context_needs_more_of_the_words(
    tmp_path: Path, sentence: str, supports: bool
) -> None:
    """The judge has not read it for this statement, so a few common words are no evidence."""
    [row] = cited_rows(tmp_path, [ENDS, sentence], "The Danube rises in the Black Forest [1].")

    assert (row.context, row.cited, row.supports) == (1, False, supports)
    assert (row.score >= 0.6) is supports
    assert row.score >= 0.2


def test_a_cited_context_that_does_not_support_is_no_evidence(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", "citation_support", answer=lambda _: 0.1)

    [_, [ends, *_]] = by_metric(run, "citation_support")
    assert (ends.context, ends.cited, ends.supports) == (0, True, False)


def test_reference_and_response_are_searched_without_a_context(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", "answer_correctness")

    for verdict in run.verdicts:
        text = SAMPLE["reference"] if verdict.against == "reference" else SAMPLE["response"]
        for row in verdict.evidence:
            assert row.context is None
            assert text[row.start : row.end] == row.text
    assert run.verdicts[-1].evidence[0].text == RISES.removesuffix(".")


def test_thinking_in_a_response_is_no_evidence(tmp_path: Path) -> None:
    sample = SAMPLE | {"response": f"<think>{RISES}</think>Berlin lies on the Spree."}
    run = evaluate(
        [sample],
        metrics=["answer_correctness(mode=recall)"],
        out=tmp_path / "run",
        engine=ScriptedEngine({}, default=0.9),
    )

    [verdict] = run.verdicts
    assert all("Danube" not in row.text for row in verdict.evidence)


def test_chunks_and_questions_have_no_evidence(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", "context_precision", "context_sufficiency")

    assert len(run.verdicts) == 3
    assert (run.directory / "evidence.jsonl").read_bytes() == b""


def test_evidence_changes_no_other_file_and_no_signature(tmp_path: Path) -> None:
    run = judged(tmp_path / "with", "faithfulness", "context_recall")
    without = judged(tmp_path / "without", "faithfulness", "context_recall", no_evidence=True)

    for name in FILES:
        assert (run.directory / name).read_bytes() == (without.directory / name).read_bytes()
    assert run.manifest.signature == without.manifest.signature
    assert run.manifest.judge == without.manifest.judge
    assert run.manifest.environment.evidence is not None
    assert run.manifest.environment.evidence["finder"] == "words"
    assert without.manifest.environment.evidence is None


def test_without_evidence_there_is_no_file(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", no_evidence=True)

    assert not (run.directory / "evidence.jsonl").exists()
    assert [verdict.evidence for verdict in run.verdicts] == [(), ()]
    assert list(run.iter_evidence()) == []


def test_evidence_is_added_and_removed_without_asking_again(tmp_path: Path) -> None:
    out = tmp_path / "run"
    first = judged(out)
    content = (out / "evidence.jsonl").read_bytes()

    without = judged(out, no_evidence=True)
    assert without.manifest.environment.sessions[-1].asked == 0
    assert not (out / "evidence.jsonl").exists()
    assert "evidence.jsonl" not in without.manifest.environment.files

    again = judged(out)
    assert again.manifest.environment.sessions[-1].asked == 0
    assert (out / "evidence.jsonl").read_bytes() == content
    assert again.manifest.environment.files == first.manifest.environment.files


def test_a_changed_file_is_refused_and_found_by_verify(tmp_path: Path) -> None:
    run = judged(tmp_path / "run")
    file = run.directory / "evidence.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"supports": true', b'"supports": false', 1))

    with pytest.raises(RunDirectoryError, match=r"evidence\.jsonl was changed"):
        Run.open(run.directory)
    verification = run.verify(engine=ScriptedEngine(always))
    assert not verification
    assert verification.files == {"evidence.jsonl": ("row 1",)}


@pytest.mark.parametrize("change", ["missing", "longer", "shorter"])
def test_verify_finds_missing_and_added_rows(tmp_path: Path, change: str) -> None:
    run = judged(tmp_path / "run")
    file = run.directory / "evidence.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    if change == "missing":
        file.unlink()
    elif change == "longer":
        file.write_bytes(b"".join([*lines, lines[-1]]))
    else:
        file.write_bytes(b"".join(lines[:-1]))

    verification = run.verify(engine=ScriptedEngine(always))

    assert list(verification.files) == ["evidence.jsonl"]


def test_evidence_without_a_verdict_is_refused(tmp_path: Path) -> None:
    run = judged(tmp_path / "run")
    file = run.directory / "evidence.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"position": 1', b'"position": 7'))

    with pytest.raises(RunDirectoryError, match="no verdict"):
        list(Run.open(run.directory, check=False).verdicts)


def test_any_order_of_samples_gives_the_same_rows(tmp_path: Path) -> None:
    samples = []
    for number in range(40):
        samples.append(SAMPLE | {"id": str(number), "response": f"The Danube is {number} km long."})
    runs = []
    for name, data in (("one", samples), ("other", samples[::-1])):
        engine = ScriptedEngine({}, default=0.9)
        runs.append(evaluate(data, metrics=["faithfulness"], out=tmp_path / name, engine=engine))

    one, other = (
        sorted((run.directory / "evidence.jsonl").read_bytes().splitlines()) for run in runs
    )
    assert len(one) >= 40
    assert one == other


def test_frames_have_columns_of_evidence(tmp_path: Path) -> None:
    frame = judged(tmp_path / "run").to_pandas("verdicts")

    assert frame["evidence_text"].tolist() == [RISES, ENDS]
    assert frame["evidence_context"].tolist() == [1, 0]
    assert frame["evidence_supports"].tolist() == [True, True]
    assert frame["evidence_2_text"].isna().all()


def test_frames_of_a_run_without_evidence_lack_the_columns(tmp_path: Path) -> None:
    frame = judged(tmp_path / "run", no_evidence=True).to_pandas("verdicts")

    assert not [column for column in frame.columns if column.startswith("evidence")]


def test_exports_have_the_columns(tmp_path: Path) -> None:
    run = judged(tmp_path / "run")

    path = run.export(tmp_path / "verdicts.jsonl", rows="verdicts")

    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [row["evidence_start"] for row in rows] == [12, 0]
    assert "evidence" not in rows[0]
