"""What a user may set about a run. `localjudge run --help` and `localjudge.evaluate` offer the same."""

from collections.abc import Mapping
from typing import Any, TypedDict

from pydantic import Field, ValidationError

from localjudge.engine.settings import EngineSettings
from localjudge.errors import UsageError
from localjudge.judge.judge import JudgingProtocol, Reasons
from localjudge.suggestion import suggestion
from localjudge.types import Record

# Where an option of the command line is called otherwise than the setting.
_OPTIONS = {"prompts": "prompt", "mapping": "map", "gates": "gate"}
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "True or False",
    "string": "a text",
    "tuple": "a list",
    "dict": "a mapping",
}


class Options(TypedDict, total=False):
    """The settings as keywords; `RunSettings` says what each means."""

    threshold: float
    min_legal_mass: float
    language: str
    segmenter: str | None
    prompts: tuple[str, ...]
    reasons: Reasons
    protocol: JudgingProtocol
    compare_by: str
    matrix: bool
    mapping: Mapping[str, str]
    context_separator: str | None
    skip_bad_rows: bool
    cluster_by: str | None
    max_failed: int
    n_ctx: int | None
    threads: int | None
    gpu_layers: int | None


class RunSettings(Record):
    """Checked settings of a run."""

    threshold: float = Field(default=0.5, ge=0, le=1)
    """A verdict is 1 if the probability of label 1 is at least this."""
    min_legal_mass: float = Field(default=0.01, ge=0, le=1)
    """A model that gave legal answers less of its probability than this has not answered: no verdict. 0 takes any."""
    language: str = "en"
    """Language whose rules cut sentences (a spaCy language code)."""
    segmenter: str | None = None
    """Installed spaCy pipeline that cuts sentences in place of ours."""
    prompts: tuple[str, ...] = ()
    """Files that word a task in place of the judge's own wording."""
    reasons: Reasons = "none"
    """A reason before the verdict (which may move it), after it (which cannot), or none."""
    protocol: JudgingProtocol = "independent"
    """Each unit by itself, or all statements of a sample in one answer, as RAGAS asks: they then sway each other."""
    compare_by: str = "content"
    """What makes two documents the same in document metrics: `content`, `id` or `meta.a.b`."""
    matrix: bool = False
    """Also judge every statement against every chunk alone, and read the matrix metrics off that table."""
    mapping: Mapping[str, str] = Field(default_factory=dict)
    """Our field -> their column, where the names do not say it: `a.b` reaches into objects, `a,b` joins contexts."""
    context_separator: str | None = None
    """What stands between two contexts where a list of them was written as one text."""
    skip_bad_rows: bool = False
    """Leave out rows with problems and count them, in place of stopping."""
    cluster_by: str | None = None
    """Column that names what samples share (a document): intervals are then over these groups."""
    max_failed: int = Field(default=0, ge=0)
    """So many samples of a metric may fail before it has no headline."""
    n_ctx: int | None = Field(default=None, ge=64)
    """Tokens of context; None: the model's limit, at most 8,192."""
    threads: int | None = Field(default=None, ge=1)
    """Processor threads; None: as many as this process may use."""
    gpu_layers: int | None = Field(default=None, ge=0)
    """Layers to put on a GPU; None: all, if the build has a GPU backend."""

    @property
    def engine(self) -> EngineSettings:
        """The part that concerns the engine."""
        return EngineSettings(n_ctx=self.n_ctx, threads=self.threads, gpu_layers=self.gpu_layers)


def checked(options: Mapping[str, Any]) -> RunSettings:
    """Settings from keywords. Raises UsageError that names the first one that cannot be, as the command line does."""
    names = RunSettings.model_fields
    for name in options:
        if name == "gates":
            raise UsageError(
                "a run takes no gates", hint="decide them when it is done: localjudge.check(run, gates=[...])"
            )
        if name not in names:
            raise UsageError(f"there is no option {name!r}", hint=suggestion(name, names, "the options"))
    try:
        return RunSettings(**options)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        option = f"--{_OPTIONS.get(name, name).replace('_', '-')}"
        raise UsageError(f"{option} must be {_expected(first)}, got {first['input']!r:.80}") from error


def _expected(problem: Mapping[str, Any]) -> str:
    """What a value must be, by what pydantic says that it is not."""
    kind, limits = problem["type"], problem.get("ctx", {})
    match kind:
        case "greater_than_equal":
            return f"at least {limits['ge']:g}"
        case "less_than_equal":
            return f"at most {limits['le']:g}"
        case "literal_error":
            return str(limits["expected"])
    return _KINDS[kind.partition("_")[0]]
