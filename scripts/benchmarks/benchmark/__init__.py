"""Speed of localjudge compared with other ways of asking the same model the same statements.

cases      what is judged
ways       how it is asked, each sample in a process of its own
turns      whose turn it is, and what came of it: one line of JSON each
table      seconds per verdict, in Markdown
"""
