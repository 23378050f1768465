"""Speed of localjudge's engine beside other ways of asking the same model the same questions, in one process."""
