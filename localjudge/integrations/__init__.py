"""localjudge inside other evaluators: one optional module each, which nothing else imports."""
