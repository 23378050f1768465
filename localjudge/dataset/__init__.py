"""Anybody's data as samples: read, recognised and checked row by row before anything is judged."""

from localjudge.dataset.load import Dataset, from_samples, load
from localjudge.dataset.problems import Problem

__all__ = ["Dataset", "Problem", "from_samples", "load"]
