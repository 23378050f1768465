"""What judges and prompts are worth on labelled data: the questions (items) and the answers of models (asking)."""
