"""Write a sheet with its instruction and questions in the annotator's language."""

from collections.abc import Sequence
from pathlib import Path

from localjudge.labels.label_sheet import EVIDENCE, Separator, SheetRow, write_sheet
from localjudge.report.messages import Messages
from localjudge.types import Language


def write_translated_sheet(
    path: Path,
    rows: Sequence[SheetRow],
    *,
    language: Language = "en",
    separator: Separator | None = None,
) -> None:
    """Write statements to label as a sheet; see `write_sheet`."""
    messages = Messages(language)
    translated = [{**row, "asks": messages.question(row["metric"]) or row["asks"]} for row in rows]
    instruction = messages.plain("sheet.instruction")
    if any(row.get(EVIDENCE) for row in rows):
        about_evidence = messages.plain("sheet.evidence")
        instruction = f"{instruction} {about_evidence}"
    write_sheet(path, translated, instruction=instruction, separator=separator)
