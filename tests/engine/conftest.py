import functools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import llama_cpp
import pytest
import random_model

from localjudge import model_registry
from localjudge.engine.llamacpp.engine import LlamaCppEngine
from localjudge.engine.llamacpp.model import listen, load_vocabulary
from localjudge.engine.protocol import EngineSettings
from localjudge.engine.tokens import Vocabulary
from localjudge.judge.profile import load_grammar
from localjudge.judge.profile_choice import load_profile
from localjudge.judge.wording import PromptWriter
from localjudge.metrics import Attribution, Span, Unit
from localjudge.model_registry import ModelFile
from localjudge.types import Answer, ChatEnds, Piece, VerdictRequest

ModelMaker = Callable[..., ModelFile]
Opener = Callable[..., LlamaCppEngine]
Asker = Callable[..., VerdictRequest]


def real_vocabularies(*names: str) -> tuple[str, ...]:
    """Return names of real vocabularies; none without a vocabulary folder."""
    return names if "LOCALJUDGE_TEST_VOCABS" in os.environ else ()


REAL = real_vocabularies(
    "command-r", "gemma-4", "gpt-2", "llama-bpe", "llama-spm", "phi-3", "qwen2", "qwen35"
)
TEMPLATE = random_model.CHAT_TEMPLATE.replace("<|im_start|>", "<start_of_turn>").replace(
    "<|im_end|>", "<end_of_turn>"
)
"""Its markup is control tokens of the generated vocabulary."""


def real_file(name: str) -> Path:
    return Path(os.environ["LOCALJUDGE_TEST_VOCABS"]) / f"ggml-vocab-{name}.gguf"


@pytest.fixture(scope="session")
def make_model(tmp_path_factory: pytest.TempPathFactory) -> ModelMaker:
    folder = tmp_path_factory.mktemp("models")

    @functools.cache
    def make(
        architecture: str = "llama",
        quantisation: str = "F16",
        shape: random_model.Shape = random_model.Shape(),  # noqa: B008 -- a NamedTuple is a value
        vocabulary: str = "bytes",
        chat_template: str | None = None,
    ) -> ModelFile:
        made_up = {**random_model.MADE_UP, "unigrams": random_model.unigram_vocabulary}
        tokenizer = made_up.get(
            vocabulary, lambda: random_model.read_tokenizer(real_file(vocabulary))
        )()
        path = folder / f"{len(list(folder.iterdir()))}.gguf"
        random_model.write(
            path,
            tokenizer,
            architecture=architecture,
            shape=shape,
            quantisation=quantisation,
            chat_template=chat_template,
        )
        return model_registry.find(str(path))

    return make


@pytest.fixture
def open_engine() -> Iterator[Opener]:
    engines: list[LlamaCppEngine] = []

    def opener(
        file: ModelFile, *, begin_of_text: bool = True, **settings: int | bool
    ) -> LlamaCppEngine:
        wanted = EngineSettings.model_validate({"threads": 1, **settings})
        engines.append(LlamaCppEngine(file, wanted, begin_of_text=begin_of_text))
        return engines[-1]

    yield opener
    for engine in engines:
        engine.close()


@pytest.fixture(scope="session")
def ask() -> Asker:

    def request(
        unit: str, contexts: Sequence[str] = (), *, grammar: str = "attributed"
    ) -> VerdictRequest:
        nodes: list[tuple[Piece, ...]] = [(Piece(text=f"Is it {grammar}? ", trusted=True),)]
        nodes += [
            (Piece(text=context, trusted=False), Piece(text="\n", trusted=True))
            for context in contexts
        ]
        nodes.append((Piece(text=unit, trusted=False), Piece(text="\nAnswer: ", trusted=True)))
        return VerdictRequest(path=tuple(nodes), grammar=load_grammar(grammar))

    return request


def attributions(
    texts: Sequence[str],
    context: str = "It opened in 1936.",
    *,
    chat: ChatEnds | None = None,
    **asking: Any,
) -> list[VerdictRequest]:
    units = [
        Unit(kind="statement", index=index, source="reference", span=Span.whole(text))
        for index, text in enumerate(texts)
    ]
    writer = PromptWriter(load_profile("instruct"), chat, **asking)
    return writer.requests([Attribution(unit=unit, contexts=(context,)) for unit in units])


def checked_answers(engine: LlamaCppEngine, requests: Sequence[VerdictRequest]) -> list[Answer]:
    """Return the valid answers, to prompts that contain no special tokens of users."""
    for request in requests:
        pieces = [piece for node in request.path for piece in node]
        assert engine.read_back(request) == "".join(piece.text for piece in pieces)
        used = {
            token
            for piece in pieces
            if not piece.trusted
            for token in engine.vocabulary.user(piece.text)
        }
        assert not used & set(engine.vocabulary.reserved)
    answers = [
        answer for _, answer in sorted(engine.answers(requests)) if isinstance(answer, Answer)
    ]
    for request, answer in zip(requests, answers, strict=True):
        assert re.fullmatch((request.explanation or request.grammar).pattern, answer.raw), (
            answer.raw
        )
        assert 0 <= answer.p_yes <= 1
        assert 0 < answer.valid_mass <= 1.000001
    return answers


@pytest.fixture(scope="module", params=["bytes", "pieces"])
def small_model(request: pytest.FixtureRequest, make_model: ModelMaker) -> ModelFile:
    return make_model(vocabulary=request.param, shape=random_model.Shape(context=8192))


@pytest.fixture
def opened(open_engine: Opener, small_model: ModelFile) -> Opener:
    return functools.partial(open_engine, small_model)


@dataclass(eq=False, repr=False)
class LoadedVocabulary(Vocabulary):
    """A vocabulary together with llama.cpp's own."""

    pointer: Any = None


@contextmanager
def open_vocabulary_file(path: Path) -> Iterator[LoadedVocabulary]:
    """Open a file without its weights, which real vocabularies lack."""
    listen()
    llama_cpp.llama_backend_init()
    parameters = llama_cpp.llama_model_default_params()
    parameters.vocab_only = True
    model = llama_cpp.llama_model_load_from_file(os.fsencode(path), parameters)
    assert model
    try:
        pointer = llama_cpp.llama_model_get_vocab(model)
        vocabulary = load_vocabulary(pointer)
        values = {field.name: getattr(vocabulary, field.name) for field in fields(vocabulary)}
        yield LoadedVocabulary(**values, pointer=pointer)
    finally:
        llama_cpp.llama_model_free(model)


OpenVocabulary = Callable[[str], AbstractContextManager[LoadedVocabulary]]


@pytest.fixture(scope="session")
def open_vocabulary(make_model: ModelMaker) -> OpenVocabulary:
    made_up = random_model.MADE_UP
    return lambda name: open_vocabulary_file(
        make_model(vocabulary=name).path if name in made_up else real_file(name)
    )
