"""Fixtures of the tests of the lexical judge; the model is loaded once."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from bare_llama import BareModel
from lexical_judge import committed
from lexical_judge.committed import Inputs, Vocabulary
from lexical_judge.numpy_model import NumpyJudge


@pytest.fixture(scope="session")
def known() -> Inputs:
    return committed.load()


@pytest.fixture(scope="session")
def labelled_data() -> Path:
    """Folder of public labelled data."""
    if folder := os.environ.get("LOCALJUDGE_TEST_DATA"):
        return Path(folder)
    pytest.skip("needs labelled data: set LOCALJUDGE_TEST_DATA to the folder")


@pytest.fixture(scope="session")
def words(known: Inputs) -> Vocabulary:
    return known.vocabulary


@pytest.fixture(scope="session")
def numpy_judge(known: Inputs) -> NumpyJudge:
    return NumpyJudge(known.vocabulary, known.scalars)


@pytest.fixture(scope="session")
def llama_judge() -> Iterator[BareModel]:
    with BareModel(committed.MODEL) as judge:
        yield judge
