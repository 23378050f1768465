import json
import math
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import localjudge
from localjudge.engine.protocol import EngineSettings
from localjudge.engine.server.server_engine import ServerEngine
from localjudge.errors import InputError, ModelError, OutOfResource
from localjudge.run.judges import use_judge
from localjudge.run.settings import RunSettings, settings_of
from localjudge.run.verify import verify_run as verify
from localjudge.types import Answer
from tests.engine.contract import check_engine, example_requests
from tests.engine.server.fake_server import FakeServer, engine_on, log_probabilities, serving

pytestmark = pytest.mark.engine

ROWS = [
    {"id": "a", "retrieved_contexts": ["Paris is in France."], "response": "Paris is in France. It rains."},
    {"id": "b", "retrieved_contexts": ["Rome is old."], "response": "Rome is old."},
]


def evaluate(fake: FakeServer, out: Path, **options: Any) -> localjudge.Run:
    return localjudge.evaluate(options.pop("rows", ROWS), judge=fake.url, metrics=["faithfulness"], out=out, **options)


def prompts(fake: FakeServer, since: int = 0) -> list[bytes]:
    bodies = [body for path, body in fake.asked[since:] if path == "/completion"]
    return [bytes(token for token in body["prompt"] if token < 256) for body in bodies]


def test_a_server_engine_meets_the_contract(fake: FakeServer) -> None:
    assert check_engine(lambda: engine_on(fake)) == []


def test_probability_and_mass_come_from_raw_logits(fake: FakeServer, engine: ServerEngine) -> None:
    """p_yes = p(1) / (p(0) + p(1)), mass p(0) + p(1), at the requested tokens.

    The server's `--mirostat 2` and `--grammar` would apply to requests without these settings.
    """
    request = example_requests(engine)[0]
    [(_, answer)] = engine.answers([request])
    plain = {"samplers": [], "temperature": 1.0, "mirostat": 0, "grammar": ""}
    assert all(plain.items() <= body.items() for path, body in fake.asked if path == "/completion")
    prompt = [body["prompt"] for path, body in fake.asked if path == "/completion"][-1]
    said = log_probabilities(prompt)
    p_0, p_1 = math.exp(said[ord("0")]), math.exp(said[ord("1")])
    assert isinstance(answer, Answer)
    assert answer.p_yes == pytest.approx(p_1 / (p_0 + p_1), abs=1e-12)
    assert answer.legal_mass == pytest.approx(p_0 + p_1, abs=1e-12)
    assert bytes(prompt[-14:]) == b'{"attributed":'


def test_an_unlisted_valid_token_gets_its_probability(fake: FakeServer, engine: ServerEngine) -> None:
    """It is too unlikely for the list; its share after sampling gives the same probability."""
    request = example_requests(engine)[0]
    [(_, before)] = engine.answers([request])

    def without_digits(status: int, reply: Any) -> tuple[int, Any]:
        for first in reply.get("completion_probabilities", []):
            if "top_logprobs" in first:
                first["top_logprobs"] = [row for row in first["top_logprobs"] if row["id"] not in (48, 49)]
        return status, reply

    fake.spoil["/completion"] = without_digits
    [(_, after)] = engine.answers([request])
    assert after.model_dump() == pytest.approx(before.model_dump(), abs=1e-9)


def test_shared_prefixes_are_evaluated_once(engine: ServerEngine) -> None:
    """Six statements, three each about one and two contexts: two prefixes instead of six."""
    requests = example_requests(engine)[:6]
    before = engine.stats.evaluated_tokens
    list(engine.answers(requests))
    evaluated = engine.stats.evaluated_tokens - before
    assert engine.shares_prefixes
    assert evaluated < 0.6 * sum(map(engine.length, requests))


def test_a_server_that_cannot_rewind_evaluates_from_scratch(fake: FakeServer) -> None:
    fake.spoil["/completion"] = lambda status, reply: (status, {**reply, "timings": {"cache_n": 0}})
    with closing(engine_on(fake)) as engine:
        answers = [answer for _, answer in engine.answers(example_requests(engine)[:2])]
    assert not engine.shares_prefixes
    assert engine.identity["shared_prompts"] == "evaluated again"
    assert all(isinstance(answer, Answer) for answer in answers)


def test_another_user_of_the_slot_is_detected(fake: FakeServer, engine: ServerEngine) -> None:
    requests = example_requests(engine)[:1]
    fake.spoil["/completion"] = lambda status, reply: (status, {**reply, "timings": {"cache_n": 1}})
    with pytest.raises(OutOfResource, match="another program is using it"):
        list(engine.answers(requests))


def test_the_identity_names_the_server_and_claims_no_determinism(engine: ServerEngine) -> None:
    identity = engine.identity
    expected = {"engine": "server", "server_build": "b1-fake", "model": "made-up", "batching": "not isolated"}
    assert expected.items() <= identity.items()
    assert not {"model_sha256", "host"} & identity.keys()
    assert "127.0.0.1" not in json.dumps(identity)


@pytest.mark.parametrize("fact", ["size", "n_params", "n_embd", "template"])
def test_two_models_of_one_name_are_two_judges(fake: FakeServer, engine: ServerEngine, fact: str) -> None:
    if fact == "template":
        fake.template += " "
    else:
        fake.meta[fact] += 1
    other = engine_on(fake)
    other.close()
    differing = {key for key in engine.identity if engine.identity[key] != other.identity[key]}
    assert len(differing) == 1, differing


@pytest.mark.usefixtures("elsewhere")
def test_the_destination_of_texts_is_announced(fake: FakeServer) -> None:
    settings = RunSettings(allow_host=("127.0.0.1",), threads=2)
    with use_judge(fake.url, None, settings) as opened:
        lines = opened.announcement.splitlines()
    assert "the texts go to 127.0.0.1, unencrypted" in lines
    assert any("threads" in line for line in lines)


def test_a_remote_server_of_a_manifest_must_be_typed_again(
    fake: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest is untrusted: its host is not even resolved, and its allowed hosts are ignored."""
    run = evaluate(fake, tmp_path / "run")
    file = run.directory / "manifest.json"
    manifest = json.loads(file.read_text())
    assert "allow_host" not in manifest["environment"]["settings"]
    manifest["environment"]["judge"] = "http://evil.example:8080"
    manifest["environment"]["settings"]["allow_host"] = ["evil.example", "127.0.0.2"]
    file.write_text(json.dumps(manifest))

    with monkeypatch.context() as patched:
        patched.delattr(socket, "getaddrinfo")
        for again in (verify, lambda directory: localjudge.Run.open(directory).rescore()):
            with pytest.raises(InputError, match=r"http://evil\.example:8080"):
                again(run.directory)
    assert settings_of(localjudge.Run.open(run.directory).manifest).allow_host == ()
    assert verify(run.directory, judge=fake.url).result == "bit-identical"


def test_verify_accepts_allowed_hosts(fake: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = evaluate(fake, tmp_path / "run")
    monkeypatch.setattr("localjudge.engine.server.connection.is_this_machine", lambda _: False)
    with pytest.raises(InputError, match="is not this machine"):
        verify(run, judge=fake.url)
    verification = verify(run, judge=fake.url, allow_host="127.0.0.1")
    assert [change.ingredient for change in verification.judge_changes] == ["engine.host"]


def test_a_server_with_too_small_a_context_is_refused(fake: FakeServer) -> None:
    """A proxy reports no context."""
    with pytest.raises(ModelError, match="takes 4,096 tokens at once"):
        engine_on(fake, EngineSettings(n_ctx=8192))
    fake.n_ctx = 0
    with pytest.raises(ModelError):
        engine_on(fake)


def test_a_run_with_a_server_is_verified_and_reused(fake: FakeServer, tmp_path: Path) -> None:
    run = evaluate(fake, tmp_path / "run")
    assert (run.judge.name, run.judge.sha256, "bytes not proved" in str(run.judge)) == ("made-up", None, True)
    assert run.manifest.environment.judge == fake.url
    assert verify(run).result == "bit-identical"
    before = len(fake.asked)
    again = evaluate(fake, tmp_path / "again", reuse=str(tmp_path / "run"))
    assert again.summary.signature == run.summary.signature
    assert not any(b"Rome" in prompt for prompt in prompts(fake, before))


def test_rounding_differences_give_the_same_verdicts(fake: FakeServer, tmp_path: Path) -> None:
    """All log probabilities are a thousandth lower: other bits, same shares."""
    run = evaluate(fake, tmp_path / "run")

    def less(status: int, reply: Any) -> tuple[int, Any]:
        for first in reply.get("completion_probabilities", []):
            for row in (first, *first.get("top_logprobs", [])):
                if "logprob" in row:
                    row["logprob"] -= 0.001
        return status, reply

    fake.spoil["/completion"] = less
    verification = verify(run)
    assert (verification.result, verification.isolated, verification.verdicts_moved) == ("same verdicts", False, 0)
    assert verification.largest_move < 1e-9


def test_a_run_resumes_after_its_server_died(tmp_path: Path) -> None:
    """It dies at the word Rome. After a restart, stored answers are not requested again."""
    fake = FakeServer()

    def dies(status: int, reply: Any) -> tuple[int, Any]:
        return (500, {"error": {"message": "out of memory"}}) if b"Rome" in prompts(fake)[-1] else (status, reply)

    with serving(fake):
        fake.spoil["/completion"] = dies
        with pytest.raises(OutOfResource, match="out of memory"):
            evaluate(fake, tmp_path / "run")
    port, fake.spoil, fake.asked = fake.port, {}, []
    with pytest.raises(ModelError, match=f"no server at .*:{port}"):
        evaluate(fake, tmp_path / "run")
    with serving(fake, port):
        run = evaluate(fake, tmp_path / "run")
        assert not any(b"It rains" in prompt for prompt in prompts(fake))
        whole = evaluate(fake, tmp_path / "whole")
    for name in ("scores.jsonl", "verdicts.jsonl", "summary.json"):
        assert (run.directory / name).read_bytes() == (whole.directory / name).read_bytes()


def test_doctor_examines_a_server(fake: FakeServer) -> None:
    from localjudge.doctor.examine import examine

    checks = {check.name: check.status for check in examine(fake.url, injections=0, probes=0).checks}
    assert (checks["model file"], checks["shared prompts"], checks["prompts"]) == ("warning", "ok", "ok")
    assert "gpu" not in checks
    checks = {check.name: check.status for check in examine("http://127.0.0.1:99999", injections=0, probes=0).checks}
    assert checks["model file"] == "failed"
