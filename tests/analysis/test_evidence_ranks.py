"""Where the evidence of a run was: counts by rank of the context, with the arithmetic."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import printed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localjudge import Run, RunDirectoryError, ScriptedEngine, evaluate
from localjudge.analysis.row_counts import EvidenceRanks, RankCounts, evidence_ranks
from localjudge.engine.scripted import unit_text
from localjudge.report.evidence_views import rank_rows
from localjudge.types import VerdictRequest
from tests.report.conftest import PageReader

FACTS = {
    "Ulm": "Ulm lies on the Danube.",
    "Bern": "Bern is the capital of Switzerland.",
    "Oslo": "Oslo hosted the winter games.",
    "Rome": "Rome was founded on seven hills.",
}
OTHER = "Snow fell last winter."


def sample(name: str, contexts: list[str], reference: str) -> dict[str, Any]:
    return {"id": name, "retrieved_contexts": contexts, "reference": reference}


SAMPLES = [
    sample("a", [OTHER, FACTS["Ulm"], FACTS["Bern"]], f"{FACTS['Ulm']} {FACTS['Bern']}"),
    sample("b", [FACTS["Oslo"], OTHER], FACTS["Oslo"]),
    sample("c", [FACTS["Bern"], OTHER], FACTS["Rome"]),
]


def judge(request: VerdictRequest) -> float:
    return 0.1 if "Rome" in unit_text(request) else 0.9


def judged(out: Path, *metrics: str, samples: list[dict[str, Any]] = SAMPLES, **how: Any) -> Run:
    names = list(metrics) or ["context_recall"]
    return evaluate(samples, metrics=names, out=out, engine=ScriptedEngine(judge), **how)


def counts(places: EvidenceRanks) -> list[tuple[int, int, int]]:
    return [(rank.statements, rank.contexts, rank.without_evidence) for rank in places.ranks]


def test_statements_count_at_the_rank_of_their_context(tmp_path: Path) -> None:
    """Ulm in 2 and Bern in 3 of sample a, Oslo in 1 of b; Rome is not supported.

    Context 1: 3 retrieved, evidence in b only. Context 2: 3, evidence in a. Context 3: 1, in a.
    """
    [places] = evidence_ranks(judged(tmp_path / "run")).values()

    assert (places.metric, places.statements, places.nowhere) == ("context_recall", 4, 1)
    assert counts(places) == [(1, 3, 2), (1, 3, 2), (1, 1, 0)]
    assert (places.contexts, places.contexts_without) == (7, 4)


def test_of_equal_sentences_the_first_context_counts(tmp_path: Path) -> None:
    """The second context has the same sentence: it has evidence, but the statement counts once."""
    twice = [sample("a", [OTHER, FACTS["Ulm"], FACTS["Ulm"]], FACTS["Ulm"])]
    [places] = evidence_ranks(judged(tmp_path / "run", samples=twice)).values()

    assert counts(places) == [(0, 1, 1), (1, 1, 0), (0, 1, 0)]


def test_only_statements_compared_with_all_contexts_count(tmp_path: Path) -> None:
    """A matrix judges each context by itself, and precision whole contexts."""
    metrics = ("context_recall", "matrix_recall", "context_precision", "answer_correctness")
    samples = [{**row, "user_input": "Where?", "response": row["reference"]} for row in SAMPLES]
    run = judged(tmp_path / "run", *metrics, "faithfulness", samples=samples)

    assert list(evidence_ranks(run)) == ["context_recall", "faithfulness"]


def test_a_citation_elsewhere_counts_where_the_sentence_is(tmp_path: Path) -> None:
    samples = [
        {
            "id": "a",
            "retrieved_contexts": [OTHER, FACTS["Ulm"]],
            "response": "Ulm lies on the Danube [1].",
        }
    ]
    engine = ScriptedEngine({}, default=0.1)
    run = evaluate(samples, metrics=["citation_support"], out=tmp_path / "run", engine=engine)
    [places] = evidence_ranks(run).values()

    assert counts(places) == [(0, 1, 1), (1, 1, 0)]


def test_a_run_without_evidence_has_no_table(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", no_evidence=True)

    assert evidence_ranks(run) == {}
    assert "nowhere" not in printed("show", run, "--details")
    values = json.loads(printed("show", run, "--json"))["metrics"]["context_recall"]
    assert "evidence_places" not in values
    assert "Where the evidence was" not in run.report().read_text(encoding="utf-8")


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ranks=st.lists(st.integers(0, 5), min_size=1, max_size=6),
    supported=st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_every_statement_is_somewhere_or_nowhere(
    tmp_path_factory: pytest.TempPathFactory, ranks: list[int], supported: list[bool]
) -> None:
    samples = []
    for number, rank in enumerate(ranks):
        fact = f"City{number} lies on river{number}."
        contexts = [OTHER] * rank + [fact]
        samples.append(sample(f"s{number}", contexts, fact))
    says = dict(zip((row["reference"] for row in samples), supported, strict=False))
    engine = ScriptedEngine(lambda request: 0.9 if says[unit_text(request)] else 0.1)
    out = tmp_path_factory.mktemp("places") / "run"
    run = evaluate(samples, metrics=["context_recall"], out=out, engine=engine)
    [places] = evidence_ranks(run).values()

    yes = [rank for rank, label in zip(ranks, supported, strict=False) if label]
    assert places.nowhere == len(ranks) - len(yes)
    for place in places.ranks:
        assert place.statements == yes.count(place.rank - 1)
        assert 0 <= place.without_evidence <= place.contexts
    assert places.contexts == sum(rank + 1 for rank in ranks)
    assert places.contexts_without == places.contexts - len(yes)


@pytest.mark.parametrize("names", [{"b": "other"}, {"a": "b", "b": "a"}])
def test_verdicts_of_another_sample_or_order_are_an_error(
    tmp_path: Path, names: dict[str, str]
) -> None:
    """Files that were changed by hand, in a run that is read without a check."""
    run = judged(tmp_path / "run")
    for file in ("verdicts.jsonl", "evidence.jsonl"):
        rows = []
        for line in (run.directory / file).read_text("utf-8").splitlines():
            values = json.loads(line)
            values["sample_id"] = names.get(values["sample_id"], values["sample_id"])
            rows.append(json.dumps(values) + "\n")
        (run.directory / file).write_text("".join(rows), "utf-8")
    with pytest.raises(RunDirectoryError):
        evidence_ranks(Run.open(run.directory, check=False))


def make_places(*statements: int) -> EvidenceRanks:
    ranks = []
    for rank, count in enumerate(statements, start=1):
        ranks.append(RankCounts(rank=rank, statements=count, contexts=10, without_evidence=5))
    return EvidenceRanks(
        metric="context_recall", statements=sum(statements) + 10, nowhere=10, ranks=tuple(ranks)
    )


def test_the_table_states_shares_of_all_statements() -> None:
    """60, 20, 10 of 100 statements, 10 nowhere; up to here: 60, 80, 90 %."""
    assert list(rank_rows(make_places(60, 20, 10))) == [
        ("1", "60", "60 %", "60 %", "10", "5 (50 %)"),
        ("2", "20", "20 %", "80 %", "10", "5 (50 %)"),
        ("3", "10", "10 %", "90 %", "10", "5 (50 %)"),
        ("nowhere", "10", "10 %", "", "", ""),
        ("all", "100", "", "", "30", "15 (50 %)"),
    ]


@pytest.mark.parametrize(
    ("ranks", "last"), [(10, "10"), (11, "11"), (12, "11 to 12"), (200, "11 to 200")]
)
def test_high_ranks_share_a_row(ranks: int, last: str) -> None:
    rows = list(rank_rows(make_places(*[1] * ranks)))

    assert rows[-3][0] == last
    assert len(rows) == min(ranks, 11) + 2
    assert rows[-3][3] == f"{100 * ranks / (ranks + 10):.0f} %"


def test_a_rank_without_contexts_has_no_share() -> None:
    counts = RankCounts(rank=1, statements=0, contexts=0, without_evidence=0)
    places = EvidenceRanks(metric="m", statements=1, nowhere=1, ranks=(counts,))

    assert next(rank_rows(places)) == ("1", "0", "0 %", "0 %", "0", "0")


def test_terminal_json_and_page_have_the_same_counts(tmp_path: Path) -> None:
    run = judged(tmp_path / "run")
    [places] = evidence_ranks(run).values()

    output = printed("show", run, "--details")
    assert re.search(r"\n 2 +1 +25 % +50 % +3 +2 \(67 %\)\n", output)
    assert "HotpotQA" in output
    shown = json.loads(printed("show", run, "--json"))
    values = shown["metrics"]["context_recall"]["evidence_places"]
    assert values == places.model_dump(mode="json")
    page = " ".join(PageReader(run.report().read_text(encoding="utf-8")).text.split())
    assert "Where the evidence was" in page
    assert "2 1 25 % 50 % 3 2 (67 %)" in page
