"""What a finder finds: a model file with the names that it goes by, or something that it skips, and why.

org/repo with model-Q4_K_M.gguf, model-Q8_0.gguf, mmproj-F16.gguf
    org/repo:Q4_K_M              the name: repository and quantisation, where that tells it from its neighbours
    org/repo/mmproj-F16.gguf     else repository and file
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from localjudge.local_models.model_parts import PART_ENDING

_QUANTISATION = re.compile(
    rf"(?:^|[-._/])((?:UD-)?(?:I?Q\d\w*|TQ\d\w*|B?F16|FP16|F32|MXFP4\w*))(?:{PART_ENDING})?\.gguf", re.IGNORECASE
)
_BETWEEN = (":", "@")
"""What stands between a model and its quantisation: Ollama, llama.cpp; LM Studio."""


class FoundModel(NamedTuple):
    """A file that another program calls a model, by a name that no other model of the program has.

    The aliases, which others may have as well, are casefolded.
    """

    program: str
    name: str
    path: Path
    aliases: frozenset[str]

    @property
    def source(self) -> str:
        """What a judge is named by to take this file."""
        return f"{self.program}:{self.name}"


class SkippedFile(NamedTuple):
    """Something that might have been a model: a name or a path, and why it is none."""

    where: str
    reason: str


Found = FoundModel | SkippedFile


def quantisation_in(file: str) -> str | None:
    """The quantisation that the name of a file ends in; None if it names none."""
    named = _QUANTISATION.search(file)
    return named[1].upper() if named else None


def models_in(program: str, repository: str, files: Mapping[str, Path]) -> Iterator[FoundModel]:
    """The models in one repository or folder, by their names in it; "" for a folder that has no name of its own."""
    whole = [file for file in files if not _is_projector(file)]
    tags = Counter(quantisation_in(file) for file in whole)
    for file, path in files.items():
        tag = None if _is_projector(file) else quantisation_in(file)
        if repository and tag and tags[tag] == 1:
            name = f"{repository}:{tag}"
        elif repository and whole == [file]:
            name = repository
        else:
            name = f"{repository}/{file}".lstrip("/")
        aliases = {name, f"{repository}/{file}", Path(file).name, Path(file).stem}
        if repository and file in whole:
            aliases |= set(_short(repository, tag))
        yield FoundModel(program, name, path, frozenset(alias.casefold() for alias in aliases))


def _is_projector(file: str) -> bool:
    """The image or sound part of another model stands beside it, and is not what the repository is named for."""
    return "mmproj" in file.casefold()


def _short(repository: str, tag: str | None) -> Iterator[str]:
    for name in (repository, repository.rpartition("/")[2]):
        yield name
        if tag:
            yield from (f"{name}{between}{tag}" for between in _BETWEEN)
