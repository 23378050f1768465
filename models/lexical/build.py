"""Build models/lexical.gguf from this folder, and compare its sha256 with models/registry.toml.

    python models/lexical/build.py

Exit code 1 if they differ.
"""

import hashlib
import sys
import tomllib

from lexical_judge import committed, model_file


def main() -> int:
    """Write the file, then compare."""
    model_file.write(committed.load(), committed.MODEL)
    content = committed.MODEL.read_bytes()
    models = tomllib.loads((committed.MODELS / "registry.toml").read_text(encoding="utf-8"))[
        "model"
    ]
    row = next(model for model in models if model["name"] == "lexical")
    built = hashlib.sha256(content).hexdigest()
    pinned = row["sha256"]
    print(f"built  {built}\npinned {pinned}\n{'the same' if built == pinned else 'DIFFERENT'}")
    return int((len(content), built) != (row["size"], pinned))


if __name__ == "__main__":
    sys.exit(main())
