"""The reference judge: a small Llama-architecture network whose weights are computed, not trained.

    vocabulary.tsv ─> vocabulary, stems, tokenizer ─> layout (embedding) ─┐
    scalars.json ──────────────────────────────────> heads, readout ──────┼─> model_file ─> reference-judge.gguf
                                            positions, circuit ───────────┘       │
                                                       numpy_model  ── the same score, in plain NumPy

It asks one thing: how much of what is judged is covered, word for word, by what is given. `counting`, `rule_fitting`
and `inputs` derive the two committed files from prose and labelled examples. Nothing here ships with the package.
"""
