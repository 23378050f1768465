"""The sentence rules of a language, also as a spaCy component.

In a document, a start inside a token is ignored.
"""

from collections.abc import Sequence
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


class SentenceRules:
    """Find the sentence starts of a text, or set those of a document, by a language's rules."""

    def __init__(
        self,
        language: str,
        defaults: type[BaseDefaults],
        abbreviations: Sequence[str] = (),
    ) -> None:
        exceptions = defaults.tokenizer_exceptions
        self._conventions = load_conventions(
            language,
            defaults.stop_words,
            exceptions,
            abbreviations,
        )
        self._pattern = stop_pattern(_STOPS + self._conventions.stops)

    def starts(self, text: str) -> list[int]:
        return sentence_starts(text, self._pattern, self._conventions)

    def __call__(self, doc: Doc) -> Doc:
        text = doc.text
        is_start = np.zeros(len(text) + 1, dtype=bool)
        is_start[[0, *self.starts(text)]] = True
        offsets = doc.to_array(["IDX"])
        sentence_start: Any = np.where(is_start[offsets], 1, -1).astype(np.uint64)
        doc.from_array(["SENT_START"], sentence_start.reshape(-1, 1))
        return doc


@Language.factory(
    COMPONENT,
    assigns=["token.is_sent_start", "doc.sents"],
    default_config={"abbreviations": []},
)
def create_component(nlp: Language, name: str, abbreviations: list[str]) -> SentenceRules:
    return SentenceRules(str(nlp.meta["lang"]), nlp.Defaults, abbreviations)
