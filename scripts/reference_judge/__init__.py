"""The reference judge: a small Llama-architecture network whose weights are computed, not trained.

    normalisation.tsv ─> normalisation, double_array ─────────────────────┐
    vocabulary.tsv ────> vocabulary, stems, tokenizer, layout (embedding) ┼─> model_file ─> reference-judge.gguf
    scalars.json ──────> scalars, positions, circuit, heads, readout ─────┘       │
                                                       numpy_model  ── the same score, in plain NumPy

It asks one thing: how much of what is judged is covered, word for word, by what is given. `counting`, `evidence`,
`rule_fitting` and `inputs` derive the three committed files from prose and labelled examples; `llama` and `evaluation`
measure the result. Nothing here ships with the package.
"""
