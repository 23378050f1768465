"""Use localjudge inside other evaluators. Each module is optional."""
