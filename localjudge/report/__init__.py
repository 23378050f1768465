"""Tables, views and pages of a run, with user text made safe for the terminal."""
