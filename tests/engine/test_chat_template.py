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
    ids=["plain", "own tokens", "trims", "no system", "fixed date", "thinking", "thinks", "marks for training"],
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
        ("{{ 1 // 0 }}", "cannot be rendered"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "cannot be rendered"),
        ("Hello", "shows the message 0 times"),
        ("{{ messages[0].content }} {{ messages[0].content }}", "shows the message 2 times"),
        ("{{ 'a' * 1000000 }}" + CHATML, "writes 1,000,0.. characters"),
        ("{{ 1 | xmlattr }}" + CHATML, "AttributeError: 'int' object has no attribute 'items'"),
        ("{{ " + "(" * 100_000, "maximum recursion depth exceeded"),
    ],
    ids=["syntax", "refuses", "lookup", "zero", "recursion", "none", "twice", "long", "unforeseen", "deep"],
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
        around = ends(attack + "{{ messages[0].content }}")
    except ModelError:
        return
    assert (around.head, around.tail) == ("", "")


@pytest.mark.parametrize(
    "attack",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{{ lipsum(n=99999999) }}",
        "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{{ '%999999999d' % 1 }}",
        "{{ 'a' * 1000000000 }}",
        "{{ strftime_now('%Y' * 100000000) }}",
    ],
    ids=["loops", "lipsum", "macros", "width", "gigabyte", "dates"],
)
def test_a_template_that_takes_too_much_of_the_machine_is_refused(monkeypatch: pytest.MonkeyPatch, attack: str) -> None:
    monkeypatch.setitem(chat._LIMITS, "seconds", 1)
    with pytest.raises(ModelError, match="takes more than 1 s or 512 MiB"):
        ends(attack + CHATML)


def test_a_template_that_draws_at_random_gives_the_same_prompt_twice() -> None:
    template = "{{ range(9999) | random }} {{ lipsum() }}" + CHATML
    first = ends(template)
    chat._reply.cache_clear()
    assert ends(template)[:2] == first[:2]


def judged(ends_of_turn: ChatEnds | None) -> str:
    """The whole prompt about one statement."""
    unit = Unit(kind="statement", index=0, source="reference", span=Span(start=0, end=6, text="It is."))
    request = PromptWriter(prompts.load_profile("instruct"), ends_of_turn).request(
        Attribution(unit=unit, contexts=("  x  ",))
    )
    return "".join(piece.text for node in request.path for piece in node)


def test_the_prompt_stands_between_the_ends() -> None:
    """A model without a template is led to its answer in words."""
    prompt = judged(ends(CHATML))
    assert prompt.startswith(HEAD + "Decide")
    assert prompt.endswith(TAIL)
    assert "<context>\n  x  \n</context>" in prompt
    assert judged(None).endswith("\nAnswer: ")


def test_every_template_of_the_folder_renders(vocabularies: Path) -> None:
    for path in sorted((vocabularies / "templates").glob("*.jinja")):
        assert ends(path.read_text(encoding="utf-8")).tail, path.stem
