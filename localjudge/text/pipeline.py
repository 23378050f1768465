"""spaCy pipelines by language or by name, each loaded once per process."""

import logging
import re
from functools import cache
from hashlib import sha256
from importlib.metadata import entry_points, version
from typing import TYPE_CHECKING, cast

from localjudge.errors import UsageError
from localjudge.suggestion import suggestion
from localjudge.text.conventions import ANY_LANGUAGE
from localjudge.text.quiet_import import import_spacy

if TYPE_CHECKING:
    from spacy.language import Language

RULES_VERSION = "2"
"""Changes whenever our rules cut any text differently."""

_LANGUAGE = re.compile("[a-z]{2,3}")
_logger = logging.getLogger(__name__)


@cache
def rules_pipeline(language: str, abbreviations: tuple[str, ...] = ()) -> "Language":
    """Return the blank pipeline of a language with our rules and the user's abbreviations.

    A language whose tokenizer needs a package that is not installed gets the tokenizer for any language instead, and
    a warning says so. Raises UsageError for a language that spaCy does not know.
    """
    import_spacy()
    from spacy.util import get_lang_class

    from localjudge.text.component import blank_pipeline

    unknown = UsageError(
        f"spaCy knows no language {language!r}", hint="give a code such as 'en' or 'de', or 'xx' for any language"
    )
    if not _LANGUAGE.fullmatch(language):
        raise unknown
    try:
        get_lang_class(language)
    except ImportError as error:
        raise unknown from error
    try:
        return blank_pipeline(language, abbreviations)
    except ImportError as error:
        _logger.warning(
            "sentences of language %r are cut with the tokenizer for any language (%r): %s",
            language,
            ANY_LANGUAGE,
            error,
        )
        return blank_pipeline(ANY_LANGUAGE, abbreviations)


@cache
def named_pipeline(name: str) -> "Language":
    """Load an installed pipeline by its name. Raises UsageError if there is none.

    Its package says that it is one. No other package is imported, and no folder is loaded: who names the pipeline may
    be a stranger, and loading either runs code.
    """
    import_spacy()
    pipelines = entry_points(group="spacy_models")
    if name not in pipelines.names:
        raise UsageError(
            f"no spaCy pipeline called {name!r:.80} is installed",
            hint=suggestion(name, sorted(pipelines.names), "installed")
            if pipelines.names
            else "install its package, or leave it out to use the rules",
        )
    try:
        return cast("Language", pipelines[name].load().load())
    except (ImportError, OSError, ValueError) as error:
        raise UsageError(
            f"cannot load the spaCy pipeline {name!r}: {error}", hint="install the pipeline's package again"
        ) from error


def rules_identity(language: str, abbreviations: tuple[str, ...] = ()) -> dict[str, str]:
    """Name and versions of our rules for a language, for a signature."""
    identity = {
        "name": "localjudge",
        "version": version("spacy"),
        "rules": RULES_VERSION,
        "language": language,
        "tokenizer": str(rules_pipeline(language, abbreviations).meta["lang"]),
    }
    own = {"abbreviations_sha256": sha256("\n".join(abbreviations).encode()).hexdigest()} if abbreviations else {}
    return identity | own


def named_identity(name: str) -> dict[str, str]:
    """Name and versions of an installed pipeline, for a signature."""
    meta = named_pipeline(name).meta
    return {"name": name, "version": version("spacy"), "rules": str(meta["version"]), "language": str(meta["lang"])}
