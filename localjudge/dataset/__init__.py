"""Read data from many tools and check every row before judging."""

from localjudge.dataset.load import Dataset, from_samples, load
from localjudge.dataset.problems import Problem

__all__ = ["Dataset", "Problem", "from_samples", "load"]
