"""What stands around a user's turn, by the model's own chat template."""

from pathlib import Path

import pytest

from localjudge.engine import tokens as chat
from localjudge.errors import ModelError
from localjudge.judge import profile as prompts
from localjudge.judge.wording import PromptWriter
from localjudge.types import Attribution, ChatEnds, Span, Unit

pytestmark = pytest.mark.engine

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{{ '<|im_start|>assistant\n' }}"
)


def ends(template: str) -> ChatEnds:
    return chat.chat_ends(template, bos="<s>", eos="</s>")


HEAD, TAIL = "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("template", "head", "tail"),
    [
        (CHATML, HEAD, TAIL),
        ("{{ bos_token }}[INST]{{ messages[0].content }}[/INST]{{ eos_token }}", "<s>[INST]", "[/INST]</s>"),
        (CHATML.replace("m.content", "m.content | trim | upper | lower"), HEAD, TAIL),
        ("{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}" + CHATML, HEAD, TAIL),
        ("{{ strftime_now('%d %b %Y') }} {{ date_string }} " + CHATML, "01 Jan 2025 01 Jan 2025 " + HEAD, TAIL),
        (CHATML + "{% if enable_thinking is not defined or enable_thinking %}<think>\n{% endif %}", HEAD, TAIL),
        (CHATML + "{% if thinking is not defined or thinking %}<think>\n{% endif %}", HEAD, TAIL),
        ("{{ messages[0].content }}A {%- generation -%} B{% endgeneration %}\n", "", "AB"),
    ],
    ids=[
        "plain",
        "own tokens",
        "trims",
        "no system",
        "fixed date",
        "enable_thinking",
        "thinking",
        "marks for training",
    ],
)
def test_the_ends_are_what_stands_before_and_after_the_message(template: str, head: str, tail: str) -> None:
    """Blanks around a context are not the template's to take, and a prompt does not change at midnight."""
    assert ends(template)[:2] == (head, tail)


@pytest.mark.parametrize(
    ("opening", "opener"),
    [
        ("<think>\n", "\n</think>\n\n"),
        ("<think>", "\n\n</think>\n\n"),
        ("<|start|>assistant", "<|channel|>final<|message|>"),
        ("<|START_THINKING|><|END_THINKING|>", "<|START_RESPONSE|>"),
        ("<|im_start|>assistant\n", ""),
    ],
)
def test_a_family_without_a_switch_is_led_to_its_answer(opening: str, opener: str) -> None:
    assert ends("{{ messages[0].content }}{{ '" + opening + "' }}").tail == opening + opener


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("{% if %}", "cannot be rendered"),
        ("{{ raise_exception('only with tools') }}", "cannot be rendered: only with tools"),
        ("{{ messages[1].content }}", "cannot be rendered"),
        ("{{ nothing.at.all }}", "cannot be rendered"),
        ("{{ 1 // 0 }}", "cannot be rendered"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "cannot be rendered"),
        ("Hello", "shows the message 0 times"),
        ("{{ messages[0].content }} {{ messages[0].content }}", "shows the message 2 times"),
    ],
)
def test_a_template_that_cannot_be_used_is_an_error_of_the_model(template: str, complaint: str) -> None:
    with pytest.raises(ModelError, match=complaint) as caught:
        ends(template)
    assert caught.value.hint


@pytest.mark.parametrize(
    "attack",
    [
        "{{ messages.__class__.__mro__[1].__subclasses__() }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ raise_exception.__globals__ }}",
        "{% include '/etc/passwd' %}",
    ],
)
def test_a_template_cannot_reach_out_of_its_sandbox(attack: str) -> None:
    """A model file comes from anywhere, and its template is a program: it fails, or finds nothing."""
    try:
        found = ends(attack + "{{ messages[0].content }}")
    except ModelError:
        return
    assert (found.head, found.tail) == ("", "")


@pytest.mark.parametrize(
    ("attack", "complaint"),
    [
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "longer than 1 s"),
        ("{{ lipsum(n=99999999) }}", "longer than 1 s"),
        ("{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}", "longer than 1 s"),
        ("{{ '%999999999d' % 1 }}", "more memory than 512 MiB"),
        ("{{ 'a' * 1000000000 }}", "more memory than 512 MiB"),
        ("{{ strftime_now('%Y' * 100000000) }}", "takes (longer|more memory) than"),
        ("{{ 'a' * 1000000 }}", "writes 1,000,0.. characters"),
        ("{{ 1 | xmlattr }}", "AttributeError: 'int' object has no attribute 'items'"),
        ("{{ " + "(" * 100_000, "maximum recursion depth exceeded"),
    ],
    ids=["loops", "lipsum", "macros", "width", "gigabyte", "dates", "long", "unforeseen", "deep"],
)
def test_a_template_that_takes_too_much_of_the_machine_is_refused(
    monkeypatch: pytest.MonkeyPatch, attack: str, complaint: str
) -> None:
    monkeypatch.setitem(chat._LIMITS, "seconds", 1)
    with pytest.raises(ModelError, match=complaint) as caught:
        ends(attack + CHATML)
    assert caught.value.hint


def test_a_template_that_draws_at_random_gives_the_same_prompt_twice() -> None:
    template = "{{ range(9999) | random }} {{ lipsum() }}" + CHATML
    first = ends(template)
    chat._reply.cache_clear()
    assert ends(template)[:2] == first[:2]


def test_the_hash_is_that_of_the_template() -> None:
    assert ends(CHATML).sha256 != ends(CHATML + " ").sha256
    assert ends(CHATML).sha256 == ends(CHATML).sha256


def judged(ends_of_turn: ChatEnds | None) -> str:
    """The whole prompt about one statement."""
    unit = Unit(kind="statement", index=0, source="reference", span=Span(start=0, end=6, text="It is."))
    request = PromptWriter(prompts.load_profile("instruct"), ends_of_turn).request(
        Attribution(unit=unit, contexts=("  x  ",))
    )
    return "".join(piece.text for node in request.path for piece in node)


def test_the_prompt_stands_between_the_ends() -> None:
    prompt = judged(ends(CHATML))
    assert prompt.startswith("<|im_start|>user\nDecide")
    assert prompt.endswith("<|im_end|>\n<|im_start|>assistant\n")
    assert "<context>\n  x  \n</context>" in prompt


def test_a_model_without_a_template_is_led_to_its_answer_in_words() -> None:
    assert judged(None).endswith("\nAnswer: ")


def test_every_template_of_the_folder_renders(vocabularies: Path) -> None:
    for path in sorted((vocabularies / "templates").glob("*.jinja")):
        found = ends(path.read_text(encoding="utf-8"))
        assert found.tail, path.stem
