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
from localjudge.engine.scripted import unit_text
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


def places(run: Run) -> dict[str, Any]:
    """Return where the evidence was by metric, as `show --json` prints it."""
    metrics = json.loads(printed("show", run, "--json"))["metrics"]
    return {
        name: values["evidence_places"]
        for name, values in metrics.items()
        if "evidence_places" in values
    }


def counts(found: dict[str, Any]) -> list[tuple[int, int, int]]:
    return [
        (rank["statements"], rank["contexts"], rank["without_evidence"]) for rank in found["ranks"]
    ]


def table(run: Run) -> list[list[str]]:
    """Return the rows of the printed table below its headings, each as its cells."""
    lines = printed("show", run, "--details").splitlines()
    first = next(number for number, line in enumerate(lines) if "up to here" in line)
    rows = []
    for line in lines[first + 2 :]:
        if not line.strip():
            break
        rows.append(re.split(" {2,}", line.strip()))
    return rows


def test_statements_count_at_the_rank_of_their_context(tmp_path: Path) -> None:
    """Ulm in 2 and Bern in 3 of sample a, Oslo in 1 of b; Rome is not supported.

    Context 1: 3 retrieved, evidence in b only. Context 2: 3, evidence in a. Context 3: 1, in a.
    """
    run = judged(tmp_path / "run")
    found = places(run)["context_recall"]

    assert (found["metric"], found["statements"], found["nowhere"]) == ("context_recall", 4, 1)
    assert counts(found) == [(1, 3, 2), (1, 3, 2), (1, 1, 0)]
    assert table(run)[-1] == ["all", "4", "7", "4 (57 %)"]


def test_of_equal_sentences_the_first_context_counts(tmp_path: Path) -> None:
    """The second context has the same sentence: it has evidence, but the statement counts once."""
    twice = [sample("a", [OTHER, FACTS["Ulm"], FACTS["Ulm"]], FACTS["Ulm"])]
    [found] = places(judged(tmp_path / "run", samples=twice)).values()

    assert counts(found) == [(0, 1, 1), (1, 1, 0), (0, 1, 0)]


def test_only_statements_compared_with_all_contexts_count(tmp_path: Path) -> None:
    """A matrix judges each context by itself, and precision whole contexts."""
    metrics = ("context_recall", "matrix_recall", "context_precision", "answer_correctness")
    samples = [{**row, "user_input": "Where?", "response": row["reference"]} for row in SAMPLES]
    run = judged(tmp_path / "run", *metrics, "faithfulness", samples=samples)

    assert list(places(run)) == ["context_recall", "faithfulness"]


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
    [found] = places(run).values()

    assert counts(found) == [(0, 1, 1), (1, 1, 0)]


def test_a_run_without_evidence_has_no_table(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", no_evidence=True)

    assert places(run) == {}
    assert "nowhere" not in printed("show", run, "--details")
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
    [found] = places(run).values()

    yes = [rank for rank, label in zip(ranks, supported, strict=False) if label]
    assert found["nowhere"] == len(ranks) - len(yes)
    for number, (statements, in_rank, without) in enumerate(counts(found)):
        assert statements == yes.count(number)
        assert 0 <= without <= in_rank
    _, contexts_of_ranks, without_of_ranks = zip(*counts(found), strict=True)
    assert sum(contexts_of_ranks) == sum(rank + 1 for rank in ranks)
    assert sum(without_of_ranks) == sum(contexts_of_ranks) - len(yes)


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
        Run.open(run.directory, check=False).report()


def test_the_table_states_shares_of_all_statements(tmp_path: Path) -> None:
    """6, 2 and 1 of 10 statements, 1 nowhere; up to here: 60, 80, 90 %.

    All ten samples have a first context, which is without evidence in four: 40 %.
    """
    samples = []
    for number, rank in enumerate([0] * 6 + [1] * 2 + [2]):
        fact = f"City{number} lies on river{number}."
        samples.append(sample(f"s{number}", [OTHER] * rank + [fact], fact))
    samples.append(sample("nowhere", [OTHER], FACTS["Rome"]))
    assert table(judged(tmp_path / "run", samples=samples)) == [
        ["1", "6", "60 %", "60 %", "10", "4 (40 %)"],
        ["2", "2", "20 %", "80 %", "3", "1 (33 %)"],
        ["3", "1", "10 %", "90 %", "1", "0 (0 %)"],
        ["nowhere", "1", "10 %"],
        ["all", "10", "14", "5 (36 %)"],
    ]


@pytest.mark.parametrize(
    ("ranks", "last"), [(10, "10"), (11, "11"), (12, "11 to 12"), (30, "11 to 30")]
)
def test_high_ranks_share_a_row(tmp_path: Path, ranks: int, last: str) -> None:
    """One statement for each context, and one that no context supports."""
    facts = [f"City{number} lies on river{number}." for number in range(ranks)]
    samples = [sample("a", facts, " ".join([*facts, FACTS["Rome"]]))]
    rows = table(judged(tmp_path / "run", samples=samples))

    assert rows[-3][0] == last
    assert len(rows) == min(ranks, 11) + 2
    assert rows[-3][3] == f"{100 * ranks / (ranks + 1):.0f} %"


def test_no_context_has_no_share(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", samples=[sample("a", [], FACTS["Rome"])])
    assert table(run) == [["nowhere", "1", "100 %"], ["all", "1", "0", "0"]]


def test_terminal_json_and_page_have_the_same_counts(tmp_path: Path) -> None:
    run = judged(tmp_path / "run")
    output = printed("show", run, "--details")
    assert re.search(r"\n 2 +1 +25 % +50 % +3 +2 \(67 %\)\n", output)
    assert "HotpotQA" in output
    assert counts(places(run)["context_recall"])[1] == (1, 3, 2)
    page = " ".join(PageReader(run.report().read_text(encoding="utf-8")).text.split())
    assert "Where the evidence was" in page
    assert "2 1 25 % 50 % 3 2 (67 %)" in page
