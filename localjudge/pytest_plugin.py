"""A pytest plugin: judged scores as assertions. Installed with the package; what no test asks for costs nothing.

    def test_the_pipeline(assert_score):
        sample = {"user_input": QUESTION, "response": answer(QUESTION), "retrieved_contexts": found(QUESTION)}
        assert_score(sample, "faithfulness", at_least=0.8)

    def test_the_data_set(assert_gates):
        assert_gates("questions.jsonl", ["context_recall>=0.8", "faithfulness>=0.9"])

    judge          fixture: an open `localjudge.Judge`, loaded when the first test asks for it, one for the session
    assert_score   fixture: fails a test with the sentences that missed
    assert_gates   fixture: fails a test with the gates that were missed, and the sentences behind

Which judge: `--localjudge-judge`, else the suite `localjudge.toml` of the root directory with all its settings, else
the reference judge. What was asserted is left below one directory a session (`--localjudge-out`, "" for none), where
`localjudge show` and `report` find it: `asserted-1`, and more where tests asserted different metrics of different
samples; `data-1` for a data set; below a folder of its own for each worker of xdist. Override the fixture `judge` to
bring an engine of your own.

Nothing of localjudge but names is imported before a test uses it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import pytest

if TYPE_CHECKING:
    from localjudge.open_judge import Judge
    from localjudge.record.result_rows import ScoreRow, VerdictRow
    from localjudge.types import Sample

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_SHOWN = 10
"""Sentences of a failed assertion that are shown; all are in the run directory."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Which judge, and where to."""
    group = parser.getgroup("localjudge")
    group.addoption("--localjudge-judge", metavar="NAME|PATH", help="Judge of assert_score. Default: the suite's.")
    group.addoption(
        "--localjudge-out",
        metavar="DIR",
        help='Directory for the runs of the session; "" for none. Default: runs/pytest-<time>.',
    )


class AssertedSession:
    """What the tests of a session have asserted, and the judge that they asked."""

    def __init__(self, judge: "Judge", config: pytest.Config) -> None:
        self._judge = judge
        self._rows: dict[str, Mapping[str, Any]] = {}
        self._metrics: dict[str, set[str]] = {}
        self.runs: list[str] = []
        self.data_sets = 0
        self.directory = _directory(config)

    def identified(self, row: Mapping[str, Any], test: str) -> Mapping[str, Any]:
        """The row with an id. One id with two contents gets the name of its test in front."""
        name = str(row["id"]) if row.get("id") is not None else test
        while self._rows.get(name, {**row, "id": name}) != {**row, "id": name}:
            name = f"{test}: {name}" if not name.startswith(test) else f"{name}'"
        return {**row, "id": name}

    def add(self, row: Mapping[str, Any], metric: str) -> None:
        """Note what was asserted and could be asked."""
        self._rows[row["id"]] = row
        self._metrics.setdefault(row["id"], set()).add(metric)

    def write(self) -> None:
        """Leave what was asserted: samples with the same metrics are one run. Nothing is asked that was answered."""
        groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
        for name, row in self._rows.items() if self.directory else ():
            groups.setdefault(tuple(sorted(self._metrics[name])), []).append(row)
        from localjudge.api import evaluate

        for number, (metrics, rows) in enumerate(groups.items(), start=1):
            out = f"{self.directory}/asserted-{number}"
            evaluate(rows, judge=self._judge, metrics=metrics, out=out, progress=False)
            self.runs.append(out)


def _directory(config: pytest.Config) -> Path | None:
    """Where runs are left; None for nowhere. A worker of xdist has a directory of its own below it."""
    out = config.getoption("--localjudge-out")
    if out == "":
        return None
    worker: dict[str, str] | None = getattr(config, "workerinput", None)
    started = worker["testrunuid"][:8] if worker else f"{datetime.now():%Y%m%d-%H%M%S}"
    whole = Path(out or f"runs/pytest-{started}")
    if out and not worker and whole.exists() and any(whole.iterdir()):
        whole /= started  # another session's is there
    return whole / worker["workerid"] if worker else whole


def _without_our_frames(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """A test that fails by an error of ours shows the line of the test, and not where in localjudge it was raised."""

    @wraps(function)
    def call(*arguments: _Arguments.args, **options: _Arguments.kwargs) -> _Result:
        __tracebackhide__ = True
        from localjudge.errors import LocaljudgeError

        try:
            return function(*arguments, **options)
        except LocaljudgeError as error:
            raise error.with_traceback(None) from None

    return call


_RUNS = pytest.StashKey[list[str]]()
_LEFT = "localjudge_runs"


@pytest.fixture(scope="session")
def judge(request: pytest.FixtureRequest) -> "Iterator[Judge]":
    """An open judge, one for the session: `judge.evaluate(rows, metrics).scores`, `.verdicts`."""
    __tracebackhide__ = True
    with _open(request.config) as opened:
        yield opened


@_without_our_frames
def _open(config: pytest.Config) -> "Judge":
    from localjudge.open_judge import Judge
    from localjudge.run.judges import DEFAULT_JUDGE
    from localjudge.run.settings import checked, settings_with
    from localjudge.suite import SUITE, read_suite

    file = config.rootpath / SUITE
    suite = read_suite(file, found=True) if file.is_file() else None
    options = (
        {name: value for name, value in suite.settings.items() if name not in settings_with("data")} if suite else {}
    )
    named = config.getoption("--localjudge-judge") or (suite and suite.arguments.get("judge")) or DEFAULT_JUDGE
    return Judge.with_settings(named, checked(options))


@pytest.fixture(scope="session")
def localjudge_session(judge: "Judge", request: pytest.FixtureRequest) -> "Iterator[AssertedSession]":
    """What is asserted in this session; it is left in a run directory before the judge is closed."""
    session = AssertedSession(judge, request.config)
    yield session
    session.write()
    worker = getattr(request.config, "workeroutput", None)
    if worker is not None:
        worker[_LEFT] = session.runs
    else:
        request.config.stash.setdefault(_RUNS, []).extend(session.runs)


@pytest.fixture
def assert_score(
    judge: "Judge", localjudge_session: "AssertedSession", request: pytest.FixtureRequest
) -> "Callable[..., float]":
    """`assert_score(sample, metric, at_least=..., at_most=...)`: the score, or a failure with the sentences."""
    session = localjudge_session

    @_without_our_frames
    def score_of(
        sample: "Mapping[str, Any] | Sample", metric: str, *, at_least: float = 0.0, at_most: float = 1.0
    ) -> float:
        """The score of one sample on one metric, from 0 to 1.

        The test fails where the score is below `at_least` or above `at_most`, and where there is none, with the
        reason. Raises DataError for a sample that cannot be used, InputError for a metric that there is not.
        """
        __tracebackhide__ = True
        fields = sample if isinstance(sample, Mapping) else sample.model_dump(exclude_none=True)
        row = session.identified(fields, request.node.nodeid)
        [evaluated] = [result for result in judge.evaluations([row], [metric]) if result.metric == metric]
        session.add(row, metric)
        from localjudge.record.result_rows import score_rows, verdict_rows

        [score], verdicts = list(score_rows([evaluated])), list(verdict_rows([evaluated]))
        bounds = " and ".join([f">= {at_least:g}"] * (at_least > 0) + [f"<= {at_most:g}"] * (at_most < 1))
        if score.score is None or not at_least <= score.score <= at_most:
            missed = _missed(score, verdicts, bounds, below=score.score is None or score.score < at_least)
            decided = f"  a verdict is 1 from {judge.settings.threshold_of(metric):g} on"
            where = f"; the run will be below {session.directory}" if session.directory else ""
            pytest.fail(f"{missed}\n{decided}{where}", pytrace=False)
        return score.score

    return score_of


@pytest.fixture
def assert_gates(
    judge: "Judge", localjudge_session: "AssertedSession", tmp_path_factory: pytest.TempPathFactory
) -> "Callable[..., Any]":
    """`assert_gates(data, gates, metrics=None, baseline=None, **options)`: the run, or a failure with what missed."""
    session = localjudge_session

    @_without_our_frames
    def run_of(
        data: Any, gates: str | Sequence[str], *, baseline: Any = None, undecided: Any = "fail", **options: Any
    ) -> Any:
        """Evaluate a data set with the session's judge and hold it to gates such as `context_recall>=0.8`.

        The metrics are those that the gates name, unless `metrics` names others; other options are those of
        `localjudge.evaluate`. Returns the run. Raises InputError for a gate that is none.
        """
        __tracebackhide__ = True
        from localjudge.analysis.check import check, parse_gate
        from localjudge.api import evaluate

        conditions = [gates] if isinstance(gates, str) else list(gates)
        options.setdefault("metrics", list(dict.fromkeys(parse_gate(gate).metric for gate in conditions)))
        session.data_sets += 1
        below = session.directory or tmp_path_factory.mktemp("localjudge")
        out = options.pop("out", None) or below / f"data-{session.data_sets}"
        run = evaluate(data, judge=judge, out=out, progress=False, **options)
        session.runs.append(str(out))
        failed = [
            decision
            for decision in check(run, gates=conditions, baseline=baseline, undecided=undecided).decisions
            if not decision.kept
        ]
        if failed:
            lines = [f"{decision.gate}: {decision.outcome}, {decision.reason}" for decision in failed]
            culprits = {decision.metric: int(parse_gate(decision.gate).comparison[0] == "<") for decision in failed}
            rows = [row for row in run.iter_verdicts() if culprits.get(row.metric) == row.label]
            pytest.fail("\n".join([*lines, *_sentences(rows), f"  run {out}"]), pytrace=False)
        return run

    return run_of


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker of xdist has come to its end, and says what it left."""
    node.config.stash.setdefault(_RUNS, []).extend(getattr(node, "workeroutput", {}).get(_LEFT, ()))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say where the runs are."""
    if runs := config.stash.get(_RUNS, []):
        terminalreporter.write_sep("-", "localjudge")
    for run in runs:
        terminalreporter.write_line(f"localjudge show {run}")


def _missed(score: "ScoreRow", verdicts: "Sequence[VerdictRow]", bounds: str, *, below: bool) -> str:
    """Score and promise, then the sentences that were called 0, or 1 where the score is too high."""
    from localjudge.words import printable

    head = f"{printable(score.sample_id)}: {score.metric} "
    if score.score is None:
        reason = printable(score.detail or "no reason is known")
        return f"{head}is {score.status}{f', wanted {bounds}' if bounds else ''}: {reason}"
    share = (
        f"{score.numerator:g}/{score.denominator:g} = "
        if score.denominator is not None and score.numerator is not None
        else ""
    )
    culprits = [row for row in verdicts if row.label == (0 if below else 1)]
    return "\n".join([f"{head}{share}{score.score:.3f}, wanted {bounds}", *_sentences(culprits)])


def _sentences(rows: "Sequence[VerdictRow]") -> list[str]:
    from localjudge.words import printable

    shown = [
        f"  {row.label} {'' if row.p_yes is None else f'{row.p_yes:.3f} '}{printable(row.text)}"
        for row in rows[:_SHOWN]
    ]
    more = len(rows) - len(shown)
    return [*shown, f"  and {more} more in the run"] if more > 0 else shown
