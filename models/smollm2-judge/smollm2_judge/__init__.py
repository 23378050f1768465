"""A small judge by training: a LoRA adapter for SmolLM2-135M-Instruct that tells supported from unsupported statements.

    rows ─> batches ─> model ─> training ─> adapter
                          measures ─┘

`rows`, `batches` and `measures` need no torch, and their tests run anywhere. Nothing here ships with the package.
"""
