"""What a run leaves in its directory: files, a store, and what they mean. Imports nothing that judges."""
