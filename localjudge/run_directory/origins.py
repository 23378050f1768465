"""What a run has from before its last command: reused or stored answers, and labels."""

from dataclasses import dataclass
from typing import Literal

from localjudge.run_directory.directory import excerpt
from localjudge.run_directory.environment import AnswersUsed, Environment
from localjudge.words import numbered


@dataclass(frozen=True)
class Origin:
    """Answers or labels of a run from before its last command.

    `count` of `total` are from the run or annotator `name`.
    """

    kind: Literal["reused", "stored", "labels"]
    count: int
    total: int
    name: str

    @property
    def is_notable(self) -> bool:
        """Whether this is more than some answers by an earlier command, such as a dry run."""
        return self.kind != "stored" or self.count >= self.total

    def __str__(self) -> str:
        if self.kind == "reused":
            return f"{self.count:,} of {self.total:,} answers were reused from {self.name}"
        if self.kind == "stored":
            return f"{self.count:,} of {self.total:,} answers were stored by earlier commands"
        return f"{numbered(self.count, 'label')} of {self.name} stored before the last command"


def list_origins(environment: Environment) -> list[Origin]:
    """Return the sources of a run's answers and labels before the last command."""
    origins: list[Origin] = []
    answers = environment.answers or AnswersUsed(asked=0, reused={})
    reused = sum(answers.reused.values())
    total = answers.asked + reused
    for source, count in answers.reused.items():
        origins.append(Origin("reused", count, total, excerpt(source)))
    if environment.sessions:
        last = environment.sessions[-1]
        stored = last.answers_before - reused
        if last.asked is not None:  # the last command may have reused some itself
            stored = answers.asked - last.asked
        if stored > 0:
            origins.append(Origin("stored", stored, total, ""))
        for name, count in last.labels_before.items():
            origins.append(Origin("labels", count, count, excerpt(name)))
    return origins
