"""Comparisons, gates and human labels of finished runs."""
