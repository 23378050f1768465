"""Engine on a llama-server."""
