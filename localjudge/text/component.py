"""spaCy component that sets sentence starts, and its tokenizer. A start inside a token is ignored."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from spacy.language import Language
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc
from spacy.util import compile_infix_regex
from spacy.vocab import Vocab

from localjudge.text.languages import conventions_of
from localjudge.text.stops import sentence_starts, stop_pattern

COMPONENT = "localjudge_sentences"

_SOURCE = "localjudge_source"  # key of the text: rebuilding it from the tokens takes a quarter of the total time
_STOPS = "".join(Sentencizer.default_punct_chars)
_INFIXES = (
    f"[{re.escape(_STOPS.replace('.', ''))}]+[\"'”’»)\\]」』）】》]*(?=\\w)",
    r"(?<=[0-9\"'”’»)\]])\.(?=[^\W\d_])",
    r"(?<=[.…])[\"'”’»)\]]+(?=\w)",
    r"\](?=[^\W\d_])",
)
_SIGN_RUN = re.compile(r"[^\w\s]{8,}")
_UNBROKEN = re.compile(rf"({_SIGN_RUN.pattern}|\S{{1000}})")


class SentenceRules:
    """Set the sentence starts of a document by the rules for the pipeline's language."""

    def __init__(self, nlp: Language, abbreviations: Sequence[str] = ()) -> None:
        language, defaults = str(nlp.meta["lang"]), nlp.Defaults
        exceptions = defaults.tokenizer_exceptions
        self._conventions = conventions_of(language, defaults.stop_words, exceptions, abbreviations)
        self._pattern = stop_pattern(_STOPS + self._conventions.stops)
        self._last: tuple[str, list[int]] = ("", [])

    def starts(self, text: str) -> list[int]:
        if self._last[0] != text:
            self._last = (text, sentence_starts(text, self._pattern, self._conventions))
        return self._last[1]

    def __call__(self, doc: Doc) -> Doc:
        text = doc.user_data.get(_SOURCE) or doc.text
        is_start = np.zeros(len(text) + 1, dtype=bool)
        is_start[[0, *self.starts(text)]] = True
        column: Any = np.where(is_start[doc.to_array(["IDX"])], 1, -1).astype(np.uint64).reshape(-1, 1)
        doc.from_array(["SENT_START"], column)
        return doc


class SteadyTokenizer:
    """Tokenize long runs without white space in linear time. spaCy needs 17 seconds for 16,000 exclamation marks."""

    def __init__(self, tokenizer: Callable[[str], Doc], vocab: Vocab) -> None:
        self._tokenizer = tokenizer
        self._vocab = vocab

    def __call__(self, text: str) -> Doc:
        if not _UNBROKEN.search(text):
            doc = self._tokenizer(text)
        else:
            tokens: list[tuple[str, bool]] = []
            for part in filter(None, _UNBROKEN.split(text)):
                if _SIGN_RUN.fullmatch(part):
                    tokens.append((part, False))
                else:
                    tokens += [(token.text, bool(token.whitespace_)) for token in self._tokenizer(part)]
            doc = Doc(self._vocab, words=[word for word, _ in tokens], spaces=[space for _, space in tokens])
        doc.user_data[_SOURCE] = text
        return doc


@Language.factory(COMPONENT, assigns=["token.is_sent_start", "doc.sents"], default_config={"abbreviations": []})
def create_component(nlp: Language, name: str, abbreviations: list[str]) -> SentenceRules:
    return SentenceRules(nlp, abbreviations)


def blank_pipeline(language: str, abbreviations: Sequence[str] = ()) -> Language:
    """Create spaCy's blank pipeline with this component. Raises ImportError like `spacy.blank`."""
    from spacy import blank

    nlp = blank(language)
    if hasattr(nlp.tokenizer, "infix_finditer"):
        nlp.tokenizer.infix_finditer = compile_infix_regex([*(nlp.Defaults.infixes or ()), *_INFIXES]).finditer
        nlp.tokenizer = SteadyTokenizer(nlp.tokenizer, nlp.vocab)
    nlp.add_pipe(COMPONENT, config={"abbreviations": list(abbreviations)})
    return nlp
