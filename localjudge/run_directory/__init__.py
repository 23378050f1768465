"""What a run leaves in its directory: files, a store, and what they mean. Never imports a module that judges."""
