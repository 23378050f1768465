"""Split text into verbatim sentences before judging."""

from localjudge.text.segmenter import Segmenter, sentences

__all__ = ["Segmenter", "sentences"]
