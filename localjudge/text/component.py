"""The spaCy component that sets where sentences begin, and the tokenizer it can rely on.

The rules read characters; the tokens have a veto: where a rule would cut inside a token (an address), nothing is cut.
"""

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

_SOURCE = "localjudge_source"
"""Where the tokenizer leaves the text: to build it back from the tokens takes a quarter of the whole time."""
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
    """Sets `is_sent_start` of every token by the rules for the language of the pipeline."""

    def __init__(self, nlp: Language, abbreviations: Sequence[str] = ()) -> None:
        language, defaults = str(nlp.meta["lang"]), nlp.Defaults
        exceptions = defaults.tokenizer_exceptions
        self._conventions = conventions_of(language, defaults.stop_words, exceptions, abbreviations)
        self._pattern = stop_pattern(_STOPS + self._conventions.stops)
        self._last: tuple[str, list[int]] = ("", [])

    def starts(self, text: str) -> list[int]:
        """Where the rules would begin a sentence; those of the last text are remembered."""
        last, starts = self._last
        if last != text:
            starts = sentence_starts(text, self._pattern, self._conventions)
            self._last = (text, starts)
        return starts

    def __call__(self, doc: Doc) -> Doc:
        """Set the sentence starts of a document, whatever they were before."""
        text = doc.user_data.get(_SOURCE) or doc.text
        is_start = np.zeros(len(text) + 1, dtype=bool)
        is_start[[0, *self.starts(text)]] = True
        column: Any = np.where(is_start[doc.to_array(["IDX"])], 1, -1).astype(np.uint64).reshape(-1, 1)
        doc.from_array(["SENT_START"], column)
        return doc


class SteadyTokenizer:
    """The tokenizer of a language, in time proportional to any text: a long run without white space is read in parts.

    spaCy strips the signs of a word one by one and reads the rest again each time: 16,000 times "!" take it 17 seconds.
    """

    def __init__(self, tokenizer: Callable[[str], Doc], vocab: Vocab) -> None:
        self._tokenizer = tokenizer
        self._vocab = vocab

    def __call__(self, text: str) -> Doc:
        """Tokens of a text; a run of eight signs or more is one token."""
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
    """Create the component, for `nlp.add_pipe("localjudge_sentences")`; `abbreviations` are the user's own."""
    return SentenceRules(nlp, abbreviations)


def blank_pipeline(language: str, abbreviations: Sequence[str] = ()) -> Language:
    """Create spaCy's blank pipeline of a language with this component. Raises ImportError as `spacy.blank` does."""
    from spacy import blank

    nlp = blank(language)
    if hasattr(nlp.tokenizer, "infix_finditer"):
        nlp.tokenizer.infix_finditer = compile_infix_regex([*(nlp.Defaults.infixes or ()), *_INFIXES]).finditer
        nlp.tokenizer = SteadyTokenizer(nlp.tokenizer, nlp.vocab)
    nlp.add_pipe(COMPONENT, config={"abbreviations": list(abbreviations)})
    return nlp
