"""What judges and prompts are worth on labelled data: the questions, the answers of models, and the figures."""
