"""Find the sentences of a text that come closest to a statement."""
