"""Run a job: ask each question once and write a directory that explains every number."""
