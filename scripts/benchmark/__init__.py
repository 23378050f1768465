"""Speed of localjudge beside other ways of asking the same model the same questions, each in a process of its own."""
