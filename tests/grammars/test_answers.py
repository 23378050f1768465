import json
import re
from collections.abc import Iterator

import jsonschema
import numpy as np
import pytest
import random_model
from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge import resources
from localjudge.engine.decoding import ConstrainedAnswer, Constraints
from localjudge.engine.tokens import Vocabulary
from localjudge.judge.profile import load_grammar, load_schema
from tests.engine.conftest import open_vocabulary_file

pytestmark = pytest.mark.engine

VERDICTS = {name: name for name in ("attributed", "relevant", "useful", "sufficient", "refused")}
BEFORE = {f"reason_{key}": key for key in VERDICTS}
AFTER = {f"{key}_reason": key for key in VERDICTS}
OWN = {"level": ("1", "2", "3", "4", "5"), "answer": ('"no"', '"yes"')}
OWN_NAMES = [name for key in OWN for name in (key, f"reason_{key}", f"{key}_reason")]
NAMES = (*VERDICTS, *BEFORE, *AFTER, *OWN_NAMES)
REASONS = (
    "x",
    "It says so.",
    'Qu\'il dit \\"oui\\".',
    "1\\n2\\t3",
    "日本 😀",
    "a" * 200,
    "\\\\",
    "é",
    "/",
)
NOT_REASONS = ("", "a" * 201, 'a"b', "a\nb", "a\tb", "\\x", "\\u0041", "a\\", "\x7f")


def accepted(name: str) -> list[str]:
    if name in OWN_NAMES:
        (key,) = OWN.keys() & set(name.split("_"))
        parts = {key: f'"{key}":{{0}}', "reason": '"reason":"So."'}
        shape = ",".join(parts[part] for part in name.split("_"))
        return [f"{{{shape.format(value)}}}" for value in OWN[key]]
    if name in VERDICTS:
        return [f'{{"{name}":{label}}}' for label in (0, 1)]
    key = BEFORE.get(name) or AFTER[name]
    pair = '{{"reason":"{1}","{0}":{2}}}'
    if name in AFTER:
        pair = '{{"{0}":{2},"reason":"{1}"}}'
    return [pair.format(key, reason, label) for reason in REASONS for label in (0, 1)]


def refused(name: str) -> list[str]:
    whole = accepted(name)[0]
    least = ":0"
    if "level" in name:
        least = ":1"
    elif "answer" in name:
        least = ':"no"'
    spoiled = ["", whole[:-1], whole + " ", " " + whole, whole + whole, whole.replace(":", ": ", 1)]
    spoiled += [
        whole.replace(",", ", ") if "," in whole else whole + ",",
        whole[:-1] + ',"note":"x"}',
    ]
    labels = (
        ":7",
        f"{least}0",
        f"{least}.0",
        ":true",
        ":null",
        f':"{least[1:]}"',
        f":-{least[1:]}",
    )
    spoiled += [whole.replace(least, label) for label in labels]
    spoiled += [whole.replace('"', "'"), f"```json\n{whole}\n```", f"[{whole}]", f"Answer: {whole}"]
    if name in (*BEFORE, *AFTER):
        spoiled += [whole.replace('"x"', f'"{reason}"') for reason in NOT_REASONS]
    return spoiled


def test_every_grammar_file_is_tested_here() -> None:
    files = {
        path.stem
        for path in resources.bundled_file("grammars", "attributed.json").parent.glob("*.json")
    }
    assert files == {*VERDICTS, *OWN}


@pytest.mark.parametrize("name", NAMES)
def test_valid_answers_are_accepted_and_others_refused(name: str) -> None:
    for answer in accepted(name):
        assert re.fullmatch(load_grammar(name).pattern, answer), answer
        jsonschema.validate(json.loads(answer), load_schema(name))
    for answer in refused(name):
        assert not re.fullmatch(load_grammar(name).pattern, answer), answer


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40)
@given(data=st.data())
def test_every_accepted_answer_is_json_of_the_schema(name: str, data: st.DataObject) -> None:
    answer = data.draw(st.from_regex(load_grammar(name).pattern, fullmatch=True))
    parsed = json.loads(answer)
    jsonschema.validate(parsed, load_schema(name))


@pytest.fixture(scope="module", params=["bytes", "pieces"])
def vocabulary(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Vocabulary]:
    path = random_model.write(
        tmp_path_factory.mktemp("grammar") / "m.gguf", random_model.MADE_UP[request.param]()
    )
    with open_vocabulary_file(path) as opened:
        yield opened


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_a_random_model_cannot_leave_the_grammar(
    vocabulary: Vocabulary, name: str, seed: int
) -> None:
    """The answer ends, is valid, and its reason is within the token limit."""
    chance = np.random.default_rng(seed)
    constraints = Constraints(vocabulary)
    compiled = constraints.compile(load_grammar(name))
    answer = ConstrainedAnswer(constraints, compiled)
    tokens = 0
    while not answer.finished:
        tokens += len(answer.pending)
        assert tokens <= compiled.longest
        answer.take(chance.standard_normal(vocabulary.size).astype(np.float32))
    raw = answer.answer().raw
    assert re.fullmatch(load_grammar(name).pattern, raw)
    jsonschema.validate(json.loads(raw), load_schema(name))
