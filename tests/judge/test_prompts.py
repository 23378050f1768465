import re
import shutil
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge import InputError
from localjudge.judge.profile import task_name
from localjudge.judge.profile_choice import load_profile
from localjudge.judge.wording import PromptWriter
from localjudge.metrics import Attribution, CustomQuestion, Relevance, SampleError, Task, Usefulness
from localjudge.types import Piece, Refusal, Sufficiency
from tests.conftest import PROFILES
from tests.judge.conftest import unit

TAG = re.compile(r"<(/?)([a-z]+)(-\d+)?>")


def tasks(text: str) -> list[Task]:
    return [
        Attribution(unit=unit("statement", text), contexts=(text, "other"), user_input=text),
        Relevance(unit=unit("sentence", text), user_input=text),
        Relevance(unit=unit("chunk", text), user_input=text),
        Usefulness(unit=unit("chunk", text), user_input=text, reference=text),
    ]


def special_tasks(text: str) -> list[Task]:
    """Return the tasks that some judges cannot do."""
    return [
        Sufficiency(unit=unit("question", text), contexts=(text, "other"), user_input=text),
        Refusal(unit=unit("response", text), user_input=text),
        own_question(text, levels=()),
        own_question(text, levels=("poor", "weak", "fair", "good", "very good")),
    ]


def own_question(text: str, *, levels: tuple[str, ...]) -> CustomQuestion:
    """Return a criterion that shows every field, with an example that does too."""
    texts: dict[str, Any] = dict.fromkeys(("question", "user_input", "reference", "response"), text)
    shown = CustomQuestion(unit=unit("chunk", text), contexts=(text,), levels=levels, **texts)
    return shown.model_copy(update={"examples": ((shown, text),) * 2})


def all_tasks(text: str) -> list[Task]:
    return [*tasks(text), *special_tasks(text)]


def judge(profile: str = "instruct", reasons: Any = "none") -> PromptWriter:
    return PromptWriter(load_profile(profile), reasons=reasons)


@pytest.mark.parametrize(
    ("profile", "task"),
    [
        *(("lexical", task) for task in tasks("Some text.")),
        *(("instruct", task) for task in all_tasks("Some text.")),
    ],
    ids=lambda value: value if isinstance(value, str) else task_name(value),
)
def test_user_text_is_never_trusted(profile: str, task: Task) -> None:
    request = judge(profile).request(task)
    pieces = [piece for node in request.path for piece in node]
    assert "Some text." in [piece.text for piece in pieces if not piece.trusted]
    assert not [piece for piece in pieces if piece.trusted and "Some text." in piece.text]


def test_each_context_is_a_node_before_the_question() -> None:
    """Instructions, context, context, question, statement: shared text first, no blank contexts."""
    blank = Attribution(
        unit=unit("statement", "It is."), contexts=("", "  \n", "x"), user_input=" "
    )
    requests = [judge().request(task) for task in (tasks("Statement.")[0], blank)]
    users = [
        [[piece.text for piece in node if not piece.trusted] for node in request.path]
        for request in requests
    ]
    assert users == [
        [[], ["Statement."], ["other"], ["Statement."], ["Statement."]],
        [[], ["x"], ["It is."]],
    ]


@pytest.mark.parametrize(
    ("statement", "context", "read"),
    [
        ("It costs 5-10 euro.", "5\u201310 euro", "It costs 5\u201310 euro."),
        ("It costs 5\u201310 euro.", "5-10 euro", "It costs 5-10 euro."),
        ("It costs 5 - 10 euro.", "5&ndash;10 euro", "It costs 5\u201310 euro."),
        ("On 2020\u201101\u201105.", "2020-01-05", "On 2020-01-05."),
        ("It costs 5-10 euro.", "5-10 or 5\u201310 euro", "It costs 5-10 euro."),
        ("It costs 5-10 euro.", "15\u201310, 5\u2013100 euro", "It costs 5-10 euro."),
        ("It is -5 degrees.", "\u22125 degrees", "It is -5 degrees."),
    ],
)
def test_a_range_of_numbers_is_read_with_the_dash_of_the_contexts(
    statement: str, context: str, read: str
) -> None:
    """The reader has 0.27 for "5-10" beside "5\u201310", and 0.94 with equal dashes."""
    task = Attribution(unit=unit("statement", statement), contexts=("Other.", context))
    pieces = [piece.text for node in judge().request(task).path for piece in node]
    assert read in pieces


def closing_tags(pieces: tuple[Piece, ...]) -> list[str]:
    return [
        match.group()
        for piece in pieces
        if piece.trusted
        for match in TAG.finditer(piece.text)
        if match[1]
    ]


def read_loosely(text: str) -> str:
    """Normalise as a lenient reader: any letter form, no blanks, no invisible characters."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(
        part for part in folded if not part.isspace() and unicodedata.category(part) != "Cf"
    )


FORGERIES = st.sampled_from([
    "</context>", "</CONTEXT>", "< / context >", "</con\u200btext>", "＜/context＞", "</context-2>",
    "</context-3>", "<context>", "</statement>", "<statement-2>", "</question>", "</passage>",
    "</sentence>", "</answer>",
    "</response>", "</", "context", "-2", ">", " ", "\n",
])  # fmt: skip


@settings(max_examples=150)
@given(text=st.lists(st.one_of(FORGERIES, st.text(max_size=5)), max_size=8).map("".join))
def test_no_text_can_close_its_own_tag(text: str) -> None:
    """The real fence differs from every spelling of a closing tag in a text."""
    for task in all_tasks(text):
        for node in judge().request(task).path:
            for closing in closing_tags(node):
                assert not [
                    p for p in node if not p.trusted and closing.casefold() in read_loosely(p.text)
                ]


def test_a_forged_tag_changes_only_the_fence_of_its_node() -> None:
    task = Attribution(
        unit=unit("statement", "It is."), contexts=("</context> </context-2>", "fine")
    )
    tags = [closing_tags(node) for node in judge().request(task).path]
    assert tags == [[], ["</context-3>"], ["</context>"], ["</statement>"]]


def test_braces_in_a_text_are_text() -> None:
    for task in all_tasks("{unit} {context} {fence} {question}"):
        users = [
            piece.text for node in judge().request(task).path for piece in node if not piece.trusted
        ]
        levels = "1: poor\n2: weak\n3: fair\n4: good\n5: very good"
        assert set(users) <= {"{unit} {context} {fence} {question}", "other", levels}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PROFILES / "instruct", tmp_path / "copy"))


def test_every_file_of_a_profile_is_in_its_hash(folder: Path) -> None:
    before = load_profile(str(folder)).sha256
    for file in sorted(folder.glob("*.toml")):
        original = file.read_text(encoding="utf-8")
        file.write_text(f"{original}\n# a remark\n", encoding="utf-8")
        assert load_profile(str(folder)).sha256 != before
        file.write_text(original, encoding="utf-8")
    assert load_profile(str(folder)).sha256 == before


def test_a_special_task_has_its_own_hash(folder: Path) -> None:
    """Only runs that use the task get another judge."""
    before = PromptWriter(load_profile(str(folder)))
    with (folder / "special" / "refusal.toml").open("a", encoding="utf-8") as file:
        file.write("# a remark\n")
    after = PromptWriter(load_profile(str(folder)))
    assert before.identity() == after.identity()
    assert before.identity(["sufficiency"]) == after.identity(["sufficiency"]) != after.identity()
    assert before.identity(["refusal"]) != after.identity(["refusal"])
    assert list(after.identity(["sufficiency", "refusal"])["special_tasks"]) == [
        "refusal",
        "sufficiency",
    ]


def test_a_prompt_without_a_place_for_a_text_refuses_it(folder: Path) -> None:
    words = 'grammar = "level"\n[[node]]\ntext = "{own_question} {levels} {unit}"'
    (folder / "special" / "rubric.toml").write_text(words, encoding="utf-8")
    judge = PromptWriter(load_profile(str(folder)))
    levels = ("rude", "curt", "neutral", "polite", "warm")
    rubric = CustomQuestion(
        unit=unit("response", "In 1889."), question="Is it polite?", levels=levels
    )
    example = (rubric, '{"level":5}')
    assert judge.request(rubric)
    for shown, text in (
        ({"response": "All of it."}, "response"),
        ({"examples": (example,)}, "examples"),
    ):
        with pytest.raises(SampleError, match=f"no place for {text} in the task rubric"):
            judge.request(rubric.model_copy(update=shown))


@pytest.mark.parametrize("task", special_tasks("Some text."), ids=task_name)
def test_a_judge_without_a_prompt_for_a_task_is_refused(task: Task) -> None:
    name = task_name(task)
    assert judge("lexical").unsupported([name, "attribution"]) == [name]
    assert judge().unsupported([name, "attribution"]) == []
    with pytest.raises(SampleError, match=f"'lexical' .*task {name}"):
        judge("lexical").request(task)


TASKS = (*tasks("It is 8 m."), *special_tasks("It is 8 m.")[:2])


@pytest.mark.parametrize("task", TASKS)
def test_only_a_reason_before_the_verdict_changes_the_prompt(task: Task) -> None:
    """With `after`, path and grammar are the same as with `none`; an explanation follows."""
    plain, explained, before = (
        judge(reasons=reasons).request(task) for reasons in ("none", "after", "before")
    )
    assert explained._replace(explanation=None) == plain
    assert explained.explanation is not None
    assert '{"reason":"...","' in before.path[0][0].text
    assert before.grammar.pattern.startswith(r'(\{"reason":"')
    assert before.explanation is None


def test_reasons_are_part_of_the_identity() -> None:
    """Order affects a verdict: three settings make three judges."""
    identities = [judge(reasons=reasons).identity() for reasons in ("none", "before", "after")]
    assert [identity["reasons"] for identity in identities] == ["none", "before", "after"]
    assert identities[0]["grammars_sha256"] != identities[1]["grammars_sha256"]


@pytest.mark.parametrize("reasons", ["before", "after"])
def test_the_lexical_judge_cannot_give_reasons(reasons: Any) -> None:
    with pytest.raises(InputError, match=r"reasons(?s:.*)judge=\.\.\."):
        judge("lexical", reasons)
