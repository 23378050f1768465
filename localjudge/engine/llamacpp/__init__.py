"""In-process engine on llama.cpp. Start reading with `engine.py`."""
