"""Whether the data is in the language that its sentences are cut as."""

from collections.abc import Sequence

from localjudge.run.settings import RunSettings
from localjudge.text.language_fit import misfit
from localjudge.types import Sample


def language_note(samples: Sequence[Sample], settings: RunSettings) -> str | None:
    """One line if it looks as if not, and what to do; None also where a spaCy pipeline cuts in place of our rules."""
    return None if settings.segmenter else misfit([_prose(sample) for sample in samples], settings.language)


def _prose(sample: Sample) -> str:
    """What is cut into sentences; of the contexts, which are much alike, the first."""
    contexts = [context.text for context in (sample.retrieved_contexts or ())[:1]]
    return "\n".join(filter(None, (sample.reference, sample.response, *contexts)))
