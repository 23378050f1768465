"""localjudge inside other evaluators: one module for each, called like the package that it imports.

Nothing here is imported by anything else, so that none of these packages is needed, or loaded, by those who do not
use it. Each is an extra: `haystack`, `deepeval`, `inspect`.
"""
