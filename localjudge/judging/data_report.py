"""Report the data of a plan before judging: samples, columns, and what may be wrong with them."""

import json
import logging
from collections import Counter
from collections.abc import Iterator, Set
from itertools import islice

from localjudge.dataset import Dataset
from localjudge.dataset.rows import shown
from localjudge.judging.metric_choice import (
    describe_skipped,
    list_names,
    list_unused,
    list_used,
    suggest_mapping,
)
from localjudge.judging.plan import Plan
from localjudge.metrics.documents import get_compared_value
from localjudge.progress import NotedProgress
from localjudge.text.language_guess import language_warning, row_language_warning
from localjudge.text.names import clean, skeleton
from localjudge.text.responses import thinking_ranges
from localjudge.types import context_texts
from localjudge.words import numbered, option, option_name

_LANGUAGE_SAMPLES = 1_000
_SHOWN_IDS = 3


def report_data(planned: Plan, progress: NotedProgress) -> None:
    """Report samples, columns and omitted metrics. Possible errors in numbers are warnings."""
    if planned.files_are_gone:
        progress.warn("the data files are gone, so the samples stored in the reused runs are used")
    for remarks in (_data_remarks(planned), _cell_remarks(planned), _response_remarks(planned)):
        _note_line(list(remarks), progress)
    unused = list_unused(planned.dataset, planned.settings.cluster_by)
    # Where a column is not used, it may be the missing one under another name.
    level = logging.WARNING if unused else logging.INFO
    skipped = describe_skipped(planned.left_out, planned.dataset)
    missing = frozenset[str]().union(*planned.left_out.values())
    likely = suggest_mapping(planned.dataset)
    likely = {field: column for field, column in likely.items() if field in missing}
    if likely:
        skipped.append(f"perhaps {option('mapping', likely)}")
    _note_line(skipped, progress, level)
    is_one_each = planned.dataset.table.contexts_each == (1, 1) and len(planned.dataset.samples) > 1
    if planned.dataset.joined and is_one_each:
        separator = option_name("context_separator")
        remedy = f"to split texts with several contexts, use {separator}"
        progress.warn(f"every sample has exactly 1 context: {remedy}")
    for repeats in _repeat_warnings(planned):
        progress.warn(repeats)
    if not planned.settings.segmenter:
        texts = language_sample(planned.dataset)
        language = planned.settings.language
        warning = language_warning(texts, language) or row_language_warning(texts, language)
        if warning:
            progress.warn(warning)


def _note_line(remarks: list[str], progress: NotedProgress, level: int = logging.INFO) -> None:
    if remarks:
        progress.note("; ".join(remarks), level)


def _repeat_warnings(planned: Plan) -> Iterator[str]:
    """Yield that samples share a question or their whole content, and that ids look alike.

    Questions are compared by their hashes, to save memory.
    """
    dataset = planned.dataset
    questions: Counter[int] = Counter()
    contents: Counter[int] = Counter()
    ids: Counter[int] = Counter()
    for row in dataset.table.rows():
        fields = json.loads(row.content)
        ids[hash(skeleton(fields.pop("id")))] += 1
        question = fields.get("user_input")
        if question:
            questions[hash(clean(question))] += 1
        else:
            contents[hash(json.dumps(fields))] += 1
    if not planned.settings.cluster_by:
        yield from _describe_repeats(questions, "question", "user_input", dataset)
        yield from _describe_repeats(contents, "content", "response", dataset)
    repeated = {number for number, count in ids.items() if count > 1}
    if repeated:
        yield _describe_look_alikes(dataset, repeated)


def _describe_look_alikes(dataset: Dataset, repeated: Set[int]) -> str:
    """Return how many ids look like another one, with the first of them."""
    count = 0
    ids_by_look: dict[int, list[str]] = {}
    for row in dataset.table.rows():
        number = hash(skeleton(row.id))
        if number in repeated:
            count += 1
            if not ids_by_look or number in ids_by_look:
                ids_by_look.setdefault(number, []).append(row.id)
    (names,) = ids_by_look.values()
    spelled = " and ".join(map(ascii, names[:_SHOWN_IDS]))
    return f"{count:,} ids look like another one, which may be the same sample: {spelled}"


def _describe_repeats(
    counts: Counter[int], what: str, field: str, dataset: Dataset
) -> Iterator[str]:
    """Yield that there are fewer different values than samples, and how to group them."""
    if len(counts) == counts.total():
        return
    column = dataset.mapping.get(field, field)
    if column not in set(dataset.mappings[0].values()):  # the files have different columns
        column = field
    samples = numbered(counts.total(), "sample")
    grouping = option("cluster_by", column)
    yield (
        f"{samples} have {numbered(len(counts), f'different {what}')}, so their intervals are too "
        f"narrow: remove repeated rows, or compute intervals over {what}s with {grouping}"
    )


def language_sample(dataset: Dataset) -> list[str]:
    """Return texts of the first samples, to recognise their language."""
    texts: list[str] = []
    for row in islice(dataset.samples, _LANGUAGE_SAMPLES):
        fields = (row.reference, row.response, *context_texts(row.retrieved_contexts)[:1])
        texts.append("\n".join(filter(None, fields)))
    return texts


def _data_remarks(planned: Plan) -> Iterator[str]:
    dataset = planned.dataset
    if planned.sampling.is_part:
        yield f"part of the data: {planned.sampling}"
    yield f"{numbered(len(dataset.samples), 'sample')} with {list_used(dataset)}"
    if dataset.table.contexts_each:
        fewest, most = dataset.table.contexts_each
        count = f"{fewest:,}"
        if most != fewest:
            count = f"{fewest:,} to {most:,}"
        yield f"contexts: {count} per sample"
    if dataset.conversations:
        count = numbered(dataset.conversations, "conversation")
        yield f"{count} (the last question and answer are judged)"


def _cell_remarks(planned: Plan) -> Iterator[str]:
    dataset = planned.dataset
    for source, encoding in dataset.encodings.items():
        yield f"{source} is not UTF-8 and was read as {encoding}"
    if dataset.short_rows:
        rows = numbered(dataset.short_rows, "row")
        yield f"{rows} of CSV with fewer cells than the header: the missing ones count as empty"
    yield from _describe_nothing_words(dataset)
    if dataset.json_responses:
        column = dataset.mapping.get("response", "response")
        inside = option("mapping", {"response": f"{column}.KEY"})
        count = numbered(dataset.json_responses, "response")
        judged = "each judged as one sentence with names and brackets"
        yield f"{count} in JSON, {judged} (for a text inside: {inside})"
    unused = list_unused(dataset, planned.settings.cluster_by)
    if unused:
        yield f"columns not used: {unused}"
    if dataset.table.without_text:
        yield f"{list_names(dataset.table.without_text)}: ids without texts{_compared_by(planned)}"
    elif dataset.table.bare:
        bare = f"{dataset.table.bare:,} samples have contexts without texts"
        yield f"{bare}, so metrics that read texts are undefined for them"
    if dataset.skipped:
        problems = "".join(f"\n  {problem}" for problem in dataset.problems)
        skipped = f"{numbered(dataset.skipped, 'row')} skipped"
        if dataset.problem_count:
            skipped += f", problems: {dataset.problem_count:,}{problems}"
        yield skipped


def _describe_nothing_words(dataset: Dataset) -> Iterator[str]:
    """Yield for each column how many cells say that they have no value, such as "N/A"."""
    for column, words in dataset.placeholders.items():
        verb = "says" if words.total() == 1 else "say"
        cells = f"{numbered(words.total(), 'cell')} of {shown(column)}"
        yield f"{cells} {verb} {', '.join(sorted(words))}: treated as missing"


def _compared_by(planned: Plan) -> str:
    keys: set[str] = set()
    for metric in planned.metrics:
        compare_by = get_compared_value(metric)
        if compare_by:
            keys.add(compare_by)
    if not keys:
        return ""
    return f", documents are compared by {list_names(keys)}"


def _response_remarks(planned: Plan) -> Iterator[str]:
    """Yield in how many responses thinking is left out, or judged."""
    if not any("response" in metric.required_fields for metric in planned.metrics):
        return
    responses = (sample.response or "" for sample in planned.dataset.samples)
    thinking = sum(bool(thinking_ranges(response)) for response in responses)
    if not thinking:
        return
    count = numbered(thinking, "response")
    column = planned.dataset.mapping.get("response", "response")
    if column != "response":
        count = f"{count} (column {column})"
    if planned.settings.keep_thinking:
        yield f"thinking in {count} is judged ({option_name('keep_thinking')})"
    else:
        yield f"thinking left out of {count}; to judge it: {option('keep_thinking', True)}"
