"""Speed of localjudge compared with other ways of asking the same model the same statements.

cases      samples to judge
ways       ways of asking, each sample in a separate process
turns      the order of turns and their results: one line of JSON each
table      seconds per verdict, in Markdown
"""
