"""Columns for the evidence of a verdict in exports and frames.

    evidence_context, evidence_start, evidence_end, evidence_text, evidence_score, evidence_supports
    evidence_2_context, ...

The first are of the closest sentence, `evidence_2_...` of the second one. Contexts count from 0.
"""

from collections.abc import Iterator
from typing import Any, Literal

from localjudge.run_directory.result_rows import VerdictRow

EvidenceKind = Literal["text", "number", "whole", "flag"]
_KINDS: dict[str, EvidenceKind] = {
    "context": "whole",
    "start": "whole",
    "end": "whole",
    "text": "text",
    "score": "number",
    "supports": "flag",
}
_PREFIXES = ("evidence_", "evidence_2_")


def evidence_kinds() -> dict[str, EvidenceKind]:
    """Return the type of each column."""
    return {f"{prefix}{name}": kind for prefix, name, kind in _columns()}


def evidence_values(verdict: VerdictRow) -> dict[str, Any]:
    """Return the value of each column, None without such a sentence."""
    by_prefix = dict(zip(_PREFIXES, verdict.evidence, strict=False))
    values: dict[str, Any] = {}
    for prefix, name, _ in _columns():
        sentence = by_prefix.get(prefix)
        values[f"{prefix}{name}"] = getattr(sentence, name, None)
    return values


def _columns() -> Iterator[tuple[str, str, EvidenceKind]]:
    for prefix in _PREFIXES:
        for name, kind in _KINDS.items():
            yield prefix, name, kind
