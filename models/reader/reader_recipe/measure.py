"""What measuring needs without PyTorch: windows of a long text, and the area under the ROC curve."""

import numpy as np
import numpy.typing as npt

from reader_recipe.tokens import Ids

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]


def windows(sentences: list[Ids], room: int) -> list[Ids]:
    """As many whole sentences as fit in `room` tokens, each window with the last sentence before it.

    A sentence longer than the room is cut into pieces.
    """
    pieces = [s[start : start + room] for s in sentences for start in range(0, len(s), room)]
    result: list[Ids] = []
    start = 0
    while start < len(pieces):
        end = start
        size = 0
        while end < len(pieces) and size + len(pieces[end]) <= room:
            size += len(pieces[end])
            end += 1
        result.append(np.concatenate(pieces[start:end]))
        if end == len(pieces):
            break
        start = max(end - 1, start + 1)
    return result


def auc(labels: Labels, scores: Floats) -> float:
    """The chance that a positive row has the higher score; ties count half."""
    positive, negative = scores[labels == 1], np.sort(scores[labels == 0])
    if not len(positive) or not len(negative):
        return float("nan")
    below = np.searchsorted(negative, positive, "left")
    not_above = np.searchsorted(negative, positive, "right")
    return float((below + not_above).mean() / 2 / len(negative))


def standardised(scores: Floats) -> Floats:
    result: Floats = (scores - scores.mean()) / scores.std()
    return result
