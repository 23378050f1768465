"""A verdict is bit-identical for any other requests, at sizes where a batch would change it.

The control tests show that these tests can fail.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import llama_cpp
import numpy as np
import pytest
import random_model
from bare_llama import BareModel
from numpy.typing import NDArray

from localjudge.engine.llamacpp.context import KVCache
from localjudge.engine.llamacpp.engine import LlamaCppEngine
from localjudge.engine.llamacpp.loading import load
from localjudge.engine.protocol import EngineSettings
from localjudge.model_registry import ModelFile
from localjudge.types import Answer, NoAnswer, VerdictRequest
from tests.engine.conftest import Asker, ModelMaker, Opener

pytestmark = pytest.mark.engine

Answers = list[Answer | NoAnswer]

QUICK = random_model.Shape(width=256, layers=2, feed_forward=512, context=4096)
LARGE = QUICK._replace(layers=12)
KINDS = [
    ("llama", "F16", QUICK),
    ("qwen2", "Q4_K", QUICK),
    ("gemma2", "F16", QUICK),
    ("lfm2", "Q4_K", QUICK),
]
NOT_HERE = "NOT CHECKED: on this processor"
MODELS = [
    *(pytest.param(kind, id="-".join(kind[:2])) for kind in KINDS),
    *(
        pytest.param(
            (architecture, quantisation, LARGE),
            id=f"{architecture}-{quantisation}-large",
            marks=pytest.mark.slow,
        )
        for architecture in ("llama", "qwen2", "gemma2", "lfm2")
        for quantisation in ("F16", "Q8_0", "Q4_0", "Q4_K")
    ),
    pytest.param(("mamba", "Q4_K", LARGE), id="mamba-Q4_K-large", marks=pytest.mark.slow),
]
WORDS = (
    "it",
    "opened",
    "rain",
    "bridge",
    "widened",
    "toll",
    "council",
    "painted",
    "blue",
    "river",
    "1936",
    "charged",
)
LONG_CONTEXT = (
    "The bridge over the river opened in 1936 and was widened twice, as the council decided. " * 14
)
"""More than two steps of 512 tokens."""
SHORT_CONTEXTS = ["It rained.", "A toll of 50 cents was charged until 1954."]


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest, make_model: Callable[..., ModelFile]) -> ModelFile:
    return make_model(*request.param)


class Case(NamedTuple):
    """A model, requests with the answers of another engine, and one engine for all tests."""

    model: ModelFile
    requests: list[VerdictRequest]
    expected: Answers
    engine: LlamaCppEngine

    def check(self, indices: Sequence[int], engine: LlamaCppEngine | None = None) -> None:
        """Compare the answers to some of the requests, from one call, with the expected ones."""
        answers = in_order(engine or self.engine, [self.requests[index] for index in indices])
        assert answers == [self.expected[index] for index in indices]


@pytest.fixture(scope="module")
def case(model: ModelFile, ask: Asker) -> Iterator[Case]:
    draw = random.Random(1)
    sentences = [
        " ".join(draw.choices(WORDS, k=draw.randrange(2, 30))).capitalize() + "." for _ in range(24)
    ]
    contexts = [[LONG_CONTEXT]] * 16 + [SHORT_CONTEXTS] * 8
    requests = list(map(ask, sentences, contexts))
    with closing(LlamaCppEngine(model, EngineSettings(threads=1))) as other:
        expected = in_order(other, requests)
    with closing(LlamaCppEngine(model, EngineSettings(threads=1))) as engine:
        yield Case(model, requests, expected, engine)


def in_order(engine: LlamaCppEngine, requests: Sequence[VerdictRequest]) -> Answers:
    return [answer for _, answer in sorted(engine.answers(requests))]


def test_control_statements_in_one_batch_change_each_other(make_model: ModelMaker) -> None:
    """In at least one model; which one depends on the processor."""
    if not any(changed_by_batching(make_model(*kind)) for kind in KINDS):
        pytest.skip(f"{NOT_HERE}: statements in one batch have the logits that they have alone")


def changed_by_batching(file: ModelFile) -> bool:
    draw = random.Random(1)
    context, *statements = (
        [draw.randrange(5, 250) for _ in range(length)] for length in (700, 3, 28, 64, 5, 40)
    )
    with BareModel(file.path, threads=1) as model:
        alone = []
        for statement in statements:
            model.logits(context)
            alone.append(model.logits(statement, cached=len(context)))
        model.logits(context)
        together = model.together(statements, cached=len(context))
    return not all(map(np.array_equal, alone, together))


@pytest.mark.parametrize("seed", [None, 1])
def test_verdicts_do_not_depend_on_the_order(case: Case, seed: int | None) -> None:
    assert (
        len({answer.p_yes for answer in case.expected if isinstance(answer, Answer)})
        > len(case.expected) // 2
    )
    assert all(isinstance(answer, Answer) for answer in case.expected)
    order = list(range(len(case.requests)))[::-1]
    if seed is not None:
        random.Random(seed).shuffle(order)
    case.check(order)


@pytest.mark.parametrize(
    ("chosen", "threads"), [([3], 1), ([2, 5, 17], 1), ([0, 23], 2), ([0, 1, 2, 16, 17], 4)]
)
def test_verdicts_do_not_depend_on_the_subset_or_the_number_of_threads(
    case: Case, open_engine: Opener, chosen: list[int], threads: int
) -> None:
    case.check(chosen, open_engine(case.model, threads=threads))


def test_verdicts_of_single_calls_equal_verdicts_of_one_call(case: Case) -> None:
    for long, short in zip(range(8), range(16, 24), strict=True):
        case.check([long])
        case.check([short])


def test_verdicts_do_not_depend_on_other_samples_and_metrics(case: Case, ask: Asker) -> None:
    _, requests, expected, engine = case
    others = [
        ask("Something else.", ["Another sample altogether. " * 40]),
        ask(LONG_CONTEXT[:80], grammar="relevant"),
        ask("It opened.", [LONG_CONTEXT], grammar="useful"),
    ]
    in_order(engine, others[:1])
    answers = in_order(
        engine, [others[1], *requests[:3], others[0], *requests[16:18], others[2], requests[3]]
    )
    assert [*answers[1:4], *answers[5:7], answers[8]] == [
        *expected[:3],
        *expected[16:18],
        expected[3],
    ]


def test_verdicts_do_not_depend_on_an_abandoned_call(case: Case) -> None:
    answers = case.engine.answers(case.requests)
    next(answers)
    next(answers)
    answers.close()  # type: ignore[attr-defined]
    case.check(range(1, 4))


@pytest.mark.parametrize("place", ["evaluate", "logits_after", "checkpoint", "rewind"])
def test_verdicts_do_not_depend_on_an_interrupt(
    case: Case, open_engine: Opener, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Ctrl-C right after an action of llama.cpp, before it is recorded."""
    engine = open_engine(case.model)
    real = getattr(KVCache, place)
    calls = iter([False, False, True])

    def interrupted(self: KVCache, *arguments: object, **options: object) -> object:
        result = real(self, *arguments, **options)
        if next(calls, False):
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(KVCache, place, interrupted)
    with pytest.raises(KeyboardInterrupt):
        in_order(engine, case.requests[:2] + case.requests[16:])
    case.check(range(3), engine)


def test_single_token_steps_behind_six_hundred_cells_do_not_depend_on_threads(
    model: ModelFile,
) -> None:
    alone, *others = (single_token_steps(model, threads) for threads in (1, 2, 4))
    assert all(np.array_equal(alone, steps) for steps in others)


def test_control_with_flash_attention_steps_depend_on_threads(
    make_model: ModelMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a CPU, from 512 cells on. Therefore it is off."""
    opener = llama_cpp.llama_init_from_model

    def opened(model: Any, parameters: Any) -> Any:
        parameters.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED
        return opener(model, parameters)

    monkeypatch.setattr(llama_cpp, "llama_init_from_model", opened)
    model = make_model("llama", "F16", QUICK)
    if np.array_equal(single_token_steps(model, 1), single_token_steps(model, 2)):
        pytest.skip(f"{NOT_HERE}: threads move nothing with flash attention")


def single_token_steps(file: ModelFile, threads: int) -> NDArray[np.float32]:
    """Return logits after each of five single tokens behind 650 others, shape (5, vocabulary)."""
    with closing(load(file, EngineSettings(threads=1))) as loaded:
        model = loaded.model
        size = model.vocabulary.size
        cells = KVCache(
            model.pointer,
            n_ctx=1024,
            threads=threads,
            vocabulary_size=size,
            rewind_mode="recompute",
        )
        with closing(cells):
            cells.evaluate([token % 250 for token in range(1, 651)], 0)
            return np.stack([cells.logits_after([step], 650 + step).copy() for step in range(5)])
