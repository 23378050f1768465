"""What a run leaves in its directory: files, a store, and what they mean.

No module here imports one that judges.
"""
