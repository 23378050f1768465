"""What a reader has read for a unit, in place of all its texts, from the stored questions.

question     <s>{share} The Danube passes Ulm. </s> Ulm lies on ... ... The Danube rises </s>
read                                                Ulm lies on ... ... The Danube rises
"""

from collections.abc import Iterable, Sequence

from localjudge.evidence.nearest import MARK
from localjudge.run_directory.archive import stored_user_texts
from localjudge.run_directory.directory import STORE
from localjudge.run_directory.result_rows import VerdictRow
from localjudge.run_directory.run_record import RunRecord
from localjudge.text.character_references import read_characters
from localjudge.types import Sample, context_texts

UnitPlace = tuple[str, int]
"""Metric and position of a verdict of a sample."""


def texts_read(
    run: RunRecord, sample: Sample, verdicts: Iterable[VerdictRow]
) -> dict[UnitPlace, str]:
    """Return what the readers of a run have read for these verdicts of a sample.

    Empty for judges that read everything.
    """
    readers: list[int] = []
    for place, judge in enumerate(run.manifest.judge.judges):
        if judge.judge.nearest is not None:
            readers.append(place)
    if not readers:
        return {}
    asked: dict[UnitPlace, list[str]] = {}
    for metric, position, text in stored_user_texts(run.directory / STORE, sample.id, readers):
        asked.setdefault((metric, position), []).append(text)
    read: dict[UnitPlace, str] = {}
    for verdict in verdicts:
        unit = (verdict.metric, verdict.position or 0)
        shown = [read_characters(text).text for text in _texts_for(sample, verdict)]
        texts = [text for text in asked.get(unit, ()) if _is_from(text, shown)]
        if texts:  # a verbatim statement is in the texts, too, and shorter than what was read
            read[unit] = max(texts, key=len)
    return read


def _texts_for(sample: Sample, verdict: VerdictRow) -> tuple[str, ...]:
    if verdict.against == "reference":
        return (sample.reference or "",)
    if verdict.against == "response":
        return (sample.response or "",)
    return context_texts(sample.retrieved_contexts)


def _is_from(text: str, shown: Sequence[str]) -> bool:
    """Return whether each part of a text is in one of the shown texts."""
    return all(any(part in each for each in shown) for part in text.split(MARK))
