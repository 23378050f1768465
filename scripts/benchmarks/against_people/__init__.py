"""Scores of judges and of other evaluators beside ratings by people (see ../against-people).

ratings -> judging -> figures, labels_needed -> table, picture
"""
