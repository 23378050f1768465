"""What the lexical judge reads: what is near beside a statement, and everything otherwise."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import random_model
from command_line import printed_lines

import localjudge
from localjudge.metrics import (
    Attribution,
    Relevance,
    Scored,
    Sentences,
    Span,
    Steps,
    Unit,
)
from localjudge.run_directory.run_rows import texts_read

pytestmark = pytest.mark.engine

LETTERS = 600
MARK = " ... "
FILES = ("scores.jsonl", "verdicts.jsonl", "evidence.jsonl", "summary.json")
LONG = " ".join(f"A ferry sank in {year} near Bremen." for year in range(1500, 1580))
BRIDGE = "The bridge of Ghent opened in 1807. It is built of timber."
ROWS: list[dict[str, Any]] = [
    {
        "id": str(number),
        "user_input": "When did the bridge of Ghent open?",
        "response": f"The bridge of Ghent opened in 1807. It has {number + 2} arches.",
        "retrieved_contexts": [LONG, BRIDGE],
    }
    for number in range(5)
]
METRICS = ["faithfulness", "context_relevancy"]


def evaluate(out: Path, rows: Any = ROWS, **options: Any) -> localjudge.Run:
    return localjudge.evaluate(
        rows, judge="lexical", metrics=METRICS, out=out, threads=1, progress=False, **options
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> localjudge.Run:
    return evaluate(tmp_path_factory.mktemp("lexical") / "run")


def test_what_is_near_is_read_beside_a_statement_only(run: localjudge.Run) -> None:
    assert run.manifest.judge.letters_read == (LETTERS,)
    assert run.summary.verdicts.windowed == 0
    for sample in run.samples:
        of_sample = [row for row in run.verdicts if row.sample_id == sample.id]
        read = texts_read(run, sample, of_sample)
        assert {verdict_id.metric for verdict_id in read} == {"faithfulness"}
        assert len(read) == 2
        for text in read.values():
            assert sum(map(len, text.split(MARK))) <= LETTERS
            assert BRIDGE in text
    assert run.verify()


def test_the_evidence_of_a_statement_was_read(run: localjudge.Run) -> None:
    for sample in run.samples:
        of_sample = [row for row in run.verdicts if row.sample_id == sample.id]
        read = texts_read(run, sample, of_sample)
        with_evidence = [row for row in of_sample if row.evidence]
        assert with_evidence
        for row in with_evidence:
            text = read[row.verdict_id]
            assert all(evidence.text in text for evidence in row.evidence)


def test_a_sentence_is_compared_with_all_passages(tmp_path: Path) -> None:
    """A word counts 1 / (1 + n) for n occurrences in all passages, so a far one changes p_yes."""
    other = [row | {"retrieved_contexts": [f"{LONG} Ghent.", BRIDGE]} for row in ROWS[:1]]
    p_yes: list[dict[str, float | None]] = []
    for number, rows in enumerate((ROWS[:1], other)):
        run = evaluate(tmp_path / str(number), rows)
        last = [row for row in run.verdicts if row.text.startswith("The bridge of Ghent")]
        p_yes.append({row.metric: row.p_yes for row in last})
    assert p_yes[0]["context_relevancy"] != p_yes[1]["context_relevancy"]
    assert p_yes[0]["faithfulness"] == p_yes[1]["faithfulness"]


def test_rows_in_another_order_or_in_shards_are_judged_to_the_same_bytes(
    run: localjudge.Run, tmp_path: Path
) -> None:
    shards = [evaluate(tmp_path / str(n), shard=f"{n}/2").directory for n in (1, 2)]
    joined = evaluate(tmp_path / "joined", reuse=shards)
    for file in FILES:
        assert (joined.directory / file).read_bytes() == (run.directory / file).read_bytes()
    shuffled = list(ROWS)
    random.Random(5).shuffle(shuffled)
    again = evaluate(tmp_path / "shuffled", shuffled)
    for file in FILES[:3]:
        lines = (run.directory / file).read_text(encoding="utf-8").splitlines()
        lines_again = (again.directory / file).read_text(encoding="utf-8").splitlines()
        assert sorted(lines) == sorted(lines_again)


def test_beside_a_judge_that_reads_everything_nothing_is_left_out(tmp_path: Path) -> None:
    """The evidence may then be from any text, and the details do not show a part of the texts."""
    other = tmp_path / "small.gguf"
    shape = random_model.Shape(context=4096)
    random_model.write(other, random_model.piece_vocabulary(), shape=shape)
    run = localjudge.evaluate(
        ROWS[:1],
        judge=["lexical", other],
        metrics=["faithfulness"],
        out=tmp_path / "run",
        threads=1,
        min_valid_mass=0,
        progress=False,
    )
    assert not run.manifest.judge.letters_read
    assert texts_read(run, run.samples[0], run.verdicts) == {}
    lines = [
        line for line in printed_lines("show", run, "--details", width=300) if "read by" in line
    ]
    assert [line.split(":")[0] for line in lines] == ["read by lexical", "read by small"]
    assert "all texts" in lines[1]


def test_details_say_what_was_read(run: localjudge.Run) -> None:
    lines = list(printed_lines("show", run, "--details", width=300))
    [line] = [line for line in lines if line.startswith("read by ")]
    assert "lexical" in line
    assert f"{LETTERS} letters" in line
    assert "beside other units, all texts" in line
    sample = printed_lines("show", run, "1", "--details", "--metrics", "faithfulness")
    assert any(line.strip().startswith("read ") for line in sample)


@dataclass(frozen=True)
class Both:
    """Ask of the response whether it is supported, and of the first passage whether it is needed.

    The share of yes.
    """

    name: str = "both"
    version: int = 1
    required_fields: frozenset[str] = frozenset({"response", "retrieved_contexts"})

    def steps(self, sample: localjudge.Sample, sentences: Sentences) -> Steps:
        contexts = tuple(each.text or "" for each in sample.retrieved_contexts or ())
        statement = Unit(
            kind="statement", index=0, source="response", span=Span.whole(sample.response or "")
        )
        sentence = Unit(
            kind="sentence", index=0, source="retrieved_contexts", span=Span.whole(contexts[0])
        )
        question = sample.user_input or ""
        verdicts = yield (
            Attribution(unit=statement, contexts=contexts),
            Relevance(unit=sentence, user_input=question, contexts=contexts),
        )
        return Scored(value=sum(verdict.label for verdict in verdicts) / 2)


def test_questions_of_one_metric_may_read_more_or_less(tmp_path: Path) -> None:
    """A statement beside what is near, and a sentence beside as much as its judge can read."""
    long = " ".join(f"{LONG} {number}" for number in range(12))
    rows = [ROWS[0] | {"retrieved_contexts": [BRIDGE, long]}]
    run = localjudge.evaluate(
        rows, judge="lexical", metrics=[Both()], out=tmp_path / "run", threads=1, progress=False
    )
    assert [verdict.error for verdict in run.verdicts] == [None, None]
    assert all(verdict.p_yes is not None for verdict in run.verdicts)
    [read] = texts_read(run, run.samples[0], run.verdicts)
    assert (read.metric, read.position) == ("both", 0)
