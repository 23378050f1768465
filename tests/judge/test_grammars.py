import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from localjudge import InputError
from localjudge.judge.profile import AnswerForm, load_grammar, load_schema
from localjudge.judge.profile_choice import load_profile
from localjudge.judge.wording import PromptWriter
from localjudge.types import Piece, VerdictRequest

FOLDER = Path(__file__).resolve().parents[2] / "grammars"
README = (FOLDER / "README.md").read_text(encoding="utf-8")
VERDICTS = ("attributed", "relevant", "useful", "sufficient", "refused")
LONGEST_REASON = "\U0001f600" * 200
PUNCTUATION = r"<>{}[]()|.*+?^$\"' /:-"


def written(*entries: tuple[str, object]) -> str:
    return json.dumps(dict(entries), ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_every_grammar_is_described_and_has_a_pattern(path: Path) -> None:
    assert f"`{path.name}`" in README
    assert load_grammar(path.stem).pattern


@pytest.mark.parametrize("key", VERDICTS)
def test_the_verdict_grammars_allow_two_answers(key: str) -> None:
    pattern = load_grammar(key).pattern
    assert all(re.fullmatch(pattern, written((key, value))) for value in (0, 1))
    assert not re.fullmatch(pattern, written((key, 2)))
    assert not re.fullmatch(pattern, f'{{"{key}": 1}}')
    assert f"`{written((key, 0))}`, {len(written((key, 0)))} bytes" in README


@pytest.mark.parametrize("key", VERDICTS)
def test_the_reason_grammars_bound_the_reason(key: str) -> None:
    before = load_grammar(f"reason_{key}").pattern
    after = load_grammar(f"{key}_reason").pattern
    assert re.fullmatch(before, written(("reason", LONGEST_REASON), (key, 1)))
    assert re.fullmatch(after, written((key, 1), ("reason", LONGEST_REASON)))
    for reason in ("", LONGEST_REASON + "x"):
        assert not re.fullmatch(before, written(("reason", reason), (key, 1)))
        assert not re.fullmatch(after, written((key, 1), ("reason", reason)))


@pytest.mark.parametrize(
    ("key", "values", "labels"),
    [
        ("answer", ("yes", "no", "Yes", "maybe", "", "0"), {"yes": 1, "no": 0}),
        (
            "level",
            (*range(1, 6), 0, *range(6, 12)),
            {"1": 0, "2": 0.25, "3": 0.5, "4": 0.75, "5": 1},
        ),
    ],
)
def test_criterion_grammars_allow_yes_no_or_a_level(
    key: str, values: tuple[object, ...], labels: dict[str, float]
) -> None:
    grammar = load_grammar(key)
    legal = [str(value) for value in values if re.fullmatch(grammar.pattern, written((key, value)))]
    assert (legal, grammar.labels) == ([*labels], labels)


def test_a_grammar_has_the_same_text_in_every_key_and_file() -> None:
    grammar = load_grammar("attributed")
    pattern = r"(\\{\"attributed\":(0|1)\\})"
    dumped = (
        f'{{"name":"attributed","pattern":"{pattern}","labels":{{"0":0,"1":1}},"reason_tokens":0,'
    )
    dumped += '"reason_end":"\\""}'
    assert grammar.model_dump_json() == dumped
    request = VerdictRequest(((Piece("Is it so?", trusted=True),),), grammar)
    assert request.shape == f'{{"grammar":{dumped},"explanation":null}}'


GOLDEN = json.loads(Path(__file__).with_name("expanded_grammars.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("expanded", GOLDEN["grammars"], ids=lambda expanded: expanded["name"])
def test_derived_reason_grammars_equal_the_former_files(expanded: dict[str, Any]) -> None:
    assert json.dumps(load_schema(expanded["name"])) == json.dumps(expanded["schema"])
    assert load_grammar(expanded["name"]).pattern == expanded["pattern"]


@pytest.mark.parametrize("reasons", ["none", "before", "after"])
def test_grammar_hashes_in_manifests_are_stable(reasons: Any) -> None:
    identity = PromptWriter(load_profile("instruct"), reasons=reasons).identity()
    assert identity["grammars_sha256"] == GOLDEN["grammars_sha256"][reasons]


@pytest.mark.parametrize("name", ["classifications", "reason_attributed_reason", "reason_"])
def test_an_invalid_grammar_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"grammars/{name}.json"):
        load_grammar(name)


@given(before=st.text(PUNCTUATION, max_size=6), after=st.text(PUNCTUATION, max_size=6))
def test_text_around_the_verdict_is_literal(before: str, after: str) -> None:
    made = AnswerForm(form="<score> {verdict} </score>", labels={"yes": 0, "no": 1}).grammar(
        "attribution"
    )
    assert (made.pattern, made.labels) == ("<score> (yes|no) </score>", {"yes": 0, "no": 1})
    assert made.reason_tokens == 0
    if "{verdict}" in before + after:
        return
    made = AnswerForm(form=f"{before}{{verdict}}{after}", labels={"Yes": 1, "No": 0}).grammar("x")
    assert re.fullmatch(made.pattern, f"{before}Yes{after}")
    assert not re.fullmatch(made.pattern, f"{before}Yes{after}.")
    assert not re.fullmatch(made.pattern, f"{before}Maybe{after}")


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"labels": {"Yes": 1, "No": 2}}, "from 0 to 1"),
        ({"labels": {"relevant": 1, "relevant in part": 0.5}}, "different characters"),
        ({"labels": {"Yes": 1}}, "two values"),
        ({"labels": {"Yes": 1, "No": 1}}, "two values"),
        ({"labels": {"": 1, "No": 0}}, "a label must have a character"),
        ({"labels": {"Yes": 1, "No": 0}, "form": "x"}, "must contain {verdict} once"),
        (
            {"labels": {"Yes": 1, "No": 0}, "form": "{verdict} {verdict}"},
            "must contain {verdict} once",
        ),
    ],
)
def test_an_ambiguous_answer_form_is_refused(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(complaint)):
        AnswerForm(**fields)
