"""vLLM by its documentation: a made-up server that speaks so, in both of its modes."""
# ruff: noqa: D102 -- what each path answers stands in vLLM's own documentation

import json
import math
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import pytest

from localjudge.engine.contract import check_engine, example_requests
from localjudge.engine.engine_settings import EngineSettings
from localjudge.engine.server.engine import ServerEngine
from localjudge.engine.server.finding import open_server, served_model
from localjudge.engine.server.tokenizer_folder import read_folder
from localjudge.errors import ModelError, OutOfResource
from localjudge.types import Answer
from tests.engine.server.fake_server import CONTROL, TEMPLATE, FakeServer, log_probabilities, serving

SETTINGS = EngineSettings()
Mode = Literal["raw_logprobs", "processed_logprobs"]


def spelled(byte: int) -> str:
    """A byte as byte-level BPE writes it: printable Latin 1 as itself, the others from U+0100 on, in their order."""
    themselves = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [one for one in range(256) if one not in themselves]
    return chr(byte) if byte in themselves else chr(0x100 + others.index(byte))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    described = {
        "model": {"type": "BPE", "vocab": {spelled(byte): byte for byte in range(256)}},
        "decoder": {"type": "ByteLevel"},
        "added_tokens": [{"id": 256 + place, "content": name} for place, name in enumerate(CONTROL)],
    }
    settings = {"chat_template": TEMPLATE, "bos_token": "<s>", "eos_token": {"content": "</s>"}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(described))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    return tmp_path


class FakeVllm(FakeServer):
    """Lists 20 tokens and the one that it takes; special tokens are found in any text."""

    def __init__(self, folder: Path, mode: Mode) -> None:
        super().__init__()
        self.folder = str(folder)
        self.mode = mode
        self.hidden: tuple[int, ...] = ()
        """Tokens that are never among the 20."""

    def answer(self, path: str, body: Any) -> tuple[int, Any]:
        self.asked.append((path, body))
        if path == "/v1/models":
            row = {"id": "judge", "owned_by": "vllm", "root": self.folder, "max_model_len": 4096}
            reply: Any = {"object": "list", "data": [row]}
        elif path == "/version":
            reply = {"version": "0.11.0"}
        elif path == "/tokenize":
            reply = self.tokenized(
                {"content": body["prompt"], "add_special": body["add_special_tokens"], "parse_special": True}
            )
        elif path == "/v1/completions":
            reply = self.completion(body)
        else:
            return 404, {"detail": "Not Found"}
        return self.spoil[path](200, reply) if path in self.spoil else (200, reply)

    def completion(self, body: Any) -> Any:
        usage = {"prompt_tokens": len(body["prompt"])}
        if "structured_outputs" in body:
            return {"choices": [{"text": 'It says so."', "logprobs": None}], "usage": usage}
        raw = log_probabilities(body["prompt"])
        allowed = body.get("allowed_token_ids", range(len(raw)))
        shown = dict(enumerate(raw))
        if self.mode == "processed_logprobs" and "allowed_token_ids" in body:
            total = math.log(sum(math.exp(raw[token]) for token in allowed))
            shown = {token: raw[token] - total if token in allowed else -9999.0 for token in range(len(raw))}
        taken = max(allowed, key=raw.__getitem__)
        masked = "allowed_token_ids" in body and self.mode == "processed_logprobs"
        likely = [one for one in sorted(shown, key=lambda one: -shown[one]) if masked or one not in self.hidden][:20]
        if "allowed_token_ids" in body:
            likely.append(taken)
        listed = {f"token_id:{token}": shown[token] for token in likely}
        told = {"tokens": [f"token_id:{taken}"], "token_logprobs": [shown[taken]], "top_logprobs": [listed]}
        return {"choices": [{"text": "?", "logprobs": told}], "usage": usage}


@pytest.fixture(params=["raw_logprobs", "processed_logprobs"])
def fake(request: pytest.FixtureRequest, folder: Path) -> Iterator[FakeVllm]:
    made = FakeVllm(folder, request.param)
    with serving(made):
        yield made


def engine_on(fake: FakeServer) -> ServerEngine:
    return ServerEngine.opened(open_server(served_model(fake.url, SETTINGS), SETTINGS), SETTINGS)


def test_it_keeps_the_contract(fake: FakeVllm) -> None:
    assert check_engine(lambda: engine_on(fake)) == []


def said_of_labels(fake: FakeVllm) -> tuple[float, float]:
    """The probabilities of 0 and 1 behind the prompt that was asked last."""
    prompt = [body["prompt"] for path, body in fake.asked if path == "/v1/completions"][-1]
    said = log_probabilities(prompt)
    return math.exp(said[ord("0")]), math.exp(said[ord("1")])


@pytest.mark.parametrize("hidden", [(), (ord("0"),), (ord("1"),)], ids=["both listed", "only 1", "only 0"])
def test_the_probability_and_the_mass_are_those_of_the_raw_logits(fake: FakeVllm, hidden: tuple[int, ...]) -> None:
    """p(1) / (p(0) + p(1)) and p(0) + p(1), however many of the two are among the 20."""
    fake.hidden = hidden
    with closing(engine_on(fake)) as engine:
        [(_, answer)] = engine.answers(example_requests(engine)[:1])
    zero, one = said_of_labels(fake)
    assert isinstance(answer, Answer)
    assert answer.p_yes == pytest.approx(one / (zero + one), abs=1e-9)
    assert answer.legal_mass == pytest.approx(zero + one, abs=1e-9)


def test_where_no_legal_token_is_listed_the_mass_is_known_or_nothing(fake: FakeVllm) -> None:
    """Raw: each is asked for by itself. Processed: shares alone, so the verdict has no more than 0 behind it."""
    fake.hidden = (ord("0"), ord("1"))
    with closing(engine_on(fake)) as engine:
        [(_, answer)] = engine.answers(example_requests(engine)[:1])
    zero, one = said_of_labels(fake)
    assert isinstance(answer, Answer)
    assert answer.p_yes == pytest.approx(one / (zero + one), abs=1e-9)
    assert answer.legal_mass == pytest.approx(zero + one if fake.mode == "raw_logprobs" else 0.0, abs=1e-9)


def test_the_identity_proves_no_bytes(fake: FakeVllm) -> None:
    with closing(engine_on(fake)) as engine:
        identity = engine.identity
    assert (identity["server"], identity["server_build"], identity["model"]) == ("vllm", "0.11.0", "judge")
    assert identity["batching"] == "not isolated"
    assert "model_sha256" not in identity


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "model.safetensors.index.json", "weights"])
def test_two_models_of_one_name_are_two_judges(fake: FakeVllm, folder: Path, file: str) -> None:
    """Another small file, or weights of another size."""
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors.index.json").write_text("{}")
    weights = folder / "model.safetensors"
    weights.write_bytes(b"1")
    with closing(engine_on(fake)) as engine:
        before = engine.identity
    changed = weights if file == "weights" else folder / file
    changed.write_text(changed.read_text() + " ")
    with closing(engine_on(fake)) as engine:
        differing = {key for key in before if before[key] != engine.identity[key]}
    assert len(differing) == 1, differing


def test_a_folder_that_is_changed_under_a_server_is_refused_each_time(folder: Path) -> None:
    """Started again with a fine-tuned model in the same folder, under the same name."""
    fake = FakeVllm(folder, "raw_logprobs")
    with serving(fake):
        engine = engine_on(fake)
        requests = example_requests(engine)[:1]
    (folder / "config.json").write_text("{}")
    with closing(engine), serving(fake, fake.port):
        for _ in range(3):
            with pytest.raises(OutOfResource, match="not the same one"):
                list(engine.answers(requests))


def test_no_sampler_of_the_models_own_is_left_on(fake: FakeVllm) -> None:
    """VLLM takes what a request does not say from generation_config.json."""
    with closing(engine_on(fake)) as engine:
        list(engine.answers(example_requests(engine)[:1]))
    plain = {"repetition_penalty": 1, "presence_penalty": 0, "frequency_penalty": 0, "top_p": 1, "top_k": 0, "min_p": 0}
    bodies = [body for path, body in fake.asked if path == "/v1/completions"]
    assert bodies
    assert all(plain.items() <= body.items() for body in bodies)


@pytest.mark.parametrize(
    "added",
    [
        [{"content": "x"}],
        [{"id": 1 << 40, "content": "x"}],
        [{"id": "1", "content": "x"}],
        [{"id": -1, "content": ""}],
        7,
    ],
    ids=["no id", "huge", "text", "negative", "no list"],
)
def test_a_folder_that_lies_about_its_tokens_is_refused(folder: Path, added: Any) -> None:
    described = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps({**described, "added_tokens": added}))
    with pytest.raises(ModelError):
        read_folder(folder)


@pytest.mark.parametrize("file", ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"])
def test_a_pipe_in_the_folder_is_not_waited_for(folder: Path, file: str) -> None:
    (folder / file).unlink(missing_ok=True)
    os.mkfifo(folder / file)
    with pytest.raises(ModelError, match="no file of a tokenizer"):
        read_folder(folder)


def test_a_token_of_endless_digits_is_refused(fake: FakeVllm) -> None:
    """Its first digits are those of a token that there is."""
    with closing(engine_on(fake)) as engine:

        def longer(status: int, reply: Any) -> tuple[int, Any]:
            told = reply["choices"][0]["logprobs"]
            told["top_logprobs"] = [{f"{name}{'0' * 20}": value for name, value in told["top_logprobs"][0].items()}]
            return status, reply

        fake.spoil["/v1/completions"] = longer
        with pytest.raises(ModelError, match="names a token"):
            list(engine.answers(example_requests(engine)[:1]))


def test_a_model_by_name_is_refused_with_what_to_do(fake: FakeVllm) -> None:
    fake.folder = "org/model"
    with pytest.raises(ModelError, match="was started with 'org/model'") as error:
        served_model(fake.url, SETTINGS)
    assert "vllm serve /PATH/MODEL" in str(error.value.hint)


def test_another_kind_of_tokenizer_is_refused(fake: FakeVllm, folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"model": {"type": "WordPiece", "vocab": {}}}')
    with pytest.raises(ModelError, match="of a kind that localjudge does not know"):
        served_model(fake.url, SETTINGS)


def test_a_failure_of_the_server_goes_on_later(fake: FakeVllm) -> None:
    with closing(engine_on(fake)) as engine:
        fake.spoil["/v1/completions"] = lambda status, reply: (500, {"message": "CUDA out of memory"})
        with pytest.raises(OutOfResource, match="CUDA out of memory"):
            list(engine.answers(example_requests(engine)[:1]))


def test_the_other_spelling_of_tokens_is_read(folder: Path) -> None:
    """As Llama 2 and Gemma write them: a space is `▁`, a byte `<0x0A>`."""
    described = {
        "model": {"type": "BPE", "vocab": {"▁the": 0, "<0x0A>": 1, "é": 2}},
        "decoder": {"type": "Sequence", "decoders": [{"type": "Replace"}, {"type": "ByteFallback"}]},
        "added_tokens": [{"id": 3, "content": "</s>"}],
    }
    (folder / "tokenizer.json").write_text(json.dumps(described))
    assert read_folder(folder).pieces == [b" the", b"\n", "é".encode(), b"</s>"]
