"""What a linear head on a judge's last hidden state would gain over asking it.

rows      labelled questions: people's labels, and labels made from contexts alone
states    what the model holds at the verdict's place, and what it says
ridge     ridge regression on labels, as log odds
heads     fitting, and judging on data sets that were left out
"""
