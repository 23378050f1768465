"""localjudge inside other evaluators: one module for each, which nothing else imports; each package is an extra."""
