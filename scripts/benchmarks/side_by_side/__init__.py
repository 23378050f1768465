"""Evaluators side by side: the same model, the same samples, each evaluator in an environment of its own.

samples    answers of two to four labelled sentences
peer       the process in which one evaluator judges samples
running    environments, the model's server, and the order of turns
table      the results, in Markdown
"""
