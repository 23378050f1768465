"""The sentence rules of a language, also as a spaCy component.

In a document, a start inside a token is ignored.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from spacy.language import BaseDefaults, Language
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc

from localjudge.text.languages import load_conventions
from localjudge.text.sentence_starts import sentence_starts
from localjudge.text.stop import stop_pattern

COMPONENT = "localjudge_sentences"

_STOPS = "".join(Sentencizer.default_punct_chars)


FindStarts = Callable[[str], list[int]]
"""Returns the starts of the sentences of a text."""


def load_rules(
    language: str, defaults: type[BaseDefaults], abbreviations: Sequence[str] = ()
) -> FindStarts:
    """Return the rules of a language, with spaCy's words for it and the user's abbreviations."""
    conventions = load_conventions(
        language,
        defaults.stop_words,
        defaults.tokenizer_exceptions,
        abbreviations,
    )
    pattern = stop_pattern(_STOPS + conventions.stops)
    return partial(sentence_starts, pattern=pattern, conventions=conventions)


def set_sentence_starts(doc: Doc, find_starts: FindStarts) -> Doc:
    text = doc.text
    is_start = np.zeros(len(text) + 1, dtype=bool)
    is_start[[0, *find_starts(text)]] = True
    offsets = doc.to_array(["IDX"])
    sentence_start: Any = np.where(is_start[offsets], 1, -1).astype(np.uint64)
    doc.from_array(["SENT_START"], sentence_start.reshape(-1, 1))
    return doc


@Language.factory(
    COMPONENT,
    assigns=["token.is_sent_start", "doc.sents"],
    default_config={"abbreviations": []},
)
def create_component(nlp: Language, name: str, abbreviations: list[str]) -> Callable[[Doc], Doc]:
    find_starts = load_rules(str(nlp.meta["lang"]), nlp.Defaults, abbreviations)
    return partial(set_sentence_starts, find_starts=find_starts)
