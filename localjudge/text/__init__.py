"""Split text into verbatim sentences before judging."""

from localjudge.text.segmenter import Segmenter

__all__ = ["Segmenter"]
