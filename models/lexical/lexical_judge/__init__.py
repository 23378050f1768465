"""The lexical judge: a small Llama network with computed weights, without training.

    normalisation.tsv, equivalents.txt ─> text ────────┐
    vocabulary.tsv, scalars.json ──────> committed ─> network ─> model_file ─> lexical.gguf
                                             └──────> numpy_model: the same score, in plain NumPy

It asks one thing: how much of what is judged is covered, word for word, by what is given.
`derivation` and `rules` make the committed files from prose and examples that `labelled` reads.
Nothing here ships with the package.
"""
