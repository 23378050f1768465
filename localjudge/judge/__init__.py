"""Prompts and valid answers, independent of the engine."""
