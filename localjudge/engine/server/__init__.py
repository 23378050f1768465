"""Engines on a server of this machine: llama-server, `python -m llama_cpp.server`."""
