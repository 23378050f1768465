"""The result of a verification, and what changed since the run."""

import re
from collections.abc import Iterator, Sequence

from rich.text import Text

from localjudge.judging.verify import REPORT, DataFileCheck, Verification
from localjudge.judging.verify_files import LabelsCheck
from localjudge.report.terminal import Table, number, safe_text
from localjudge.run_directory.differences import Difference
from localjudge.run_directory.label_rows import LABELS
from localjudge.words import numbered

_RESULT_STYLE = {"bit-identical": "green", "same verdicts": "yellow", "different": "red"}
_PLACES_SHOWN = 3
_CHECKSUM = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")


def verification_view(verification: Verification) -> Table:
    """Return the result of a verification, with everything that changed since the run."""
    changes = list(_change_lines(verification))
    name: str = verification.result
    if verification.result == "different":
        name = "not verified"
    headline = f"{name}: {_headline(verification, changes)}"
    lines: list[str | Text] = [safe_text(headline, style=_RESULT_STYLE[verification.result])]
    lines.append(f"judge {verification.judge}")
    if verification.other_machine:
        lines.append(
            "this machine's processor differs from the run's: equal bytes are promised only on the "
            "same kind",
        )
    lines += _difference_lines("changed since the run", verification.judge_changes)
    lines += _difference_lines("changed in the stored data", verification.data_changes)
    if not changes:
        lines.append("data, requests and result files are unchanged")
    if verification.data_file is not None:
        lines.append(_describe_data_file(verification.data_file))
    lines += labels_lines(verification.labels)
    if verification.report.note:
        lines.append(f"{REPORT}: {verification.report.note}")
    return Table(notes=lines)


def _describe_data_file(check: DataFileCheck) -> Text:
    """Return whether data files give the samples of the run, and how their bytes compare."""
    name = ", ".join(check.files)
    parts = [f"{name}: gives the {numbered(check.samples, 'sample')} of the run"]
    if not check:
        parts = [f"{name}: does not give the samples of the run"]
    if check.missing:
        examples = ", ".join(check.examples)
        if check.missing > len(check.examples):
            examples += ", ..."
        parts.append(f"{check.missing:,} of {check.samples:,} are not in it ({examples})")
    if check.rows != check.rows_read:
        parts.append(f"{numbered(check.rows, 'usable row')}, the run read {check.rows_read:,}")
    if check.has_same_bytes is not None:
        state = "the same bytes as" if check.has_same_bytes else "other bytes than"
        parts.append(f"{state} when it was judged")
    style = "green" if check else "red"
    return safe_text("; ".join(parts), style=style)


def _difference_lines(title: str, differences: Sequence[Difference]) -> Iterator[str]:
    """Yield what was changed, with shortened checksums."""
    for item in differences:
        line = f"{title}: {item.ingredient}: {item.before} then, {item.after} now"
        yield _CHECKSUM.sub(r"\1", line)


def labels_lines(labels: LabelsCheck) -> Iterator[str]:
    """Yield whether the labels are unchanged, and the means that they correct."""
    if labels.problems:
        state = "labels: altered"
        if not labels.is_file_altered:
            state = f"{LABELS}: no row was changed, but what the run says of its statements"
        yield state
        return
    if labels.current is None or not labels.current.rows:
        yield "labels: none"
        return
    rows = labels.current.rows
    changes = "first verification, so earlier changes would go unnoticed"
    if labels.verified:
        added = numbered(rows - labels.verified.rows, "row")
        day = labels.verified.when[:10]
        changes = f"{added} added since the verification of {day}, the others are unchanged"
    yield f"labels: {numbered(rows, 'row')}; {changes}"
    if not labels.means:
        return
    for name, mean in labels.means.corrected.items():
        if mean.mean is not None and mean.ci95:
            low, high = mean.ci95
            value = f"{number(mean.mean)}, {number(low)} - {number(high)}"
            yield f"corrected by {numbered(mean.labels, 'label')}: {name} {value}"


def _headline(verification: Verification, changes: Sequence[str]) -> str:
    """Return the number of repeated answers, and what else was changed."""
    stored = verification.stored_requests
    again = verification.asked_again
    identical = verification.identical
    if not stored:
        return "; ".join(["the run asked its judge no questions", *changes])
    if again == identical and changes:
        answers = f"{again:,} answers"
        if again == stored:
            answers = f"all {answers}"
        return f"the judge repeats {answers}, but {'; '.join(changes)}"
    repeated = f"{again:,} of {stored:,} stored answers repeated"
    if again == identical:
        return f"{repeated}, every bit the same"
    moved = f"{verification.verdicts_moved:,} of {verification.verdicts:,} verdicts changed"
    largest = f"probabilities moved by at most {verification.largest_move:.2g}"
    listed = f"{moved}, {largest} (--json lists the rows)"
    return "; ".join([f"{repeated}, {identical:,} the same", listed, *changes])


def _change_lines(verification: Verification) -> Iterator[str]:
    """Yield what was changed in the run directory, or differs because another judge was asked."""
    if verification.data_changes:
        yield "the stored data was changed"
    if verification.altered_requests:
        altered = f"{verification.altered_requests:,} stored requests"
        if verification.other_judge:
            yield (
                f"{altered} are not what this judge is asked: verify it with the judge and "
                "version that judged it, or judge again into another directory"
            )
        else:
            yield f"{altered} differ from the run's: run.sqlite was changed"
    for name, places in verification.files.items():
        listed = ", ".join(places[:_PLACES_SHOWN])
        if len(places) > _PLACES_SHOWN:
            listed += ", ..."
        verb = "was changed"
        if verification.other_judge and name not in (LABELS, REPORT):
            verb = "differs from what this judge gives"
        if name == LABELS and not verification.labels.is_file_altered:
            yield f"{name} does not fit the run ({listed})"
        else:
            yield f"{name} {verb} ({listed})"
