import json
import re
from typing import Any

import numpy as np
import pytest

from localjudge import Run
from localjudge.report.quoted_metrics import pooled_for_page
from localjudge.run_directory.label_rows import stored_labels
from localjudge.stats.corrected import inclusion_probabilities
from localjudge.stats.interval import Mean, mean_interval
from tests.analysis.conftest import label
from tests.analysis.labelled_runs import METRIC, make_run
from tests.cli.conftest import called
from tests.conftest import ScriptedRun


def rows(*samples: str, **columns: Any) -> list[dict[str, Any]]:
    """Return samples of sentences `1` (supported) and `0`, such as `100`; an empty one has none."""
    return [
        {
            "id": f"s{number}",
            "user_input": "Why?",
            "retrieved_contexts": ["A text."],
            "reference": "So.",
            "response": " ".join(
                f"Sentence {number} {place} is {digit}." for place, digit in enumerate(sample)
            ),
            **columns,
        }
        for number, sample in enumerate(samples)
    ]


def judged(scripted_run: ScriptedRun, name: str, *samples: str, **options: Any) -> Run:
    data = rows(*samples, doc="one")
    script = {
        f"Sentence {number} {place} is {digit}.": 0.9 if digit == "1" else 0.1
        for number, sample in enumerate(samples)
        for place, digit in enumerate(sample)
    }
    return scripted_run(
        name, data, script, metrics=["faithfulness", "context_precision"], **options
    )


def test_a_pooled_share_counts_units_and_not_samples(scripted_run: ScriptedRun) -> None:
    """Fractions 1/1, 1/3, 0/2, none: mean (1 + 1/3 + 0) / 3 = 4/9, pooled (1 + 1 + 0) / 6 = 1/3."""
    run = judged(scripted_run, "run", "1", "100", "00", "")
    result = run["faithfulness"]
    assert result.mean == pytest.approx(4 / 9)
    expected = mean_interval([1, 1, 0, 0, 0, 0], clusters=["a", "b", "b", "b", "c", "c"])
    pooled = result.pooled
    assert pooled is not None
    assert (pooled.share, pooled.ci95) == (2 / 6, expected.ci95)
    assert (pooled.units, pooled.samples) == (6, 3)
    assert run["context_precision"].pooled is None


def test_a_pooled_share_has_no_interval_where_none_is_valid(scripted_run: ScriptedRun) -> None:
    samples = ["1", "100", "00"] * 20
    whole = judged(scripted_run, "whole", *samples)
    stopped = judged(scripted_run, "stopped", *samples, until=["faithfulness>=0.1"])
    grouped = judged(scripted_run, "grouped", *samples, cluster_by="doc")
    shares: list[Any] = [run["faithfulness"].pooled for run in (whole, stopped, grouped)]
    assert [share.ci95 is None for share in shares] == [False, True, True]
    low, high = shares[0].ci95
    assert low < shares[0].share < high


def test_no_share_is_pooled_if_too_many_samples_failed(scripted_run: ScriptedRun) -> None:
    broken = {"Sentence 0 0 is 1.": "it does not fit"}
    run = scripted_run("run", rows("1", "100"), broken, metrics=["faithfulness"])
    assert (run["faithfulness"].mean, run["faithfulness"].pooled) == (None, None)
    allowed = scripted_run(
        "allowed", rows("1", "100"), broken, metrics=["faithfulness"], max_failed=1
    )
    pooled = allowed["faithfulness"].pooled
    assert pooled is not None
    assert (pooled.share, pooled.ci95, pooled.units, pooled.samples) == (1.0, None, 3, 1)


def test_a_pooled_share_with_labels_of_all_statements_is_the_human_one(
    scripted_run: ScriptedRun,
) -> None:
    """The first of 1, 2, 3 sentences is supported: mean (1 + 1/2 + 1/3) / 3 = 11/18, pooled 3/6."""
    run = label(make_run(scripted_run, "run"), lambda text: int("Fact 0" in text))
    corrected = run[METRIC].corrected
    assert corrected is not None
    assert corrected.mean == pytest.approx(11 / 18)
    assert corrected.pooled is not None
    assert corrected.pooled.mean == pytest.approx(1 / 2)


def test_a_pooled_share_is_corrected_with_equal_weights_of_units(scripted_run: ScriptedRun) -> None:
    """The judge calls every sentence supported with 0.9, so lambda is 1 and there is one stratum.

    All units have the weight 1/120, and pi is the chance of a labelled one to be drawn:

    corrected = 1 + sum v (H - 1) = (sum H / pi) / (sum 1 / pi)
    """
    samples = ["1", "11", "111"] * 20
    run = label(judged(scripted_run, "run", *samples), lambda text: int("0 is" not in text), 30)
    labels = stored_labels(run.directory)
    shares = np.array([row.size_share or 0 for row in labels])
    turns = max(row.draw_index or 0 for row in labels)
    chances = inclusion_probabilities(shares, turns)
    human = np.array([row.human for row in labels], dtype=np.float64)
    corrected = run["faithfulness"].corrected
    assert corrected is not None
    assert corrected.pooled is not None
    assert corrected.pooled.mean == pytest.approx((human / chances).sum() / (1 / chances).sum())
    assert corrected.pooled.ci95 is not None


@pytest.mark.parametrize(
    ("metric", "noun"),
    [
        ("faithfulness", "sentences"),
        ("context_relevancy", "sentences"),
        ("context_relevancy_chunk", "documents"),
        ("citation_validity", "citations"),
        ("mine", "units"),
    ],
)
def test_a_page_says_what_a_pooled_share_counts(metric: str, noun: str) -> None:
    words = f"counting each of the 1,312 {noun} once, it is about 66 % (57 to 74)"
    assert pooled_for_page(metric, Mean(0.66, (0.57, 0.74), "", 1312, 300)) == words


def test_the_command_says_both_means(
    scripted_run: ScriptedRun, capfd: pytest.CaptureFixture[str]
) -> None:
    """Unless every sample has one sentence, because they are equal then."""
    run = judged(scripted_run, "run", *["1", "100", "00"] * 20)
    said = " ".join(called(capfd, "show", run.directory)[1].split())
    share = "about 44 % of the sentences are supported by the documents"
    assert re.search(f"faithfulness: .*{re.escape(share)}", said)
    assert "about 33 % of all 120 sentences" in said
    values = json.loads(called(capfd, "show", run.directory, "--json")[1])["metrics"]
    assert values["faithfulness"]["pooled"]["share"] == pytest.approx(1 / 3)
    assert "pooled" not in values["context_precision"]
    single = judged(scripted_run, "single", *"1011")
    assert "of all" not in called(capfd, "show", single.directory)[1]
    stopped = judged(scripted_run, "stopped", *["1", "100", "00"] * 20, until=["faithfulness>=0.1"])
    assert "without an interval" in " ".join(called(capfd, "show", stopped.directory)[1].split())
