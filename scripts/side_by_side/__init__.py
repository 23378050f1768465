"""Evaluators side by side: one model, the same samples, each evaluator in an environment of its own.

samples    labelled statements as answers of two to four sentences
peer       one evaluator at work: the process that is measured
running    environments, the server that they ask, and whose turn it is
table      what came of it, in Markdown
"""
