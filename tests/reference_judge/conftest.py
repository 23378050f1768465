"""The judge's own package lives with the scripts that build it; the model is loaded once."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from reference_judge import committed  # noqa: E402  the path must be set first
from reference_judge.committed import Inputs  # noqa: E402
from reference_judge.llama import LoadedJudge  # noqa: E402
from reference_judge.numpy_model import NumpyJudge  # noqa: E402
from reference_judge.vocabulary import Vocabulary  # noqa: E402


@pytest.fixture(scope="session")
def inputs() -> Inputs:
    return committed.load()


@pytest.fixture(scope="session")
def words(inputs: Inputs) -> Vocabulary:
    return inputs.vocabulary


@pytest.fixture(scope="session")
def numpy_judge(inputs: Inputs) -> NumpyJudge:
    return NumpyJudge(inputs.vocabulary, inputs.scalars)


@pytest.fixture(scope="session")
def llama_judge() -> Iterator[LoadedJudge]:
    with LoadedJudge(committed.MODEL) as judge:
        yield judge
