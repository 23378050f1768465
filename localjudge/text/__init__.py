"""Cuts text into verbatim sentences, so that the words which are judged are the words which were given."""

from localjudge.text.segmenter import Segmenter, sentences

__all__ = ["Segmenter", "sentences"]
