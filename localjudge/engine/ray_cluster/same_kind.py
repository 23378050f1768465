"""Who may judge: workers that give the bytes which this machine would give, or whose difference the signature names.

Bytes are promised for one kind of processor and one build. So a worker's identity is held against that of an engine
here, as far as that is known without the model's weights, and against that of the worker that was let in first.

    here       system: AVX512 = 1 ...     not asked to judge, but what its runs without Ray are signed by
    worker 1   system: AVX512 = 1 ...     let in; its identity is the engine's
    worker 2   system: AVX2 = 1 ...       refused; or, where other processors are allowed, named in the identity

`system` is what the build has, which for a build that suits many processors is the same on all of them: so the names of
the processors are held against each other, too. In the identity they are only where several kinds judge: a run on one
kind is signed as without Ray.
"""

from collections.abc import Mapping
from typing import Any

from localjudge.engine.hardware import processor_name
from localjudge.engine.ray_cluster.judge_worker import WorkerReport, package_versions
from localjudge.errors import ModelError
from localjudge.option_spelling import option
from localjudge.record.keys import canonical_sha256
from localjudge.record.untrusted import shown

Kind = Mapping[str, Any]
_PROCESSOR = "processor"


class KindRule:
    """Lets workers in by what they report; `here` is the identity on this machine, without what a trial would add."""

    def __init__(self, here: Kind, *, allow_others: bool) -> None:
        self._here = {**here, _PROCESSOR: processor_name()}
        self._versions = package_versions()
        self._allow_others = allow_others
        self._kinds: dict[str, Kind] = {}
        self._decided = False

    def refusal(self, report: WorkerReport) -> ModelError | None:
        """Why this worker is refused; None if it is let in."""
        other = {name: there for name, there in report.versions.items() if there != self._versions[name]}
        packages = {"other_packages": other} if other else {}
        kind = {**report.identity, **packages, _PROCESSOR: report.processor}
        known = canonical_sha256(kind)
        if known in self._kinds:
            return None
        first = next(iter(self._kinds.values()), None)
        if first is None:
            different = _apart(self._here, {name: kind.get(name) for name in self._here} | packages)
        else:
            different = _apart(first, kind)
        if (self._allow_others and not self._decided) or (first is None and not different):
            self._kinds[known] = kind
            return None
        return ModelError(
            f"on node {report.node}: it would judge otherwise than {'here' if first is None else 'the others'}:\n"
            + "\n".join(different),
            hint="give it the same packages, and start workers on one kind of processor, that of this machine; or "
            f"{option('allow_other_processors', True)}: then they are named in the signature",
        )

    def identity(self) -> dict[str, Any]:
        """That of an engine in process if all are of one kind; of several, what each has that not all have.

        From now on no other kind is let in: the identity has to stay the same as long as the answers do.
        """
        self._decided = True
        kinds = [self._kinds[known] for known in sorted(self._kinds)]
        common = {name: value for name, value in kinds[0].items() if all(one.get(name) == value for one in kinds)}
        if len(kinds) > 1:
            common["workers"] = [{name: one[name] for name in one if name not in common} for one in kinds]
        common.pop(_PROCESSOR, None)
        return common


def _apart(ours: Kind, theirs: Kind) -> list[str]:
    """What is not the same on both sides, a line each."""
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    return [f"  {name}: {_difference(ours.get(name), theirs.get(name))}" for name in names]


def _difference(ours: Any, theirs: Any) -> str:
    """What is in one and not in the other, where it is a list of features or versions."""
    mine, others = _parts(ours), _parts(theirs)
    there, here = " | ".join(sorted(others - mine)), " | ".join(sorted(mine - others))
    return f"{shown(there or 'nothing')} there, {shown(here or 'nothing')} here"


def _parts(value: Any) -> set[str]:
    if value is None:
        return set()
    if isinstance(value, Mapping):
        return {f"{name} {one}" for name, one in value.items()}
    return {part.strip() for part in str(value).split(" | ")}
