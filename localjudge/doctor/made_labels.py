"""Labels that nobody had to give: what contexts say, and what they do not say.

    1   a sentence of the context
    0   the same with a number, a name or a negation changed, and in turns with that a sentence of another context

Easier than what people label, and enough to fit a head on (docs/judges.md has figures), not to measure a judge by.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from localjudge.analysis.labelled_texts import LabelledText, LabelledTexts
from localjudge.dataset import load
from localjudge.errors import DataError
from localjudge.record.store import canonical_sha256
from localjudge.text.segmenter import Segmenter
from localjudge.types import CONTEXT_FIELDS, context_texts

MOST = 600
"""Labels that are made of one file's contexts: more gain little (docs/judges.md)."""
SHORTEST, LONGEST = 40, 500
"""Characters of a sentence that becomes a statement."""
_NUMBER = re.compile(r"\d+")
_VERB = re.compile(r"\b(is|was|are|were|has|have|had|can|could|will|would)\b(?! not)")  # of English
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}\b")


def made_texts(file: str) -> LabelledTexts:
    """Made labels of the contexts in a file of data. Raises DataError as `load` does, and where none can be made."""
    dataset, cut = load(file), Segmenter()
    of_samples = ([*context_texts(getattr(sample, field))] for sample in dataset.samples for field in CONTEXT_FIELDS)
    contexts = sorted({text for texts in of_samples for text in texts})
    random.Random(0).shuffle(contexts)
    made = tuple(islice(made_labels(contexts, lambda text: [span.text for span in cut(text)]), MOST))
    if not made:
        hint = f"give data with retrieved_contexts of sentences of {SHORTEST} to {LONGEST} characters"
        raise DataError(f"no labels can be made of {file}", hint=hint)
    return LabelledTexts(file, canonical_sha256(made), "made", made, 0)


def made_labels(contexts: Sequence[str], cut: Callable[[str], Sequence[str]], seed: int = 0) -> Iterator[LabelledText]:
    """A statement of each label about each context that has a sentence, as far as they can be made."""
    chance = random.Random(seed)
    sentences = [[each.strip() for each in cut(text)] for text in contexts]
    sentences = [[each for each in of_text if SHORTEST <= len(each) <= LONGEST] for of_text in sentences]
    names = sorted({name for text in contexts for name in _NAME.findall(text)})
    for place, (text, own) in enumerate(zip(contexts, sentences, strict=True)):
        if not own:
            continue
        said = chance.choice(own)
        strange = [each for each in sentences[(place + 1) % len(sentences)] if each not in text]
        wrong = [_changed(said, names, chance), chance.choice(strange) if strange else None]
        unsaid = [each for each in (wrong if place % 2 else wrong[::-1]) if each and each not in text]
        yield LabelledText("", {}, (text,), (1,), said, None)
        yield from (LabelledText("", {}, (text,), (0,), each, None) for each in unsaid[:1])


def _changed(sentence: str, names: Sequence[str], chance: random.Random) -> str | None:
    """With another number, another name or a negation, whatever can be had; None if nothing can."""
    ways = [
        _NUMBER.sub(lambda match: str(int(match[0]) + chance.randint(1, 9)), sentence, count=1),
        _NAME.sub(lambda match: chance.choice(names or [match[0]]), sentence, count=1),
        _VERB.sub(r"\1 not", sentence, count=1),
    ]
    return next((each for each in chance.sample(ways, len(ways)) if each != sentence), None)
