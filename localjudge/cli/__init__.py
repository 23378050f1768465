"""The command `localjudge`: one file per group of commands, imported when called."""
