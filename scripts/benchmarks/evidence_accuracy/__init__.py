"""Accuracy of the evidence for a statement, on sentences with public labels.

rows         statements with the sentences that could be their evidence
rankings     ways to put these sentences into an order
"""
