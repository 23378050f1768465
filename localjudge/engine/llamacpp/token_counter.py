"""What a model's vocabulary and chat template alone tell: how long requests are, and what stands around them.

An engine is one of these with the weights; one without them costs a tenth of a second, for a process that leaves
answering to others.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from localjudge.engine.engine_settings import EngineSettings
from localjudge.engine.llamacpp import chat_template as chat
from localjudge.engine.llamacpp.model import OpenModel, open_model
from localjudge.engine.llamacpp.outline import outline_of
from localjudge.engine.llamacpp.tokenized import RequestTokenizer, TokenizedRequest, tokens_to_evaluate
from localjudge.engine.llamacpp.tokenizer import Vocabulary
from localjudge.judge import prompts
from localjudge.model_registry import ModelFile
from localjudge.types import ChatEnds, VerdictRequest


class LlamaCppTokenCounter:
    """Counts tokens of requests for an open model. `begin_of_text` is as its prompt profile says if None."""

    def __init__(self, file: ModelFile, model: OpenModel, n_ctx: int, *, begin_of_text: bool | None) -> None:
        if begin_of_text is None:
            begin_of_text = prompts.load(file.profile or prompts.DEFAULT_PROFILE).begin_of_text
        self._file = file
        self._model = model
        self._n_ctx = n_ctx
        self._tokenizer = RequestTokenizer(self.vocabulary, begin_of_text=begin_of_text)

    @property
    def name(self) -> str:
        """The name it is registered under, or that of its file."""
        return self._file.name

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the model's file says of who it is: name, base name and architecture, by the file's keys."""
        return self._model.metadata

    @property
    def chat_ends(self) -> ChatEnds | None:
        """What the model's own chat template puts around a message, if it has one.

        Raises ModelError if the template cannot be rendered.
        """
        template = self._model.chat_template
        return chat.chat_ends(template, **self._ends_of_text) if template else None

    @property
    def chat_without_ends(self) -> ChatEnds | None:
        """The model's chat template for conversations alone, if it has one."""
        template = self._model.chat_template
        return chat.without_ends(template, **self._ends_of_text) if template else None

    @property
    def _ends_of_text(self) -> dict[str, str]:
        bos, eos = self.special_texts
        return {"bos": bos, "eos": eos}

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's tokens."""
        return self._model.vocabulary

    def tokenize(self, request: VerdictRequest) -> TokenizedRequest:
        """The request in tokens, with its grammars.

        Raises SampleError for text that the model cannot be shown, ModelError if its tokens cannot write the answers.
        """
        return self._tokenizer.tokenize(request)

    @property
    def special_texts(self) -> tuple[str, str]:
        """Texts of the begin and end tokens, as chat templates want them."""
        return self.vocabulary.text_of(self.vocabulary.bos), self.vocabulary.text_of(self.vocabulary.eos)

    @property
    def capacity(self) -> int:
        """Tokens that fit the context."""
        return self._n_ctx

    def length(self, request: VerdictRequest) -> int:
        """Tokens of the prompt and the longest legal answer, up to its last decision."""
        return self.tokenize(request).longest

    def distinct_tokens(self, requests: Sequence[VerdictRequest]) -> int:
        """Tokens of the tree that the requests form; what the model cannot be shown counts nothing."""
        return tokens_to_evaluate(requests, self.tokenize)

    def read_back(self, request: VerdictRequest) -> str | None:
        """The prompt as its tokens spell it, without the answer and the begin token that the engine puts in front.

        None for a vocabulary that folds case or accents. Raises SampleError for what the model cannot be shown.
        """
        return self._tokenizer.read_back(request)


class VocabularyCounter(LlamaCppTokenCounter):
    """The same of a model whose weights are not loaded. Raises ModelError if llama.cpp refuses the file.

    A file that a self-check has not tried may end the process.
    """

    def __init__(self, file: ModelFile, settings: EngineSettings, *, begin_of_text: bool | None) -> None:
        outline = outline_of(file, settings)
        self._identity = outline.identity
        model = open_model(file.path, gpu_layers=0, vocabulary_alone=True)
        super().__init__(file, model, outline.n_ctx, begin_of_text=begin_of_text)

    @property
    def identity(self) -> dict[str, Any]:
        """That of an engine with this model on this machine, without what is found by trying it."""
        return self._identity

    def close(self) -> None:
        """Free the vocabulary."""
        self._model.close()
