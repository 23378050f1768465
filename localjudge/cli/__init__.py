"""The command `localjudge`: one file per command, whose heavy imports happen when it is called."""
