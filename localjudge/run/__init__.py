"""Run a job: ask each question once and write a directory from which every number can be traced."""
