"""Examine a model and a machine before trusting their numbers."""
