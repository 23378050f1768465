"""Noise sensitivity: how much of the response is wrong because a retrieved context says so. Lower is better.

                                         sentences of the response that are wrong, and that
    noise_sensitivity                    a relevant chunk supports            /  all sentences of the response
    noise_sensitivity(mode=irrelevant)   irrelevant chunks alone support      /  all sentences of the response

A sentence of the response is *wrong* if it cannot be attributed to the reference. A chunk is *relevant* if any sentence
of the reference can be attributed to it. A wrong sentence that chunks of both kinds support counts as misled by the
relevant ones, so that no sentence counts in both modes. A wrong sentence that no chunk supports counts in neither: it
was not retrieved, but made up.

Source: RAGChecker (Ru et al., "RAGChecker: A Fine-grained Framework for Diagnosing Retrieval-Augmented Generation",
2024), as ragas computes it (`NoiseSensitivity`, `mode` relevant or irrelevant). There a model first breaks response and
reference into claims; here their own sentences are the statements, cut before anything is judged. "Wrong" is there as
here "not in the reference": a true sentence beside a short reference counts as wrong.

Empty cases: no sentence in the response or in the reference, or no chunk, is `Undefined`. (RAGChecker gives 0 without a
chunk, ragas an error.)
"""

from dataclasses import dataclass
from typing import Literal, get_args

from localjudge.errors import UsageError
from localjudge.metrics.about import About
from localjudge.metrics.metric import Sentences, Steps
from localjudge.metrics.naming import with_options
from localjudge.metrics.units import SupportTable, against_each_chunk, against_reference, chunks, support_table
from localjudge.types import Sample, Scored, Undefined

Mode = Literal["relevant", "irrelevant"]


@dataclass(frozen=True, kw_only=True)
class NoiseSensitivity:
    """Share of the response's sentences that are wrong and supported by chunks of one kind.

    Raises UsageError for another mode.
    """

    mode: Mode = "relevant"
    version = 1
    lower_is_better = True
    required_fields = frozenset({"response", "reference", "retrieved_contexts"})
    common_tasks = frozenset({"attribution"})
    about = About(
        asks="sentence of the response: is it wrong, and does a relevant (an irrelevant) context say it?",
        verdicts="(sentences of the response + of the reference) x contexts, + sentences of the response",
        source="RAGChecker; ragas NoiseSensitivity",
    )

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise UsageError(
                f"noise_sensitivity has no mode {self.mode!r}", hint="write mode=relevant or mode=irrelevant"
            )

    @property
    def name(self) -> str:
        """`noise_sensitivity`, with the mode if it is `irrelevant`."""
        return with_options("noise_sensitivity", self)

    def steps(self, sample: Sample, sentences: Sentences) -> Steps:
        """Ask about the response against the reference, and about both against every chunk."""
        response, reference = sentences(sample.response or ""), sentences(sample.reference or "")
        passages = list(chunks(sample))
        if not response:
            return Undefined(reason="the response has no sentence")
        if not reference:
            return Undefined(reason="the reference has no sentence")
        if not passages:
            return Undefined(reason="the contexts have no chunk")
        verdicts = yield [
            *against_reference(sample, response),
            *against_each_chunk(sample, "response", response, passages),
            *against_each_chunk(sample, "reference", reference, passages),
        ]
        in_order = iter(verdicts)
        correct = support_table(in_order, len(response), 1)
        response_by_chunk = support_table(in_order, len(response), len(passages))
        reference_by_chunk = support_table(in_order, len(reference), len(passages))
        misled = self._misled(correct, response_by_chunk, reference_by_chunk)
        return Scored(value=misled / len(response), numerator=misled, denominator=len(response))

    def _misled(self, correct: SupportTable, response_by_chunk: SupportTable, reference_by_chunk: SupportTable) -> int:
        """How many sentences of the response are wrong and supported by chunks of the kind; `correct` is one column."""
        relevant = reference_by_chunk.any(axis=0)
        by_any = response_by_chunk.any(axis=1)
        by_relevant = response_by_chunk[:, relevant].any(axis=1)
        supported = by_relevant if self.mode == "relevant" else by_any & ~by_relevant
        return int((supported & ~correct[:, 0]).sum())
