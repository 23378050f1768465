"""The committed inputs of the judge, in `models/reference-judge/`, and what they make together."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from . import normalisation, scalars, vocabulary
from .normalisation import Normaliser
from .scalars import Scalars
from .vocabulary import Vocabulary

MODELS = Path(__file__).resolve().parents[2] / "models"
FOLDER = MODELS / "reference-judge"
MODEL = MODELS / "reference-judge.gguf"


class Inputs(NamedTuple):
    """All that the model file is a function of."""

    table: Mapping[str, str]
    vocabulary: Vocabulary
    scalars: Scalars


def load(folder: Path = FOLDER) -> Inputs:
    """Read the three files."""
    table = normalisation.load(folder / "normalisation.tsv")
    known = vocabulary.load(folder / "vocabulary.tsv", Normaliser(table))
    return Inputs(table, known, scalars.load(folder / "scalars.json"))
