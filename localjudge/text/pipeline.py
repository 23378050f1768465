"""spaCy pipelines by language or by name, each loaded once per process."""

from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING

from localjudge.errors import UsageError

if TYPE_CHECKING:
    from spacy.language import Language

RULES_VERSION = "0"
"""Changes whenever our rules cut any text differently."""


@cache
def load_pipeline(language: str, name: str | None) -> "Language":
    """Return the named installed pipeline, or ours for the language. Raises UsageError where there is none."""
    import spacy

    try:
        nlp = spacy.load(name) if name else spacy.blank(language)
    except (ImportError, OSError) as error:
        wanted = f"spaCy pipeline {name!r}" if name else f"language {language!r}"
        raise UsageError(f"cannot load the {wanted}: {error}", hint="name an installed pipeline or language") from error
    if not name:
        nlp.add_pipe("sentencizer")
    return nlp


def pipeline_identity(language: str, name: str | None) -> dict[str, str]:
    """Name and version of what cuts, for a signature."""
    meta = load_pipeline(language, name).meta
    return {
        "name": name or "localjudge",
        "version": version("spacy"),
        "rules": str(meta["version"]) if name else RULES_VERSION,
        "language": str(meta["lang"]),
    }
