"""The check that a user runs on a model and a machine before any number of theirs is trusted."""
