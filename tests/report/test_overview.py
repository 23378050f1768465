import operator
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from localjudge import Criterion, Run, ScriptedEngine, evaluate
from localjudge.metrics import catalog
from localjudge.report.quoted_metrics import state_mean
from localjudge.stats.interval import Mean
from tests.analysis.conftest import label
from tests.analysis.labelled_runs import METRIC, make_run
from tests.conftest import ScriptedRun
from tests.report.conftest import PageReader

ROW = {
    "id": "a",
    "user_input": "Q?",
    "retrieved_contexts": ["Rain."],
    "reference": "It rains.",
    "response": "It rains.",
}
METRICS = ["context_recall", "faithfulness"]
OPERATORS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}
BOUNDS = {
    "at least": operator.ge,
    "more than": operator.gt,
    "at most": operator.le,
    "less than": operator.lt,
}
EQUALS = {
    "not lower": operator.ge,
    "higher": operator.gt,
    "not higher": operator.le,
    "lower": operator.lt,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """In nine of ten samples all sentences are attributed, in one none: both means are 0.9."""
    rows = [{**ROW, "id": str(at)} for at in range(10)]
    rows[0] |= {"reference": "It snows.", "response": "It snows."}
    engine = ScriptedEngine({"It snows.": 0.1}, default=0.9)
    return evaluate(
        rows, engine=engine, metrics=METRICS, out=tmp_path_factory.mktemp("run") / "run"
    )


def read_page(run: Run, **options: Any) -> PageReader:
    with TemporaryDirectory() as folder:
        page = run.report(Path(folder) / "page.html", **options)
        return PageReader(page.read_text(encoding="utf-8"))


def first_screen(run: Run, **options: Any) -> str:
    return " ".join(read_page(run, **options).text.partition("Samples")[0].split())


def measured(run: Run) -> str:
    return " ".join(read_page(run).text.partition("How this was measured")[2].split())


@pytest.fixture
def labelled_run(scripted_run: ScriptedRun) -> Run:
    """40 labels of ann, of which 30 count at this look."""
    return label(make_run(scripted_run, "labelled", samples=30), n=40)


def test_the_finding_is_the_corrected_mean_with_its_annotators(labelled_run: Run) -> None:
    text = first_screen(labelled_run, title="Ward assistant")
    quoted = labelled_run[METRIC].headline
    assert (quoted.basis, quoted.ci95 is None) == ("labels", False)
    low, high = (f"{100 * end:.0f}" for end in quoted.ci95 or ())
    share = f"about {100 * (quoted.mean or 0):.0f} % of the sentences are supported"
    assert f"Ward assistant In an average right answer, {share}" in text
    assert f"by the documents ({low} to {high})." in text
    assert "An annotator checked 40 statements" in text
    label(labelled_run, n=40, annotator="bob", again=True)
    assert "Annotators checked 40 statements" in first_screen(labelled_run)


def test_without_labels_the_finding_is_unchecked(run: Run) -> None:
    low, high = (f"{100 * end:.0f}" for end in run.summary.metrics["faithfulness"].ci95 or ())
    said = f"about 90 % of the sentences are supported by the documents ({low} to {high})"
    text = first_screen(run)
    judge = "According to the judge scripted, in an average right answer,"
    assert f"{judge} {said}; in an average answer, {said}." in text
    assert "No person has checked" in text
    assert f"localjudge label {run.directory.parent.name}/run shows" in text


def test_too_few_labels_show_the_remaining_effort(scripted_run: ScriptedRun) -> None:
    text = first_screen(label(make_run(scripted_run, "few", samples=30), n=7))
    assert re.search(r"\b13 more labels \(about \d+ min\)", text), text


def test_the_corrected_mean_comes_before_its_parts(labelled_run: Run) -> None:
    metric = labelled_run[METRIC]
    corrected = metric.corrected
    assert corrected is not None
    assert corrected.labels_alone is not None
    assert corrected.labels_alone.mean is not None
    text = first_screen(labelled_run)
    shown = [
        "In an average right answer, how many of the sentences are supported by the documents?",
        "corrected by 30 of 40 labels",
        f" {corrected.mean:.3f} 01",
        f"judge only saves about {corrected.labels_saved} labels {metric.mean:.3f}",
        f"labels only {corrected.labels_alone.mean:.3f}",
    ]
    places = [text.find(words) for words in shown]
    assert -1 not in places, text
    assert places == sorted(places)


def test_a_withheld_mean_appears_nowhere_on_the_page(failed_run: Run) -> None:
    read = read_page(failed_run)
    text = " ".join(read.text.partition("Samples")[0].split())
    assert "No metric has" in text
    assert "about 100 %" not in text
    assert not re.search(r"context_recall 1\.000", text)


def test_a_metric_without_a_judge_needs_no_check(tmp_path: Path) -> None:
    """One of two relevant documents was found: 1/2."""
    row = {"retrieved_contexts": ["a"], "reference_contexts": ["a", "b"]}
    metrics = ["document_recall_multi_hit"]
    engine = ScriptedEngine({}, default=0.9)
    text = first_screen(evaluate([row], metrics=metrics, engine=engine, out=tmp_path / "run"))
    finding = r"about 50 % of the right documents were found \(\d+ to \d+\)\. 1 sample"
    assert re.search(finding, text)
    assert "checked" not in text


def test_a_metric_without_a_finding_is_shown_by_name() -> None:
    assert (
        state_mean("brevity", Mean(0.25, (0.125, 0.5), "", 9, 9))
        == "the mean of brevity is 0.250 (0.125 to 0.500)"
    )
    assert state_mean("brevity", Mean(0.25, None, "", 9, 9)) == "the mean of brevity is 0.250"


def test_a_criterion_is_explained_by_its_question(tmp_path: Path) -> None:
    criterion = Criterion(name="polite", question="Is it polite?")
    run = evaluate(
        [ROW],
        engine=ScriptedEngine({}, default=0.9),
        metrics=[criterion],
        out=tmp_path / "run",
    )
    assert "Is it polite?" in first_screen(run)
    assert first_screen(run).count("the mean of polite is") == 1


def every_built_in() -> list[str]:
    listed = []
    for described in catalog.described():
        name = described.name.replace("@k", "@3")
        if catalog.is_ours(name):
            values = [
                f"{name}({option}={value})"
                for option, texts in described.options.items()
                for value in texts
            ]
            listed += [name, *values]
    return list(dict.fromkeys(listed))


@pytest.mark.parametrize("name", every_built_in())
def test_every_built_in_metric_has_a_finding_in_words(name: str) -> None:
    """Each finding and question is unique, such as `7 % of the answers decline to answer`."""
    words = catalog.about(name).headline
    assert words.count("{}") == 1
    share = r"^(in an average (right )?(answer|sample), |an average .*)?\{\} of the.*[a-z0-9]$"
    order = r"^with 100 % .*an average sample"  # says what 100 % means
    assert re.search(f"{share}|{order}", words)
    sentence = words.format("about 7 %")
    assert state_mean(name, Mean(0.07, (0.02, 0.09), "", 9, 9)) == f"{sentence} (2 to 9)"
    assert state_mean(name, Mean(0.07, None, "", 9, 9)) == sentence


def test_the_finding_is_about_the_mean_that_is_computed(tmp_path: Path) -> None:
    """20 answers of one supported sentence and 20 of nine unsupported: 10 % of the sentences.

    The mean of the answers' shares is a half, and the page speaks of an average answer.
    """
    texts = ["It rains."] * 20 + [" ".join(f"It snows on day {day}." for day in range(9))] * 20
    rows = [{**ROW, "id": str(at), "response": text} for at, text in enumerate(texts)]
    engine = ScriptedEngine({f"It snows on day {day}.": 0.1 for day in range(9)}, default=0.9)
    run = evaluate(rows, engine=engine, metrics=["faithfulness"], out=tmp_path / "run")
    scores = list(run.scores)
    assert (
        sum(row.numerator or 0 for row in scores) / sum(row.denominator or 0 for row in scores)
        == 0.1
    )
    text = first_screen(run)
    finding = "in an average answer, about 50 % of the sentences are supported by the documents"
    assert f"{finding} (34 to 66)." in text
    assert "Of 100" not in text


def is_true(words: str, value: float) -> bool:
    """Parse the words and return whether a difference of this value satisfies them."""
    if equal := re.fullmatch(r"context recall is (.*) than in the baseline", words):
        if equal[1] in EQUALS:
            return bool(EQUALS[equal[1]](value, 0))
        bound, amount, direction = re.fullmatch(
            r"(\w+ \w+) (\S+) (higher|lower)", equal[1]
        ).groups()  # type: ignore[union-attr]
        if direction == "lower":
            value = -value
        return bool(BOUNDS[bound](value, float(amount)))
    raise AssertionError(words)


def test_gates_in_words_match_their_values(run: Run) -> None:
    """All thresholds from -.1 to .1 in hundredths, and differences from -.2 to .2."""
    gates = {}
    for comparison in OPERATORS:
        for hundredths in range(-10, 11):
            gates[f"{METRIC}.delta{comparison}{hundredths / 100:g}"] = comparison, hundredths
    text = " ".join(read_page(run, gates=list(gates), baseline=run).text.split())
    for gate, (comparison, threshold) in gates.items():
        before, _, _ = text.partition(f" {gate} ")
        clause = f"context recall is {before.rpartition('context recall is ')[2]}"
        for difference in range(-20, 21):
            expected = OPERATORS[comparison](difference, threshold)
            assert is_true(clause, difference / 100) == expected, gate


def test_gates_are_marked_on_the_scale_of_their_metric(run: Run) -> None:
    """0.8 is 160 of 200 units; labels of marks do not overlap. A difference has no mark."""
    gates = ["faithfulness>=0.8", "faithfulness<=0.95", "faithfulness.delta>=-1"]
    read = read_page(run, gates=gates, baseline=run)
    marks = [
        attrs["x1"] for tag, attrs in read.elements if tag == "line" and attrs["class"] == "gate"
    ]
    assert marks == ["190.0", "160.0"]
    labels = [
        attrs["aria-label"]
        for tag, attrs in read.elements
        if tag == "svg" and attrs["class"] == "interval"
    ]
    [of_mean] = [label for label in labels if label and "gate" in label]
    assert of_mean.endswith("; gate at most 0.95; gate at least 0.8")


def test_the_page_names_annotators_and_their_agreement(run: Run, labelled_run: Run) -> None:
    label(labelled_run, n=40, annotator="bob", again=True)
    labels = labelled_run.labels
    assert labels is not None
    assert labels.agreement is not None
    corrected = labels.corrected[METRIC]
    right, ones = corrected.right_on_ones or (0, 0)
    text = measured(labelled_run)
    assert (
        f"30 of 40 labels for {METRIC}; the judge gives 1 to {right} of {ones} statements" in text
    )
    assert (
        f"(sensitivity {100 * (corrected.sensitivity or 0):.0f} %, weighted by the drawing)" in text
    )
    assert "Labelled byann (40), bob (40), " in text
    assert f"Agreement{'; '.join(labels.agreement.lines)} Verified" in text
    assert f"Labelsnone: localjudge label {run.directory.parent.name}/run Verified" in measured(run)


def test_a_page_with_a_baseline_has_the_counted_difference_below_the_expected_one(
    scripted_run: ScriptedRun,
) -> None:
    """Ten samples of one statement: .9 before, .7 and .4 after: counted -.5, expected -.35."""
    rows = [{**ROW, "id": str(number), "response": f"It is {number}."} for number in range(10)]
    before = {f"It is {number}.": 0.9 for number in range(10)}
    after = {f"It is {number}.": 0.7 if number < 5 else 0.4 for number in range(10)}
    old = scripted_run("old", rows, before, metrics=["faithfulness"])
    new = scripted_run("new", rows, after, metrics=["faithfulness"])
    gates = ["faithfulness.delta>=0"]
    text = " ".join(read_page(new, gates=gates, baseline=old).text.split())
    assert "0.900 0.550 -0.350" in text
    assert "counted 1.000 0.500 -0.500" in text
    assert "means are those of expected scores" in text
    assert "counted 1.000" not in read_page(old, gates=gates, baseline=old).text


def test_a_page_with_a_baseline_does_not_say_a_and_b(scripted_run: ScriptedRun) -> None:
    judge: Any = {"script": {"It snows.": 0.1}, "metrics": METRICS}
    wrong = {**ROW, "response": "It snows."}
    old = scripted_run(
        "old",
        [{**wrong, "id": name, "user_input": f"{name}?"} for name in "abcdefghijk"],
        **judge,
    )
    new = scripted_run(
        "new",
        [{**ROW, "id": name, "user_input": f"{name}?"} for name in "bcdefghijkl"],
        **judge,
    )
    text = read_page(new, gates=["faithfulness.delta>=0"], baseline=old).text
    assert "better than the baseline" in text
    assert "1 only in the baseline, 1 only in this run" in text
    assert re.search("1 of 11 .*baseline and 1 of 11 .*no partner", text)
    assert not re.findall(r"\b[AB]\b(?! person)", text)
