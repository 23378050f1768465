"""What is said of a setting that cannot be: the argument by its name, what it must be, and what was given."""

from typing import Any

import pytest

from localjudge.errors import InputError
from localjudge.run.settings import NOT_IN_FILES, checked


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("n_ctx", 0, "n_ctx must be at least 64, got 0"),
        ("threads", 0, "threads must be at least 1, got 0"),
        ("gpu_layers", -1, "gpu_layers must be at least 0, got -1"),
        ("max_failed", -1, "max_failed must be at least 0, got -1"),
        ("threshold", 50, "threshold must be at most 1, got 50"),
        ("threshold", -0.5, "threshold must be at least 0, got -0.5"),
        ("threshold", float("nan"), "threshold must be at most 1, got nan"),
        ("threshold", "high", "threshold must be a number, got 'high'"),
        ("threshold", True, "threshold must be a number, got True"),
        ("threshold", "0.5", "threshold must be a number, got '0.5'"),
        ("limit", True, "limit must be a whole number, got True"),
        ("skip_bad_rows", "yes", "skip_bad_rows must be True or False, got 'yes'"),
        ("threshold", None, "threshold must be a number, got None"),
        ("threads", 1.5, "threads must be a whole number, got 1.5"),
        ("threads", "many", "threads must be a whole number, got 'many'"),
        ("skip_bad_rows", "perhaps", "skip_bad_rows must be True or False, got 'perhaps'"),
        ("language", None, "language must be a text, got None"),
        ("reasons", "later", "reasons must be 'none', 'before' or 'after', got 'later'"),
        ("prompts", (1,), "prompts must be names of files, got 1"),
        ("mapping", "a=b", "mapping must be a mapping, got 'a=b'"),
        ("cache", -1, "cache must be at least 0, got -1"),
        ("mapping", {"reference": 3}, "mapping must be a text, got 3"),
    ],
)
def test_a_value_that_cannot_be_is_named_with_its_option(name: str, value: Any, said: str) -> None:
    with pytest.raises(InputError) as refused:
        checked({name: value})
    assert str(refused.value) == said


def test_a_name_that_does_not_exist_gets_the_one_that_was_meant() -> None:
    with pytest.raises(InputError) as refused:
        checked({"thresold": 0.5})
    assert str(refused.value) == "there is no option 'thresold'\n  hint: did you mean threshold?"


def test_a_name_that_is_like_no_other_is_told_what_there_is() -> None:
    """The first twenty of them, in their order."""
    with pytest.raises(InputError, match=r"no option 'xyz'\n  hint: the options are n_ctx, .* and 9 more$"):
        checked({"xyz": 1})


def test_what_is_about_a_cluster_needs_one() -> None:
    with pytest.raises(InputError, match="ray_workers is about a Ray cluster"):
        checked({"ray_workers": 1})


def test_where_a_judge_works_is_not_written_down() -> None:
    """The address of a cluster is the name of a machine; that of a suite is in its file alone."""
    settings = checked({"ray": "head.example:6379", "ray_workers": 3})
    assert "head.example" not in settings.model_dump_json()
    assert {"ray", "ray_workers", "allow_host", "cache"} == NOT_IN_FILES
