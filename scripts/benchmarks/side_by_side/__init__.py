"""Compare evaluators on the same model and samples, each evaluator in a separate environment.

samples    answers of two to four labelled sentences
peer       the process in which one evaluator judges samples
running    environments, the model's server, and the order of turns
table      the results, in Markdown
"""
