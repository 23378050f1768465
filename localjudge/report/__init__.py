"""What people read: tables and views of a run, in which user text cannot act on the terminal."""
