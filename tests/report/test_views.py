"""Every view of a run fits the terminal, and user text cannot act on it."""

import json
import re
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from command_line import gate_file, printed, printed_lines, printed_summary, refused
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from localjudge import Run, Sample, ScriptedEngine, evaluate
from localjudge.engine.scripted import unit_text
from localjudge.metrics import Scored, Sentences, Steps
from localjudge.model_registry import registered
from localjudge.report.terminal import Table, as_html, as_markdown, show
from localjudge.types import VerdictRequest
from localjudge.words import printable
from tests.doctor.scripted_judges import users_text
from tests.report.conftest import EVIL, HOSTILE, PageReader, one_each, row

SUMMARY = ("show", "--worst", "0")
METRICS = ["context_recall", "context_relevancy_chunk", "matrix_recall", "noise_sensitivity"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """Two runs with different verdicts, on long texts and on texts that attack the terminal."""
    rows = [
        {
            "id": f"sample-with-a-rather-long-id-{number}",
            "user_input": (
                "Which of the bridges across the river was built first, "
                "and by whom was it paid for?"
            ),
            "retrieved_contexts": [
                f"Bridge {number} was built by the guild of the millers.",
                "The river is wide.",
            ],
            "reference": (
                f"The first bridge, number {number}, was paid for by the guild. "
                "It stood for 300 years."
            ),
            "response": (
                "The millers paid for it. "
                "Nobody knows when, though many have tried to find it out since then."
            ),
        }
        for number in range(3)
    ]
    evil = {"user_input": EVIL, "retrieved_contexts": [EVIL], "reference": EVIL, "response": EVIL}
    rows.append({"id": "=evil\x1b[2J", **evil})
    out = tmp_path_factory.mktemp("runs")
    before, after = (
        evaluate(
            rows,
            engine=ScriptedEngine({}, default=probability),
            metrics=METRICS,
            out=out / name,
        )
        for name, probability in (("before", 0.3), ("after\x1b[2J", 0.7))
    )
    return before, after


VIEWS: dict[str, tuple[str, ...]] = {
    "summary": ("show", "before", "--worst", "0"),
    "sample": ("show", "before", "4"),
    "comparison": ("compare", "before", "after\x1b[2J"),
    "gates": (
        *("report", "before"),
        *("--gate", "context_relevancy_chunk>=0.8", "--gate", "context_recall>=0.1"),
    ),
    "worst": ("show", "before", "--worst", "5"),
    "prompts": ("show", "before", "=evil\x1b[2J", "--metrics", "context_recall", "--prompts"),
}


def count_words(text: str) -> Counter[str]:
    return Counter(word for word in text.split() if not word.startswith("─"))


@pytest.mark.parametrize("name", VIEWS)
def test_views_fit_the_terminal_and_escape_user_text(
    runs: tuple[Run, Run], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words equal the output on a very wide terminal; no line ends in a blank."""
    monkeypatch.chdir(runs[0].directory.parent)
    for colour in (False, True) if name != "summary" else (False,):
        whole = count_words(printed(*VIEWS[name], width=1_000, colour=colour))
        for width in (80, 200):
            text = printed(*VIEWS[name], width=width, colour=colour)
            assert [
                line for line in text.splitlines() if cell_len(line) > width or line.endswith(" ")
            ] == []
            assert name in ("worst", "prompts") or count_words(text) == whole
            acting = [
                letter
                for letter in text.replace("\n", "")
                if unicodedata.category(letter) in {"Cc", "Cs"}
            ]
            assert acting == []
            assert "\u202e" not in text


def test_views_in_a_notebook_hold_no_elements_of_users(runs: tuple[Run, Run]) -> None:
    before, after = runs
    for view in (before, after.compare(before), before.check(["context_recall>=0.1"])):
        html: str = view._repr_html_()
        elements = set(re.findall(r"</?([a-z]+)", html))
        assert elements <= {"table", "tr", "th", "td", "p", "br", "strong"}
        assert not set("\x1b\u202e") & set(html)


@given(st.text(min_size=1) | st.sampled_from(HOSTILE))
def test_text_is_escaped_in_html(text: str) -> None:
    read = PageReader(as_html(Table((text,), [(text,)], [text], titles=[text])))
    assert read.elements == [
        (tag, {}) for tag in ("p", "strong", "table", "tr", "th", "tr", "td", "p")
    ]
    assert read.text.replace("\n", "") == printable(text) * 4


def test_one_table_has_three_writers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A blank, the name of 10, twice two blanks and 5, a blank: 26 columns; fewer fold it."""
    table = Table(
        ("name", "first", "next"),
        [("ten_letter", "1", "12345")],
        ["a <note>"],
        titles=["of it"],
    )
    lines = [
        " of it",
        " name        first   next",
        " ────────────────────────",
        " ten_letter      1  12345",
        "",
        " a <note>",
    ]
    monkeypatch.setenv("COLUMNS", "26")
    show(table)
    assert capsys.readouterr().out.splitlines() == lines
    monkeypatch.setenv("COLUMNS", "22")
    show(Table(table.headings, table.rows))
    assert capsys.readouterr().out.splitlines()[2:4] == [" ten_le      1  12345", " tter"]
    assert as_html(table) == (
        "<p><strong>of it</strong></p>\n<table>\n"
        "<tr><th>name</th><th>first</th><th>next</th></tr>\n"
        "<tr><td>ten_letter</td><td>1</td><td>12345</td></tr>\n</table>\n<p>a &lt;note&gt;</p>"
    )
    assert as_markdown(table) == (
        "| name | first | next |\n| --- | --: | --: |\n| `ten_letter` | 1 | 12345 |\n\n    a <note>"
    )


def test_markup_in_user_text_is_escaped(run: Run) -> None:
    assert "[bold red]Not[/] \\u202etxet :smile:." in printed("show", run, "2", colour=True)


def test_below_the_table_are_the_judge_and_the_next_command_and_details_on_request(
    run: Run,
) -> None:
    """Recall: 1/2 and 0/2; mean 0.25, expected (.5 + .1) / 2 = .3.

    For one metric: two statements in each of two samples.
    """
    lines = printed_lines(*SUMMARY, run)
    low, high = run.summary.metrics["context_recall"].ci95 or (0, 0)
    recall = next(line.split() for line in lines if line.startswith("context_recall "))
    interval = (f"{low:.3f}", "-", f"{high:.3f}")
    assert recall == ["context_recall", "0.250", *interval, "0.300", "2", "1", "0"]
    step = lines.index(f"next: localjudge label {run.directory}")
    assert lines[step - 1] == "judge scripted"
    short = printed_lines(*SUMMARY, run, width=200)
    details = printed_lines(*SUMMARY, run, "--details", width=200)
    end = short.index(lines[step]) + 1
    assert details[:end] == short[:end]
    assert f"signature {run.summary.signature}" in details
    alone = printed_summary(run, "--metrics", "context_recall", "--details")
    assert "context_relevancy" not in alone
    assert "4 verdicts: 0 % within 0.1 of the threshold" in alone
    assert "4 verdicts" not in " ".join(lines)
    assert "<td>0.250</td>" in run._repr_html_()


def test_samples_of_one_group_have_no_interval(tmp_path: Path) -> None:
    rows = [
        {"id": name, "reference": "It rains.", "retrieved_contexts": ["c"], "document": 1}
        for name in "abc"
    ]
    options: dict[str, Any] = {
        "engine": ScriptedEngine({}, default=1.0),
        "metrics": ["context_recall"],
    }
    one = evaluate(rows, **options, cluster_by="document", out=tmp_path / "one")
    text = printed_summary(one)
    assert re.search(r"context_recall +1\.000 +- +3 ", text)
    assert "context_recall: warning: all samples" in text
    three = evaluate(rows, **options, cluster_by="id", out=tmp_path / "three")
    assert "one group" not in printed_summary(three)


def test_too_many_failures_show_bounds_instead_of_a_mean(failed_run: Run, tmp_path: Path) -> None:
    """One scored 1, one failed: from 1/2 to 2/2."""
    text = printed_summary(failed_run)
    bounds = "if they had scores, the mean would be between 0.500 and 1.000"
    assert f"context_recall: 1 failed, more than allowed (max_failed): no mean; {bounds}" in text
    assert "1.000 " not in text.split("context_recall:")[0]
    engine = ScriptedEngine({"It snows.": "it does not fit"}, default=0.9)
    again = evaluate(reuse=failed_run, max_failed=1, engine=engine, out=tmp_path / "allowed")
    allowed = printed_summary(again)
    assert f"context_recall: 1 failed; {bounds}" in allowed
    # The withheld mean was in summary.json.
    values = json.loads((failed_run.directory / "summary.json").read_text())["metrics"][
        "context_recall"
    ]
    assert (values["mean"], values["ci95"], failed_run["context_recall"].mean) == (None, None, None)


@pytest.mark.parametrize(
    ("contexts", "count", "hint"),
    [
        ([[], [""], [" ", "\n"]], "3 of 3 samples", "--map retrieved_contexts=COLUMN"),
        ([[], ["Rain."], [""]], "2 of 3 samples", "retriever"),
        ([["", "Rain."], ["Rain."]], None, None),
    ],
)
def test_samples_without_context_text_are_counted_below_the_table(
    contexts: list[list[str]], count: str | None, hint: str | None, tmp_path: Path
) -> None:
    """Their score of 0 once looked like one by the judge."""
    rows = [{"response": "Rain is not insured.", "retrieved_contexts": each} for each in contexts]
    engine = ScriptedEngine({}, default=0.9)
    run = evaluate(rows, engine=engine, metrics=["faithfulness"], out=tmp_path / "run")
    page = PageReader(run.report().read_text(encoding="utf-8")).text
    for text in (printed_summary(Run.open(tmp_path / "run")), " ".join(page.split())):
        assert ("have no context text" in text) == (count is not None)
        if count and hint:
            assert f"{count} have no context text" in text
            assert hint in text


def test_metrics_that_read_no_context_say_nothing_of_its_text(tmp_path: Path) -> None:
    rows = [{"user_input": "Is rain insured?", "response": "No.", "retrieved_contexts": [""]}] * 2
    engine = ScriptedEngine({}, default=0.9)
    run = evaluate(
        rows, engine=engine, metrics=["faithfulness", "answer_relevancy"], out=tmp_path / "run"
    )
    assert "no context text" in printed_summary(run)
    assert "no context text" not in printed_summary(run, "--metrics", "answer_relevancy")


def test_sentences_without_a_claim_are_counted_below_the_table(tmp_path: Path) -> None:
    """The first sample has two of them beside one statement, the second one."""
    contexts = ["Rain is not insured."]
    rows = [
        {"response": "Rain is not insured. I hope this helps. Kind regards, Ann"},
        {"response": "Rain is not insured. I hope this helps."},
    ]
    samples = [{**row, "retrieved_contexts": contexts} for row in rows]
    engine = ScriptedEngine({}, default=0.9)
    run = evaluate(samples, engine=engine, metrics=["faithfulness"], out=tmp_path / "run")
    lines = printed_summary(run)
    assert "3 sentences without a claim" in lines
    assert "in 2 samples" in lines


def test_bare_answers_are_named_unless_a_larger_judge_answered_them(tmp_path: Path) -> None:
    """Two statements say yes or no, and a third one repeats what is asked."""
    contexts = ["Rain is not insured."]
    rows = [{"response": "No. Rain is not insured."}, {"response": "Leider nein."}]
    question = {"user_input": "Is rain insured?", "retrieved_contexts": contexts}
    samples = [{**question, **row} for row in rows]
    engine = ScriptedEngine({}, default=0.9)
    for profile in ("instruct", "lexical"):
        run = evaluate(
            samples, engine=engine, metrics="faithfulness", profile=profile, out=tmp_path / profile
        )
        lines = printed_summary(run)
        assert ("only yes or no in 2 statements" in lines) == (profile == "lexical")


def test_a_judge_with_half_its_verdicts_near_the_threshold_is_undecided(tmp_path: Path) -> None:
    """At 0.45 all are within 0.1 of 0.5; at 0.39 none is."""
    for name, probability in (("near", 0.45), ("far", 0.39)):
        run = evaluate(
            one_each(1), engine=ScriptedEngine({}, default=probability), out=tmp_path / name
        )
        assert ("warning: most verdicts are close" in printed_summary(run)) == (name == "near")


@pytest.mark.parametrize(
    ("profile", "metric", "warned"),
    [
        ("lexical", "answer_relevancy", True),
        ("instruct", "answer_relevancy", False),
        ("lexical", "context_relevancy", False),
    ],
)
def test_comparing_words_is_no_better_than_guessing_for_answer_relevancy(
    tmp_path: Path, profile: str, metric: str, *, warned: bool
) -> None:
    engine = ScriptedEngine({}, default=0.9)
    data = [{"user_input": "Why?", "response": "It rains.", "retrieved_contexts": ["It rains."]}]
    run = evaluate(data, metrics=[metric], engine=engine, profile=profile, out=tmp_path / "run")
    assert ("no better than guessing" in printed_summary(run)) == warned


def test_windows_are_shown_with_their_number_of_questions(tmp_path: Path) -> None:
    """Two contexts of 2,000 with a capacity of 4,000: each statement is judged with each context.

    Two metrics have 8 questions, the shown one 4.
    """
    text = "It rains. It snows."
    rows = [
        {
            "id": "a",
            "retrieved_contexts": ["a" * 2_000, "b" * 2_000],
            "reference": text,
            "response": text,
        }
    ]
    engine = ScriptedEngine({}, default=0.9, capacity=4_000)
    run = evaluate(rows, engine=engine, metrics=["context_recall", "faithfulness"], out=tmp_path)
    assert "4 units did not fit" in printed_summary(run)
    assert "2 units did not fit" in printed_summary(run, "--metrics", "faithfulness")


class Sized(ScriptedEngine):
    """An engine with a model file and a context of some size."""

    checksum = ""
    size = 0

    @property
    def identity(self) -> dict[str, Any]:
        return {**super().identity, "model_sha256": self.checksum, "n_ctx": self.size}


@pytest.mark.parametrize(
    ("model", "size", "advised"),
    [("reader", 512, False), ("reader", 256, True), ("lexical", 8192, False), (None, 512, True)],
)
def test_a_larger_context_is_advised_where_the_judge_can_have_one(
    tmp_path: Path, model: str | None, size: int, advised: bool
) -> None:
    """The reader has 512 tokens, and the lexical judge 8,192; of other models nothing is known."""
    row = {"retrieved_contexts": ["a" * 2_000, "b" * 2_000], "reference": "It rains."}
    engine = Sized({}, default=0.9, capacity=4_000)
    engine.size = size
    engine.checksum = "ab" * 32
    if model is not None:
        engine.checksum = registered()[model].sha256
    run = evaluate([row], engine=engine, metrics="context_recall", out=tmp_path, profile="instruct")
    text = printed_summary(run)
    assert "1 unit did not fit" in text
    assert ("n_ctx" in text) is advised
    assert (f"{size:,} tokens" in text) is not advised


@pytest.mark.parametrize(
    ("model", "profile", "advised"),
    [("reader", "reader", True), ("reader", "instruct", False), ("lexical", "lexical", True)],
)
def test_a_new_run_is_advised_where_the_judge_reads_what_is_nearest_now(
    tmp_path: Path, model: str, profile: str, advised: bool
) -> None:
    """The manifest of a run by an earlier version, whose reader read everything in windows."""
    row = {"retrieved_contexts": ["a" * 2_000, "b" * 2_000], "reference": "It rains."}
    engine = Sized({}, default=0.9, capacity=4_000)
    engine.checksum = registered()[model].sha256
    engine.size = 8192
    evaluate([row], engine=engine, metrics="context_recall", out=tmp_path, profile="instruct")
    file = tmp_path / "manifest.json"
    manifest = json.loads(file.read_bytes())
    manifest["judge"]["judge"]["profile"] = profile
    file.write_text(json.dumps(manifest), encoding="utf-8")
    text = Run.open(tmp_path, check=False)._repr_html_()
    assert "1 unit did not fit" in text
    assert ("nearest" in text) is advised
    assert ("8,192 tokens" in text) is not advised


def test_a_sample_shows_its_texts_units_and_probabilities(run: Run, failed_run: Run) -> None:
    lines = printed_lines("show", run, "good")
    assert lines[:4] == [
        "good",
        "user_input             Q?",
        "reference              It rains. It is red.",
        lines[3],
    ]
    assert lines[5:9] == [
        "good: context_recall 1/2 = 0.500",
        "1 0.900  It rains.",
        "evidence [1] 0.840  Rain.",
        "0 0.100  It is red.",
    ]
    assert "It snows.  (it does not fit)" in printed("show", failed_run, "bad", colour=True)


def test_a_sample_is_found_by_id_then_row_then_id_prefix(run: Run, tmp_path: Path) -> None:
    """Row 2 has the id 1; `3` is a row and a prefix of another id; `30` is no row."""

    def found(where: Run, *names: str) -> list[str]:
        return [printed_lines("show", where, name)[0] for name in names]

    assert found(run, "1", "3", "goo", "no") == ["good", "none", "good", "none"]
    rows = [
        {"id": name, "retrieved_contexts": ["c"], "reference": "It rains."}
        for name in ("31", "1", "ab1", "ab2")
    ]
    other = evaluate(rows, engine=ScriptedEngine({}, default=1.0), out=tmp_path)
    assert found(other, "1", "3", "31") == ["1", "ab1", "31"]
    assert re.search(r": 2 samples .*'a'\n.*'ab1', 'ab2'\?$", refused("show", other, "a"))
    for name, hint in (
        ("99", "from 1 to 3"),
        ("goood", "did you mean 'good'"),
        ("7f3a9c", "the ids are 'good', '=evil.x1b"),
    ):
        assert re.search(hint, refused("show", run, name))


def worst(run: Run, *options: str) -> list[tuple[str, str]]:
    rows = json.loads(printed("show", run, "--json", *options))["worst"]
    return [(row["sample_id"], row["metric"]) for row in rows]


def test_worst_samples_are_listed_once_with_failures_first(
    run: Run, failed_run: Run, tmp_path: Path
) -> None:
    """Expected scores: .9 where all is right, .5 where half is. Mean distance from 1: a
    (.1 + .5) / 2 = .3, b .5, c .3, so b is first. Undefined and perfect samples are left out, and
    equal scores are in order of what is expected: .6 in `more`, .4 in `less`.
    """
    right, half = "Right. So.", "Right. Wrong."
    texts = {"a": (right, half), "b": (half, half), "c": (half, right), "d": (right, right)}
    rows = [
        {"id": name, "retrieved_contexts": ["x"], "reference": first, "response": second}
        for name, (first, second) in texts.items()
    ]
    metrics = ["context_recall", "faithfulness"]
    engine = ScriptedEngine({"Wrong.": 0.1}, default=0.9)
    both = evaluate(rows, metrics=metrics, engine=engine, out=tmp_path / "both")
    assert [(name, metric) for name, metric in worst(both) if name != "b"] == [
        ("a", "faithfulness"),
        ("c", "context_recall"),
    ]
    assert worst(both)[0][0] == "b"
    assert [name for name, _ in worst(both, "--worst", "1")] == ["b"]
    assert [name for name, _ in worst(run, "--metrics", "context_recall")] == [
        "=evil\x1b[2J",
        "good",
    ]
    assert worst(failed_run) == [("bad", "context_recall")]
    close = [row("more", "It rains.", "It is cold."), row("less", "It rains.", "It is warm.")]
    engine = ScriptedEngine({"It is cold.": 0.3, "It is warm.": 0.0}, default=0.8)
    equal = evaluate(close, metrics=["context_recall"], engine=engine, out=tmp_path / "equal")
    assert [name for name, _ in worst(equal)] == ["less", "more"]


def test_the_worst_samples_have_the_highest_score_where_lower_is_better(tmp_path: Path) -> None:
    """Both sentences are noise, one of two, none."""
    responses = {"none": "It rains.", "all": "It snows. It pours.", "half": "It rains. It snows."}
    rows = [
        {"id": name, "retrieved_contexts": ["Rain."], "reference": "So.", "response": response}
        for name, response in responses.items()
    ]

    def support(request: VerdictRequest) -> float:
        is_wrong = unit_text(request) in ("It snows.", "It pours.")
        return 0.1 if is_wrong and "So." in users_text(request) else 0.9

    metrics = ["noise_sensitivity"]
    run = evaluate(rows, metrics=metrics, engine=ScriptedEngine(support), out=tmp_path / "noise")
    assert [name for name, _ in worst(run)] == ["all", "half"]


def _wet_is_sure(request: VerdictRequest) -> float:
    """Support rain if a context says `wet`."""
    text = "".join(piece.text for node in request.path for piece in node)
    return 0.9 if "wet" in text and "It rains." in text else 0.2


def test_sentences_by_contexts_are_a_matrix_and_by_many_contexts_a_list(tmp_path: Path) -> None:
    """The first of two contexts supports one of two reference sentences, the response neither."""

    def judged(name: str, *contexts: str) -> list[str]:
        texts = {"reference": "It rains. It is red.", "response": "It snows."}
        rows = [{"id": "a", **texts, "retrieved_contexts": contexts}]
        engine = ScriptedEngine(_wet_is_sure)
        how: dict[str, Any] = {"metrics": ["noise_sensitivity"], "no_evidence": True}
        run = evaluate(rows, engine=engine, out=tmp_path / name, **how)
        lines = printed_lines("show", run, "a", width=80)
        first = next(at for at, line in enumerate(lines) if line.startswith("a: noise"))
        return lines[first + 1 :]

    assert judged("two", "wet", "cold")[:6] == [
        "ref.     [1]      [2]",
        "0 0.200  0 0.200  0 0.200  It snows.",
        "",
        "[1]      [2]",
        "1 0.900  0 0.200  It rains.",
        "0 0.200  0 0.200  It is red.",
    ]
    many = judged("many", "wet", *(f"dry {n}" for n in range(6)))
    assert many[:2] == [
        "0 0.200  It snows.  (against the reference)",
        "0 0.200  It snows.  (against context 1)",
    ]


class Halves:
    """A metric of another package, which has no words for the page."""

    name = "halves"
    version = 1
    required_fields = frozenset({"response"})

    def steps(self, _sample: Sample, _sentences: Sentences) -> Steps:
        """Ask nothing."""
        yield from ()
        return Scored(value=0.5, numerator=1, denominator=2)


EXPLAINED = {
    ("ranks", "context_recall"): '1 of 2 attributed; not attributed: "Bad two."',
    ("ranks", "faithfulness"): '1 of 4 attributed; not attributed: "Bad one." and 2 more',
    ("ranks", "context_relevancy"): '3 of 4 needed; not needed: "Bad b."',
    ("ranks", "context_precision"): "3 of 4 useful, at ranks 1, 3 and 4",
    ("ranks", "matrix_recall@3"): "1 of 2 sentences of the reference supported by a context",
    ("ranks", "recall@2(compare_by=id)"): "1 of 2 ground-truth documents retrieved",
    ("ranks", "document_mrr"): "",
    ("ranks", "halves"): "1 of 2",
    ("first", "context_recall"): "2 of 2 attributed",
    ("first", "context_precision"): "1 of 2 useful, at rank 1",
    ("none", "context_recall"): "",
    ("none", "context_precision"): "0 of 2 useful",
    ("empty", "faithfulness"): '0 of 1 attributed; not attributed: "Bad one." (no context text)',
    ("empty", "document_mrr"): "nothing was retrieved",
}


def test_each_score_is_explained_in_one_line(tmp_path: Path) -> None:
    """Units are attributed if they are good. A sample without a score has a reason instead."""

    def contexts(*names: str) -> list[dict[str, str]]:
        return [{"id": name[-1], "text": f"{name}."} for name in names]

    rows: list[dict[str, Any]] = [
        {
            "id": "ranks",
            "retrieved_contexts": contexts("Good a", "Bad b", "Good c", "Good d"),
            "reference": "Good one. Bad two.",
            "response": "Bad one. Good two. Bad three. Bad four.",
        },
        {
            "id": "first",
            "retrieved_contexts": contexts("Good a", "Bad b"),
            "reference": "Good one. Good two.",
        },
        {"id": "none", "retrieved_contexts": contexts("Bad a", "Bad b"), "reference": "."},
        {"id": "empty", "retrieved_contexts": [], "reference": "Good one."},
    ]
    others = {"response": "Bad one.", "reference_contexts": contexts("Good a", "Good x")}
    data = [{"user_input": f"Why {row['id']}?", **others, **row} for row in rows]
    metrics = dict.fromkeys(name for _, name in EXPLAINED if name != "halves")
    engine = ScriptedEngine(lambda request: 0.9 if "Good" in unit_text(request) else 0.1)
    run = evaluate(data, metrics=[*metrics, Halves()], engine=engine, out=tmp_path / "run")
    page = PageReader(run.report().read_text(encoding="utf-8"))
    samples = {sample["id"]: sample["metrics"] for sample in page.unpacked("details")}
    shown = {(name, metric): samples[name][metric]["why"] for name, metric in EXPLAINED}
    assert shown == EXPLAINED


def test_reasons_for_missing_scores_are_counted_below_the_table(tmp_path: Path) -> None:
    """144 of 306 samples were undefined, and only scores.jsonl said why."""
    rows = [
        {"id": str(n), "retrieved_contexts": ["Rain."], "reference": "." if n < 4 else f"S {n}."}
        for n in range(9)
    ]
    fails = {f"S {n}.": f"the prompt has {n},000 tokens, and 512 fit" for n in (5, 6)}
    fails |= {"S 7.": "\x1b[2J"}
    run = evaluate(
        rows,
        metrics=["context_recall"],
        engine=ScriptedEngine(fails, default=1.0),
        out=tmp_path / "run",
    )
    reasons = [
        line.strip()
        for line in printed_lines(*SUMMARY, run, width=200)
        if " undefined: " in line or " failed: " in line
    ]
    assert reasons == [
        "context_recall: 4 undefined: the reference has no sentence "
        "(fill it in, or name its column with --map reference=COLUMN)",
        "context_recall: 2 failed: no verdict for 1 of 1 units: "
        "the prompt has 5,000 tokens, and 512 fit",
        "context_recall: 1 failed: no verdict for 1 of 1 units: \\x1b[2J",
    ]
    markdown = gate_file("markdown", run)
    assert "4 undefined: the reference" in markdown
    assert "5,000 tokens" not in markdown, "a reason for a failure may hold a text"
    many = {f"S {n}.": "e" * n for n in range(4, 9)}
    worse = evaluate(
        rows, metrics=["context_recall"], engine=ScriptedEngine(many), out=tmp_path / "many"
    )
    assert any(
        line.endswith(f"localjudge show {worse.directory} --json")
        for line in printed_lines(*SUMMARY, worse, width=400)
    )
