"""The check that a user runs on a model and a machine before any number of theirs is trusted.

    machine      packages, memory, state folder, processor, GPU
    model        file, architecture, memory, fork self-check, chat template, prompts read back from their tokens
    judge        legal answers, plain cases, asked again, attempts to talk it into a verdict
    probes       labelled items: how well it tells them apart, bias, sensitivity, order
    admission    what it is fit for: ranking, means, thresholds or nothing

It says what is there, how that was looked at, and what to do about what is not as it should be.
"""
