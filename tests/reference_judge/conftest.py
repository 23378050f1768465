"""The judge's own package lives with the scripts that build it; the model is loaded once."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from reference_judge import scalars, vocabulary  # noqa: E402  the path must be set first
from reference_judge.llama import LoadedJudge  # noqa: E402
from reference_judge.numpy_model import NumpyJudge  # noqa: E402
from reference_judge.scalars import Scalars  # noqa: E402
from reference_judge.vocabulary import Vocabulary  # noqa: E402

INPUTS = ROOT / "models" / "reference-judge"


@pytest.fixture(scope="session")
def words() -> Vocabulary:
    return vocabulary.load(INPUTS / "vocabulary.tsv")


@pytest.fixture(scope="session")
def numbers() -> Scalars:
    return scalars.load(INPUTS / "scalars.json")


@pytest.fixture(scope="session")
def numpy_judge(words: Vocabulary, numbers: Scalars) -> NumpyJudge:
    return NumpyJudge(words, numbers)


@pytest.fixture(scope="session")
def llama_judge() -> Iterator[LoadedJudge]:
    with LoadedJudge(ROOT / "models" / "reference-judge.gguf") as judge:
        yield judge


@pytest.fixture(scope="session")
def data() -> Path:
    folder = os.environ.get("LOCALJUDGE_TEST_DATA")
    if not folder:
        pytest.skip("LOCALJUDGE_TEST_DATA does not name the folder with the labelled data")
    return Path(folder)
