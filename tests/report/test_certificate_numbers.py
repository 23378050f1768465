"""Every number on a certificate is computed again, without localjudge's statistics.

The formulas are the ones of docs/statistics.md, "Mean corrected by labels"; Student's t is SciPy's.
"""

import hashlib
import json
import math
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from human_labels import answer_all, draw, draw_disputed, fill_sheet, second_opinion

from localjudge import Run, ScriptedEngine
from tests.analysis.conftest import written
from tests.conftest import ScriptedRun
from tests.report.conftest import PageReader

student: Any = pytest.importorskip(
    "scipy.stats", reason="NOT CHECKED: the package SciPy is not installed"
).t

Row = dict[str, Any]
Place = tuple[str, int]
UNITS = ("Chirurgie", "Neurologie", "Innere")
GATES = ("faithfulness>=0.2", "faithfulness>=0.9", "faithfulness[unit=Neurologie]>=0.5")
GOLDEN = (math.sqrt(5) - 1) / 2
STRATA = 5
FEWEST_OF_STRATUM = 5


class Limits(NamedTuple):
    """A mean with its interval, and the number of labels."""

    mean: float
    low: float
    high: float
    labels: int

    @property
    def numbers(self) -> str:
        return f"{self.mean:.3f}{self.low:.3f} to {self.high:.3f}"


def p_yes(sample: int, position: int) -> float:
    return ((37 * sample + 53 * position) % 101 + 0.5) / 102


def truth(text: str) -> int:
    sample = int(text.split()[1])
    position = int("blue" in text)
    return int(p_yes(sample, position) + 0.5 * math.sin(sample) > 0.55)


def judged(scripted_run: ScriptedRun) -> tuple[Run, dict[str, float]]:
    """Return a run of 90 samples of one or two sentences in three units, and its judge's p_yes."""
    script: dict[str, float] = {}
    rows = []
    for n in range(90):
        sentences = [f"Fact {n} is red.", f"Fact {n} is blue."][: 1 + n % 2]
        script |= {sentence: p_yes(n, place) for place, sentence in enumerate(sentences)}
        contexts = [f"Text {n}."]
        response = " ".join(sentences)
        rows.append(
            {"id": f"s{n}", "user_input": "?", "unit": UNITS[n % 3], "retrieved_contexts": contexts}
            | {"response": response}
        )
    return scripted_run("run", rows, script, metrics=["faithfulness"], threshold=0.45), script


def contradict_every_fifth(text: str) -> int:
    label = truth(text)
    if int(text.split()[1]) % 5 == 0:
        return 1 - label
    return label


def label_run(run: Run, folder: Path) -> None:
    """Ann labels a planned sheet of 75, Bo contradicts every fifth label, Carol settles these."""
    sheet = fill_sheet(draw(run, "ann", 75, by="unit"), truth)
    run.read_labels(written(folder / "ann.jsonl", *sheet), "ann")
    with second_opinion(run, "bo", 75, by="unit") as again:
        answer_all(again, contradict_every_fifth)
    answer_all(draw_disputed(run), truth)


def read_rows(run: Run, name: str) -> list[Row]:
    return [
        json.loads(line) for line in (run.directory / name).read_text(encoding="utf-8").splitlines()
    ]


def chances(shares: np.ndarray, turns: int) -> np.ndarray:
    """Return the chance that a point of the golden sequence hits an arc of this length."""
    points = sorted(GOLDEN * turn % 1 for turn in range(turns))
    gaps = np.diff([*points, points[0] + 1])
    hit: np.ndarray = np.minimum(shares[:, None], gaps[None, :]).sum(axis=1).clip(max=1.0)
    return hit


def merge(strata: np.ndarray, labelled: np.ndarray) -> np.ndarray:
    """Merge each stratum with fewer than five labels into the next one, the last one backwards."""
    groups: list[list[int]] = [[]]
    for stratum in range(strata.max() + 1):
        groups[-1].append(stratum)
        if sum(labelled[np.isin(strata, groups[-1])]) >= FEWEST_OF_STRATUM:
            groups.append([])
    last = groups.pop()
    groups[-1] += last
    number = {stratum: place for place, group in enumerate(groups) for stratum in group}
    return np.array([number[stratum] for stratum in strata])


def corrected(verdicts: list[Row], labels: dict[Place, Row]) -> Limits:
    """Return the prediction-powered mean of these verdicts with its ordinary 95 % interval."""
    sizes = Counter(row["sample_id"] for row in verdicts)
    clusters = np.array([[*sizes].index(row["sample_id"]) for row in verdicts])
    w = np.array([1 / (sizes[row["sample_id"]] * len(sizes)) for row in verdicts])
    judge = np.array([float(row["label"]) for row in verdicts])
    drawn = [labels.get((row["sample_id"], row["position"])) for row in verdicts]
    labelled = np.array([row is not None for row in drawn])
    human = np.array([float(row["human"]) if row else 0.0 for row in drawn])
    shares = np.array([row["size_share"] if row else 1.0 for row in drawn])
    chance = chances(shares, max(row["draw_index"] for row in drawn if row))
    weight = np.where(labelled, w / chance, 0.0)
    scores = np.array([row["p_yes"] for row in verdicts])
    edges = np.quantile(scores, np.arange(1, STRATA) / STRATA)
    strata = merge(np.searchsorted(edges, scores, side="right"), labelled)
    v = np.zeros(len(verdicts))
    for stratum in set(strata):
        inside = strata == stratum
        v[inside] = weight[inside] * w[inside].sum() / weight[inside].sum()

    def means(values: np.ndarray) -> np.ndarray:
        averages = [
            np.average(values[strata == stratum], weights=v[strata == stratum])
            for stratum in strata
        ]
        return np.array(averages)

    spread_human = human - means(human)
    spread_judge = judge - means(judge)
    power = np.sum(v * spread_human * spread_judge) / np.sum(v * spread_judge**2)
    power = min(1.0, max(0.0, power))
    error = human - power * judge
    mean = power * np.sum(w * judge) + np.sum(v * error)
    parts = w * (power * judge + means(error))
    parts -= w * parts.sum()
    counts = np.array([labelled[strata == stratum].sum() for stratum in strata])
    parts += np.where(labelled, np.sqrt(counts / (counts - 1)) * v * (error - means(error)), 0)
    samples = len(sizes)
    sums = np.array([parts[clusters == number].sum() for number in range(samples)])
    unseen = np.mean(v[labelled] ** 2)
    variance = np.sum(sums**2) * samples / (samples - 1) + unseen / 2
    groups = len(set(clusters[labelled]))
    half = student.ppf(0.975, groups - len(set(strata[labelled]))) * math.sqrt(variance)
    logit = math.log(mean / (1 - mean))
    arm = half / (mean * (1 - mean))
    low, high = (1 / (1 + math.exp(-(logit + side * arm))) for side in (-1, 1))
    return Limits(mean, low, high, int(labelled.sum()))


def alpha(pairs: list[tuple[int, int]]) -> float:
    """Return Krippendorff's alpha for two annotators: 1 - (2n - 1) disagreements / (zeros ones)."""
    ones = sum(map(sum, pairs))
    values = 2 * len(pairs)
    disagreements = sum(one != other for one, other in pairs)
    return 1 - (values - 1) * disagreements / (ones * (values - ones))


def collect_decisions(rows: list[Row]) -> tuple[dict[Place, dict[str, Row]], dict[Place, Row]]:
    """Return the annotators' labels of each statement, and the adjudicated ones."""
    of: dict[Place, dict[str, Row]] = defaultdict(dict)
    settled: dict[Place, Row] = {}
    for row in rows:
        place = row["sample_id"], row["position"]
        if row.get("adjudicated"):
            settled[place] = row
        else:
            of[place][row["annotator"]] = row
    return of, settled


def outcome(limits: Limits, least: float) -> str:
    if limits.low >= least:
        return "passed"
    return "failed" if limits.high < least else "undecided"


def test_every_number_on_a_certificate_is_recomputed_from_the_files(
    scripted_run: ScriptedRun, tmp_path: Path
) -> None:
    run, script = judged(scripted_run)
    label_run(run, tmp_path)
    run.report()
    assert run.verify(engine=ScriptedEngine(script))
    gates = list(GATES)
    path = run.certificate(tmp_path / "page.html", gates=gates, by="unit", title="Clinic").file
    page = " ".join(PageReader(path.read_text(encoding="utf-8")).text.split())
    manifest_bytes = (run.directory / "manifest.json").read_bytes()
    manifest = json.loads(manifest_bytes)
    verdicts = read_rows(run, "verdicts.jsonl")
    decisions = read_rows(run, "labels.jsonl")
    of, settled = collect_decisions(decisions)
    labels = {place: people["ann"] for place, people in of.items()}
    labels |= {place: {**of[place]["ann"], "human": row["human"]} for place, row in settled.items()}
    whole = corrected(verdicts, labels)
    slices = {}
    for place, unit in enumerate(UNITS):
        inside = [row for row in verdicts if int(row["sample_id"][1:]) % 3 == place]
        own = {(row["sample_id"], row["position"]) for row in inside} & labels.keys()
        slices[unit] = corrected(inside, {key: labels[key] for key in own})
    pairs = [
        (people["ann"]["human"], people["bo"]["human"])
        for people in of.values()
        if len(people) == 2
    ]
    disputed = sum(one != other for one, other in pairs)
    assert disputed == len(settled) > 5
    ones = {name: sum(people[name]["human"] for people in of.values()) for name in ("ann", "bo")}
    supported = sum(row["human"] for row in labels.values())
    verification = json.loads((run.directory / "verification.json").read_text(encoding="utf-8"))
    day = decisions[0]["when"][:10]
    limits = (whole, whole, slices["Neurologie"])
    rows = [
        f"{gate}{outcome(limit, float(gate[-3:]))}{limit.numbers}by {limit.labels} labels"
        for gate, limit in zip(GATES, limits, strict=True)
    ]
    rows += [
        f"{unit}faithfulness30{limit.numbers}corrected by {limit.labels} labels"
        for unit, limit in slices.items()
    ]
    low, mean, high = (f"{100 * value:.0f}" for value in (whole.low, whole.mean, whole.high))
    share = 100 * (1 - disputed / len(pairs))
    agreement = f"{share:.0f} % agreement, Krippendorff's alpha {alpha(pairs):.3f}"
    written = re.search(r"written on 20\d\d-\d\d-\d\d at \d\d:\d\d UTC", page)
    assert written
    facts = [
        *rows,
        f"about {mean} % of the sentences are supported by the documents ({low} to {high})",
        f"faithfulness: corrected by {whole.labels} labels",
        f"faithfulness{whole.numbers}corrected by {whole.labels} labels9000",
        f"localjudge certificate, {written[0]}",
        f"Verified on {verification['when'][:10]} on {verification['machine']}: ",
        f"the judge repeated {len(verdicts)} of {len(verdicts)} stored answers",
        f"Labels: {len(decisions)} of {len(decisions)} rows of labels.jsonl are as they were"
        f" verified on {verification['when'][:10]}.",
        f"Run {run.directory.resolve().parent.name}/run",
        "90 samples",
        "at a probability of 0.450 or above (changed from the default of 0.5)",
        manifest["data"]["sha256"],
        manifest["signature"],
        hashlib.sha256(manifest_bytes).hexdigest(),
        hashlib.sha256((run.directory / "labels.jsonl").read_bytes()).hexdigest(),
        f"ann (75, {ones['ann']} yes)",
        f"bo (75, {ones['bo']} yes)",
        f"labels from {day} to {decisions[-1]['when'][:10]}",
        f"{len(pairs)} statements with several labels: {agreement}",
        f"{len(settled)} of {disputed} disputed statements settled by adjudication (carol)",
        f"{supported} of {len(labels)} labelled statements are supported by the documents",
    ]
    assert whole.labels == len(labels) == 75
    assert sum(limit.labels for limit in slices.values()) == 75
    rest = page
    for fact in facts:
        assert fact in rest, (fact, page)
        rest = rest.replace(fact, " ", 1)
    result, _, versions = rest.partition("Versions")
    assert re.findall(r"[0-9a-f]*[0-9][0-9.]*", re.sub("95 %|sha256", "", result)) == []
    for name, number in manifest["judge"]["versions"].items():
        assert f"{name} {number}" in versions
