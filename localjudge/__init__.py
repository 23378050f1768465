"""Evaluate retrieval-augmented generation offline, with a local GGUF model as the judge.

    import localjudge
    run = localjudge.evaluate("answers.jsonl", judge="models/my-judge.gguf")
    run["context_recall"].mean, run.to_pandas(), run.check(["context_recall>=0.8"])

`__init__.pyi` states the public names, here and for type checkers. Each is imported when it is first used, so that the
import of the package is quick and loads no model library.
"""


def __getattr__(name: str) -> object:
    import ast
    from importlib import import_module, resources
    from importlib.metadata import version

    if name == "__version__":
        return version("localjudge")
    stub = ast.parse((resources.files("localjudge") / "__init__.pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    homes = {alias.name: str(node.module) for node in imports for alias in node.names}
    if name not in {"__all__", *homes}:
        raise AttributeError(f"module 'localjudge' has no attribute {name!r}")
    globals()[name] = value = sorted(homes) if name == "__all__" else getattr(import_module(homes[name]), name)
    return value


def __dir__() -> object:
    return __getattr__("__all__")
