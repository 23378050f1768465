#!/usr/bin/env python3
"""Print how the intervals of corrected means change if more disagreements of a jury are labelled.

    scripts/simulations/drawing_disagreements.py
    scripts/simulations/drawing_disagreements.py --factors 1.5 2 3
    scripts/simulations/drawing_disagreements.py --labels FILE --run NAME=DIR
                                                 a jury's run on labelled statements

For each jury, kind of sample and number of labels:

    statements with human labels and log odds of each judge
        -> the jury's verdicts -> draw, plainly and with larger sizes of disagreements
        -> correct the mean by the drawn labels -> does the interval contain the truth? how wide?

The log odds of judge j for a statement with label H are

    sharpness x (signal_j x (H - 1/2) + noise_j) + shift_j

with standard normal noise. `correlation` is the correlation of two judges' noise: they then err on
the same statements. A shift below 0 is a strict judge, one above 0 a lenient judge.

A run has 300 samples of 1 to 6 statements. The share of statements with label 1 varies between
samples, or between groups of four samples, by a beta distribution around the truth.
"""

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from localjudge.dataset.sources import Source
from localjudge.labels.labelled_texts import read_labelled_texts
from localjudge.run_directory.jury import is_divided
from localjudge.stats.corrected import JudgedUnits, prediction_powered
from localjudge.stats.drawing import (
    DISAGREEMENT_FACTOR,
    draw,
    drawing_sizes,
    inclusion_probabilities,
    strata_by_score,
)
from localjudge.stats.interval import Flags, Floats, Indices

PLAIN = 1.0
"""Factor of a drawing that does not look at disagreements."""
TRUTHS = (0.5, 0.8)
NUMBERS_OF_LABELS = (50, 100, 200)
_SAMPLES = 300
_GROUP = 4
_SHARES_OF_SIZES = (0.30, 0.35, 0.20, 0.08, 0.04, 0.03)
"""Shares of samples with 1 to 6 statements, as in the reference answers of CLAPnq."""
_CONCENTRATION = 2.0
_SHARPNESS = 1.5
_POOL_SIZE = 20_000
_DRAWING_STRATA = 10
_THRESHOLD = 0.5


class Pool(NamedTuple):
    """Statements to make runs of: the jury's probability, human label, and disagreement (n,)."""

    p_yes: Floats
    human: Floats
    divided: Flags


class Jury(NamedTuple):
    """Simulated judges: signal and shift of each, and the correlation of their errors."""

    signals: tuple[float, ...]
    shifts: tuple[float, ...]
    correlation: float = 0.0


JURIES: Mapping[str, Jury] = {
    "two good": Jury((2.5, 2.5), (0.0, 0.0)),
    "two good, correlated": Jury((2.5, 2.5), (0.0, 0.0), 0.5),
    "three good": Jury((2.0, 2.0, 2.0), (0.0, 0.0, 0.0), 0.2),
    "two noisy": Jury((1.2, 1.2), (0.0, 0.0)),
    "two noisy, correlated": Jury((1.2, 1.2), (0.0, 0.0), 0.5),
    "one good, one guessing": Jury((2.5, 0.0), (0.0, 0.0)),
    "one strict, one lenient": Jury((2.0, 2.0), (-1.5, 1.5)),
    "two strict": Jury((2.0, 2.0), (-1.5, -1.5), 0.2),
    "two lenient": Jury((2.0, 2.0), (1.5, 1.5), 0.2),
}


class Setting(NamedTuple):
    """Properties of simulated runs and their labels."""

    truth: float
    clustered: bool
    labels: int


class Measured(NamedTuple):
    """Share of intervals that contain the truth, and their mean width."""

    coverage: float
    width: float


def simulated_pool(jury: Jury, seed: int = 0) -> Pool:
    """Simulate statements, half with label 1, and the verdicts of a jury without weights."""
    generator = np.random.Generator(np.random.PCG64(seed))
    human = (np.arange(_POOL_SIZE) % 2).astype(np.float64)
    common = generator.standard_normal((_POOL_SIZE, 1))
    own = generator.standard_normal((_POOL_SIZE, len(jury.signals)))
    noise = math.sqrt(jury.correlation) * common + math.sqrt(1 - jury.correlation) * own
    signal = np.array(jury.signals) * (human[:, None] - 0.5)
    log_odds = _SHARPNESS * (signal + noise) + np.array(jury.shifts)
    scaled = log_odds / log_odds.std(axis=0)
    p_yes = 1 / (1 + np.exp(-scaled.mean(axis=1)))
    says_one = log_odds >= 0
    divided = says_one.any(axis=1) & ~says_one.all(axis=1)
    return Pool(p_yes, human, divided)


def recorded_pool(labels: Path, directory: Path) -> Pool:
    """Return the verdicts of a jury's run on a file of labelled statements, with their labels."""
    human = {}
    with closing(Source(str(labels))) as source:
        texts, _ = read_labelled_texts(source)
    for text in texts:
        human[str(text.columns["id"])] = float(text.labels[0] or 0)
    rows = []
    with (directory / "verdicts.jsonl").open(encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            if row["p_yes"] is not None:
                rows.append(row)
    return Pool(
        np.array([row["p_yes"] for row in rows]),
        np.array([human[row["sample_id"]] for row in rows]),
        np.array([is_divided(row["judges"]) for row in rows]),
    )


class _Run(NamedTuple):
    """Statements of a simulated run as arrays (units,)."""

    p_yes: Floats
    human: Floats
    divided: Flags
    weights: Floats
    clusters: Indices


def _simulate_run(setting: Setting, pool: Pool, generator: np.random.Generator) -> _Run:
    possible_sizes = np.arange(1, len(_SHARES_OF_SIZES) + 1)
    sizes = generator.choice(possible_sizes, _SAMPLES, p=_SHARES_OF_SIZES)
    sample = np.repeat(np.arange(_SAMPLES), sizes)
    clusters = sample // _GROUP if setting.clustered else sample
    alpha = setting.truth * _CONCENTRATION
    shares = generator.beta(alpha, _CONCENTRATION - alpha, _SAMPLES)
    is_one = generator.random(len(sample)) < shares[clusters]
    ones = generator.choice(np.flatnonzero(pool.human == 1), len(sample))
    zeros = generator.choice(np.flatnonzero(pool.human == 0), len(sample))
    chosen = np.where(is_one, ones, zeros)
    weights = 1 / (sizes[sample] * _SAMPLES)
    return _Run(pool.p_yes[chosen], pool.human[chosen], pool.divided[chosen], weights, clusters)


def _sizes(run: _Run, factor: float) -> Floats:
    """Return the sizes of the statements, by the product's own function for its own factor."""
    if factor == DISAGREEMENT_FACTOR:
        return drawing_sizes(run.weights, run.p_yes, run.divided)
    plain = drawing_sizes(run.weights, run.p_yes)
    return np.where(run.divided, factor * plain, plain)


def _limits(run: _Run, labels: int, factor: float, seed: int) -> tuple[float, float]:
    """Draw and label statements, and return the limits of the corrected mean."""
    sizes = _sizes(run, factor)
    taken, turns = draw(sizes, strata_by_score(run.p_yes, _DRAWING_STRATA), labels, seed)
    shares = sizes[taken] / sizes.sum()
    chances = inclusion_probabilities(shares, int(turns.max()))
    drawn = np.zeros(len(run.weights))
    drawn[taken] = run.weights[taken] / chances
    units = JudgedUnits(
        judged=(run.p_yes >= _THRESHOLD).astype(np.float64),
        weights=run.weights,
        human=run.human,
        drawn=drawn,
        strata=strata_by_score(run.p_yes),
        clusters=run.clusters,
        certain=np.zeros(len(run.weights), dtype=np.bool_),
    )
    return prediction_powered(units).limits or (0.0, 1.0)


def measure(
    setting: Setting, pool: Pool, factors: Sequence[float], *, repeats: int, seed: int
) -> dict[float, Measured]:
    """Measure coverage and width for drawings with each of these factors, on the same runs."""
    generator = np.random.Generator(np.random.PCG64(seed))
    intervals = np.zeros((repeats, len(factors), 2))
    for repeat in range(repeats):
        run = _simulate_run(setting, pool, generator)
        seed_of_drawing = int(generator.integers(2**31))
        for place, factor in enumerate(factors):
            intervals[repeat, place] = _limits(run, setting.labels, factor, seed_of_drawing)
    is_low_enough = intervals[:, :, 0] <= setting.truth
    is_high_enough = setting.truth <= intervals[:, :, 1]
    coverage = (is_low_enough & is_high_enough).mean(axis=0)
    width = np.ptp(intervals, axis=2).mean(axis=0)
    return {
        factor: Measured(float(coverage[place]), float(width[place]))
        for place, factor in enumerate(factors)
    }


def error_rates(pool: Pool) -> tuple[float, float, float]:
    """Return the share of disagreements, and the jury's error rates with and without them."""
    is_wrong = (pool.p_yes >= _THRESHOLD) != (pool.human == 1)
    divided = float(is_wrong[pool.divided].mean()) if pool.divided.any() else math.nan
    return float(pool.divided.mean()), divided, float(is_wrong[~pool.divided].mean())


def measure_rows(
    pools: Mapping[str, Pool], factors: Sequence[float], repeats: int
) -> Iterator[str]:
    """Yield the rows of the table."""
    for (name, pool), clustered, labels in product(pools.items(), (False, True), NUMBERS_OF_LABELS):
        share, wrong_if_divided, wrong_if_not = error_rates(pool)
        samples = "groups of 4" if clustered else "single"
        cells = [name, f"{share:.0%}", f"{wrong_if_divided:.0%}", f"{wrong_if_not:.0%}"]
        cells += [samples, str(labels)]
        by_truth = []
        for truth in TRUTHS:
            setting = Setting(truth, clustered, labels)
            measured = measure(setting, pool, factors, repeats=repeats, seed=labels)
            by_truth.append(measured)
        for factor in factors:
            coverages = [f"{100 * measured[factor].coverage:.1f}" for measured in by_truth]
            cells.append(f"{', '.join(coverages)} %")
        for factor in factors[1:]:
            ratios = [measured[factor].width / measured[PLAIN].width for measured in by_truth]
            cells.append(", ".join(f"{ratio - 1:+.1%}" for ratio in ratios))
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=500, help="runs for each cell")
    parser.add_argument(
        "--factors",
        type=float,
        nargs="*",
        default=[DISAGREEMENT_FACTOR],
        help="factors of the size of a disagreement, besides 1",
    )
    parser.add_argument("--labels", type=Path, metavar="FILE", help="labelled statements with ids")
    parser.add_argument(
        "--run", nargs="*", default=[], metavar="NAME=DIR", help="runs of juries on --labels"
    )
    options = parser.parse_args()
    pools = {name: simulated_pool(jury) for name, jury in JURIES.items()}
    if options.run:
        recorded = dict(run.split("=", 1) for run in options.run)
        pools = {
            name: recorded_pool(options.labels, Path(directory))
            for name, directory in recorded.items()
        }
    factors = [PLAIN, *options.factors]
    titles = ["jury", "disagree", "wrong there", "wrong elsewhere", "samples", "labels"]
    titles += ["coverage, plain", *(f"x {factor:g}" for factor in options.factors)]
    titles += [f"width, x {factor:g}" for factor in options.factors]
    error = math.sqrt(0.95 * 0.05 / options.repeats)
    print(
        f"{options.repeats:,} runs a cell, at a truth of {TRUTHS[0]} and {TRUTHS[1]}: "
        f"simulation error of a coverage {error:.1%}\n"
    )
    print(f"| {' | '.join(titles)} |")
    print("|---" * len(titles) + "|")
    for row in measure_rows(pools, factors, options.repeats):
        print(row, flush=True)


if __name__ == "__main__":
    main()
