"""The recipe of the bundled reader: what prepare.py, train.py, convert.py and evaluate.py share."""
