"""Evaluate retrieval-augmented generation offline, with a local GGUF model as the judge."""
