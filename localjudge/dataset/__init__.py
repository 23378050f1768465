"""Read data from many tools and check every row before judging."""

from localjudge.dataset.dataset import Dataset, from_samples
from localjudge.dataset.load import load, load_pair
from localjudge.dataset.rows import Problem

__all__ = ["Dataset", "Problem", "from_samples", "load", "load_pair"]
