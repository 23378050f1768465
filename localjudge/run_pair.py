"""Two runs on the same questions, for Python: the answers of two columns, compared.

pair = localjudge.evaluate_pair("data.csv", "answer_a", mapping={"response": "answer_b"})
pair.label("sheet.csv"), pair.read_labels("sheet.csv")
pair.compare(), pair.check(["faithfulness.delta>=0"]), pair.verify()
pair.certificate("page.html")
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from localjudge.analysis.check import Check
from localjudge.analysis.compare import MOVED_SAMPLES, join_statements
from localjudge.analysis.comparison import Obstacle, RunComparison
from localjudge.analysis.gate_decisions import Undecided
from localjudge.arguments import check_arguments
from localjudge.engine.protocol import Engine
from localjudge.judging.jury import JudgeNames
from localjudge.judging.plan import Data
from localjudge.judging.verify import PairVerification, Verification, verify_both
from localjudge.labels.drawing import DrawingOptions
from localjudge.labels.labelling import Labelling
from localjudge.labels.read_labels import LabelsRead, read_labels
from localjudge.progress import Progress
from localjudge.report.certificate import Certificate
from localjudge.report.comparison_views import comparison_view
from localjudge.report.difference_certificate import write_difference_certificate
from localjudge.report.label_page import write_labelling
from localjudge.report.terminal import as_html
from localjudge.run import Run
from localjudge.run_directory.comparison_directory import ComparisonDirectory
from localjudge.types import Language


@dataclass(frozen=True, eq=False)
class RunPair:
    """Two finished runs in one directory: the baseline, and the new run."""

    directory: Path
    baseline: Run
    run: Run

    @classmethod
    @check_arguments
    def open(cls, directory: str | Path) -> Self:
        """Open the comparison in a directory. Raises RunDirectoryError."""
        comparison = ComparisonDirectory.open(directory)
        baseline = Run.open(comparison.baseline_path)
        return cls(comparison.path, baseline, Run.open(comparison.run_path))

    @property
    def comparison(self) -> RunComparison:
        """The difference of each metric, as `compare` gives it."""
        return self.compare()

    @check_arguments
    def compare(self, *, by: str | None = None, moved: int = MOVED_SAMPLES) -> RunComparison:
        """Compare the run with its baseline, as `Run.compare` does."""
        return self.run.compare(self.baseline, by=by, moved=moved)

    @check_arguments
    def label(
        self,
        out: str | Path,
        *,
        sample: int | None = None,
        metrics: str | Sequence[str] | None = None,
        annotator: str | None = None,
        language: Language = "en",
        show_evidence: bool = False,
    ) -> Path:
        """Draw `sample` statements (50) of both runs together, and write them for annotators.

        They are drawn by what each can change in the difference; equal ones are not asked. The
        arguments are those of `Run.label`. Raises InputError if nothing can change a difference.
        """
        path = Path(out).expanduser()
        if isinstance(metrics, str):
            metrics = [metrics]
        options = DrawingOptions(sample=sample, metrics=metrics)
        source = join_statements(ComparisonDirectory.open(self.directory))
        labelling = Labelling(source, annotator, options, show_evidence=show_evidence)
        write_labelling(path, labelling, language=language)
        return path

    @check_arguments
    def read_labels(self, file: str | Path, annotator: str | None = None) -> LabelsRead:
        """Import the labels of a sheet or page of both runs, as `Run.read_labels` does."""
        source = join_statements(ComparisonDirectory.open(self.directory))
        return read_labels(source, file, annotator)

    @check_arguments
    def check(
        self,
        gates: Sequence[str] = (),
        *,
        undecided: Undecided = "fail",
        allow_different: Obstacle | Sequence[Obstacle] = (),
    ) -> Check:
        """Decide gates such as "faithfulness.delta>=0", as `Run.check` does."""
        return self.run.check(
            gates, baseline=self.baseline, undecided=undecided, allow_different=allow_different
        )

    @check_arguments
    def report(
        self,
        out: str | Path | None = None,
        *,
        gates: Sequence[str] = (),
        title: str | None = None,
        by: str | None = None,
    ) -> Path:
        """Write both runs side by side as one HTML page, by default in the directory of the run.

        Arguments as in `Run.report`.
        """
        return self.run.report(out, baseline=self.baseline, gates=gates, title=title, by=by)

    @check_arguments
    def certificate(
        self,
        file: str | Path,
        *,
        title: str | None = None,
        language: Language = "en",
        gates: Sequence[str] = (),
        by: str | None = None,
    ) -> Certificate:
        """Write one printable page on the difference, as `Run.certificate` does on a mean.

        It contains no texts. Call `verify` before.
        """
        comparison = ComparisonDirectory.open(self.directory)
        return write_difference_certificate(
            comparison, file, title=title, language=language, gates=gates, by=by
        )

    @check_arguments
    def verify(
        self,
        *,
        judge: JudgeNames | None = None,
        engine: Engine | None = None,
        sample: int | None = None,
        data: Data | None = None,
        progress: Progress | bool | None = None,
    ) -> PairVerification:
        """Verify both runs, as `Run.verify` does with these arguments, and the joint labels."""

        def verify(run: Run) -> Verification:
            return run.verify(
                judge=judge, engine=engine, sample=sample, data=data, progress=progress
            )

        return verify_both(self.directory, self.baseline, self.run, verify)

    def _repr_html_(self) -> str:
        return as_html(*comparison_view(self.comparison))
