"""The main job: asks each question once and leaves a directory from which any number can be traced."""
