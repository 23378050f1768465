"""The engine on llama.cpp, in process. `engine.py` is the way in."""
