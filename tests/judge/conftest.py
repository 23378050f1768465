"""What the tests of the judge share."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def vocabulary_folder() -> Path:
    """Folder with chat templates of common models, named by LOCALJUDGE_TEST_VOCABS."""
    named = os.environ.get("LOCALJUDGE_TEST_VOCABS")
    if not named:
        pytest.skip("needs real chat templates: set LOCALJUDGE_TEST_VOCABS to the folder that holds templates/")
    return Path(named)
