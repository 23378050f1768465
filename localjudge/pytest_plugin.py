"""pytest plugin for assertions on judged scores. Installed with the package.

    def test_the_pipeline(assert_score):
        sample = {
            "user_input": QUESTION,
            "response": answer(QUESTION),
            "retrieved_contexts": search(QUESTION),
        }
        assert_score(sample, "faithfulness", at_least=0.8)

    def test_the_data_set(assert_gates):
        assert_gates("questions.jsonl", ["context_recall>=0.8", "faithfulness>=0.9"])

The judge is `--localjudge-judge`, else the configuration file's in the root directory with its
settings, else the bundled judge. Runs go to one directory per session (`--localjudge-out`), with a
folder per xdist worker: `asserted-1` ... for samples with the same metrics, `data-1` ... for data
sets. localjudge is imported on first use.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from localjudge.open_judge import Judge
    from localjudge.run_directory.result_rows import ScoreRow, VerdictRow
    from localjudge.types import Sample

_SHOWN = 10
_RUNS = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("localjudge")
    group.addoption(
        "--localjudge-judge",
        metavar="NAME|PATH",
        help="Judge of assert_score. Default: the configuration file's.",
    )
    about_out = 'Directory for the runs of the session; "" for none. Default: runs/pytest-<time>.'
    group.addoption("--localjudge-out", metavar="DIR", help=about_out)


class AssertedSession:
    """Assertions of a test session. Their samples are written by the judge of the session."""

    def __init__(self, judge: "Judge", config: pytest.Config) -> None:
        self._judge = judge
        self._rows: dict[str, Mapping[str, Any]] = {}
        self._metrics: dict[str, set[str]] = {}
        self._data_sets = 0
        self._directory = _directory(config)
        self.runs: list[str] = []

    def check_score(
        self,
        judge: "Judge",
        sample: "Mapping[str, Any] | Sample",
        metric: str,
        test: str,
        limits: tuple[float, float],
        *,
        expected: bool,
    ) -> float:
        """Return the score of a sample, or the expected one.

        Fails the `test` if it is outside of the limits.
        """
        __tracebackhide__ = True
        from localjudge.errors import InputError
        from localjudge.run_directory.result_rows import score_rows
        from localjudge.types import Sample

        if not isinstance(sample, Mapping | Sample):
            hint = "a mapping or a localjudge.Sample; assert_gates takes a data set"
            raise InputError(f"assert_score takes one sample, got {sample!r:.80}", hint=hint)
        fields: Mapping[str, Any]
        if isinstance(sample, Mapping):
            fields = sample
        else:
            fields = sample.model_dump(exclude_none=True)
        row = self._identify(fields, test)
        evaluated: list[Any] = []
        for result in judge.evaluations([row], [metric]):
            if result.metric == metric:
                evaluated.append(result)
        self._rows[row["id"]] = row
        self._metrics.setdefault(row["id"], set()).add(metric)
        [evaluation] = evaluated
        [score] = score_rows(evaluated)
        at_least, at_most = limits
        value = score.score
        if expected:
            value = score.expected
        if value is None or not at_least <= value <= at_most:
            threshold = judge.settings.threshold_for(metric)
            self._fail_score(score, value, evaluation.verdicts, limits, threshold)
        return value

    def _identify(self, row: Mapping[str, Any], test: str) -> Mapping[str, Any]:
        """Return the row with its id, or with the name of the test. Other rows have other ids."""
        name = test
        if row.get("id") is not None:
            name = str(row["id"])
        while self._rows.get(name, {**row, "id": name}) != {**row, "id": name}:
            name += "'"
        return {**row, "id": name}

    def _fail_score(
        self,
        score: "ScoreRow",
        value: float | None,
        verdicts: "Iterable[VerdictRow]",
        limits: tuple[float, float],
        threshold: float,
    ) -> NoReturn:
        """Fail the test with the sentences that make the score too low or too high."""
        __tracebackhide__ = True
        from localjudge.report.sample_views import describe_score
        from localjudge.words import printable

        at_least, at_most = limits
        bad_label = 0
        if value is not None and value > at_most:
            bad_label = 1
        head = printable(f"{score.sample_id}: {score.metric} {describe_score(score)}")
        end = f"  a verdict is 1 at {threshold:g} or above"
        if self._directory is not None:
            end += f"; the run will be in {self._directory}"
        lines = [
            f"{head}, not in {at_least:g} to {at_most:g}",
            *_sentences([verdict for verdict in verdicts if verdict.label == bad_label]),
            end,
        ]
        pytest.fail("\n".join(lines), pytrace=False)

    def check_gates(
        self,
        judge: "Judge",
        data: Any,
        gates: Sequence[str],
        rules: Mapping[str, Any],
        options: dict[str, Any],
        make_folder: Callable[[], Path],
    ) -> Any:
        """Return the run of the data, and fail the test if a gate fails.

        `rules` are arguments of `Run.check`, `options` of `localjudge.evaluate`. The run is below
        a folder of `make_folder` if the session has no directory.
        """
        __tracebackhide__ = True
        from localjudge.analysis.check import check
        from localjudge.analysis.gates import parse_gate
        from localjudge.api import evaluate

        conditions = [*gates, *_as_list(options.get("until", ()))]
        metrics = dict.fromkeys(parse_gate(gate).metric for gate in conditions)
        options.setdefault("metrics", list(metrics))
        self._data_sets += 1
        below = self._directory or make_folder()
        out = options.pop("out", None) or below / f"data-{self._data_sets}"
        baseline = rules["baseline"]
        run = evaluate(data, judge=judge, out=out, baseline=baseline, progress=False, **options)
        self.runs.append(str(out))
        decisions = check(run, gates=conditions, **rules).decisions
        failed = [decision for decision in decisions if not decision.passed]
        if failed:
            lines: list[str] = []
            bad_labels: dict[str, int] = {}
            for decision in failed:
                lines.append(f"{decision.gate}: {decision.outcome}, {decision.reason}")
                is_upper_limit = parse_gate(decision.gate).comparison.startswith("<")
                bad_labels[decision.metric] = int(is_upper_limit)
            rows = [row for row in run.iter_verdicts() if bad_labels.get(row.metric) == row.label]
            pytest.fail("\n".join([*lines, *_sentences(rows), f"  run {out}"]), pytrace=False)
        return run

    def write(self) -> None:
        """Write one run for each set of metrics, from answers in memory."""
        if self._directory is None:
            return
        from localjudge.api import evaluate

        groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
        for name, row in self._rows.items():
            groups.setdefault(tuple(sorted(self._metrics[name])), []).append(row)
        for number, (metrics, rows) in enumerate(groups.items(), start=1):
            out = f"{self._directory}/asserted-{number}"
            evaluate(rows, judge=self._judge, metrics=metrics, out=out, progress=False)
            self.runs.append(out)


def _directory(config: pytest.Config) -> Path | None:
    """Return the directory for the runs of the session, or None for none."""
    from localjudge.judging.plan import below_runs

    out = config.getoption("--localjudge-out")
    if out == "":
        return None
    worker: dict[str, str] | None = getattr(config, "workerinput", None)
    if worker is not None:
        whole = Path(out) if out else below_runs(f"pytest-{worker['testrunuid'][:8]}")
        return whole / worker["workerid"]
    started = f"{datetime.now():%Y%m%d-%H%M%S}"
    if not out:
        return below_runs(f"pytest-{started}")
    whole = Path(out)
    if whole.exists() and any(whole.iterdir()):
        return whole / started  # another session's is there
    return whole


def _without_our_frames(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with our own errors without their frames."""

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        from localjudge.errors import LocaljudgeError

        try:
            return function(*arguments, **options)
        except LocaljudgeError as error:
            raise error.with_traceback(None) from None

    return call


@pytest.fixture(scope="session")
def localjudge_judge(request: pytest.FixtureRequest) -> "Iterator[Judge]":
    """An open `localjudge.Judge` for the session."""
    __tracebackhide__ = True
    with _open(request.config) as opened:
        yield opened


@_without_our_frames
def _open(config: pytest.Config) -> "Judge":
    from localjudge.config import CONFIG_FILE, read_config
    from localjudge.judging.judges import default_judge
    from localjudge.judging.settings import JudgeSettings, checked
    from localjudge.open_judge import Judge

    file = config.rootpath / CONFIG_FILE
    arguments: Mapping[str, Any] = {}
    if file.is_file():
        arguments = read_config(file, named=False).arguments
    names = JudgeSettings.__annotations__
    settings = {name: value for name, value in arguments.items() if name in names}
    judge = config.getoption("--localjudge-judge") or arguments.get("judge") or default_judge()
    return Judge.with_settings(judge, checked(settings))


@pytest.fixture(scope="session")
def localjudge_session(
    localjudge_judge: "Judge",
    request: pytest.FixtureRequest,
) -> "Iterator[AssertedSession]":
    session = AssertedSession(localjudge_judge, request.config)
    yield session
    session.write()
    request.config.stash[_RUNS] = session.runs


@pytest.fixture
def assert_score(
    localjudge_judge: "Judge",
    localjudge_session: "AssertedSession",
    request: pytest.FixtureRequest,
) -> "Callable[..., float]":
    """`assert_score(sample, metric, at_least=..., at_most=...)` returns the score, or fails with
    the sentences; with `expected=True` the expected score.
    """

    @_without_our_frames
    def check_score(
        sample: "Mapping[str, Any] | Sample",
        metric: str,
        *,
        at_least: float = 0.0,
        at_most: float = 1.0,
        expected: bool = False,
    ) -> float:
        """Return the score of a sample, or its `expected` score, from 0 to 1.

        Fails the test if it is below `at_least`, above `at_most`, or missing. Raises InputError
        (DataError).
        """
        __tracebackhide__ = True
        limits = (at_least, at_most)
        test = request.node.nodeid
        return localjudge_session.check_score(
            localjudge_judge, sample, metric, test, limits, expected=expected
        )

    return check_score


@pytest.fixture
def assert_gates(
    localjudge_judge: "Judge",
    localjudge_session: "AssertedSession",
    tmp_path_factory: pytest.TempPathFactory,
) -> "Callable[..., Any]":
    """`assert_gates(data, gates, baseline=None, **options)` returns the run, or fails with the
    failed gates.
    """

    @_without_our_frames
    def check_gates(
        data: Any,
        gates: str | Sequence[str] = (),
        *,
        baseline: Any = None,
        undecided: Any = "fail",
        allow_different: Any = (),
        **options: Any,
    ) -> Any:
        """Evaluate data with the session's judge, check the gates, and return the run.

        `options` as in `localjudge.evaluate`, with `until` in place of `gates`; `metrics` are by
        default those of the gates.
        """
        __tracebackhide__ = True
        rules = {
            "baseline": baseline,
            "undecided": undecided,
            "allow_different": allow_different,
        }
        make_folder = partial(tmp_path_factory.mktemp, "localjudge")
        conditions = _as_list(gates)
        return localjudge_session.check_gates(
            localjudge_judge, data, conditions, rules, options, make_folder
        )

    return check_gates


def _as_list(gates: str | Sequence[str]) -> Sequence[str]:
    if isinstance(gates, str):
        return [gates]
    return gates


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    runs = config.stash.get(_RUNS, [])
    if not runs:
        return
    terminalreporter.section("localjudge", sep="-")
    for run in runs:
        terminalreporter.write_line(f"localjudge show {run}")


def _sentences(rows: "Sequence[VerdictRow]") -> list[str]:
    from localjudge.report.sample_views import format_verdict

    lines = [format_verdict(row) for row in rows[:_SHOWN]]
    if len(rows) > _SHOWN:
        lines.append(f"  and {len(rows) - _SHOWN} more in the run")
    return lines
