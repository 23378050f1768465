"""The command `localjudge`: one file per group of commands, with heavy imports delayed until the call."""
