"""Accuracy of judges, and of several judges together, on public labelled texts.

rows         labelled statements and sentences, as samples
questions    the metrics that ask about a whole statement or one sentence
asking       runs of each judge, which can be resumed
figures      AUC, and paired differences of two judges, with intervals
table        the figures in Markdown
"""
