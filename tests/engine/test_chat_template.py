from pathlib import Path

import pytest

from localjudge import ModelError
from localjudge.engine import tokens as chat
from localjudge.types import ChatEnds
from tests.engine.conftest import attributions
from tests.judge.trained_templates import CHATML

pytestmark = pytest.mark.engine


def ends(template: str) -> ChatEnds:
    return chat.ChatTemplate(template, bos="<s>", eos="</s>").ends


HEAD = "<|im_start|>user\n"
TAIL = "<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("template", "head", "tail"),
    [
        (CHATML, HEAD, TAIL),
        (
            "{{ bos_token }}[INST]{{ messages[0].content }}[/INST]{{ eos_token }}",
            "<s>[INST]",
            "[/INST]</s>",
        ),
        (CHATML.replace("m.content", "m.content | trim | upper | lower"), HEAD, TAIL),
        (
            "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}" + CHATML,
            HEAD,
            TAIL,
        ),
        (
            "{{ strftime_now('%d %b %Y') }} {{ date_string }} " + CHATML,
            "01 Jan 2025 01 Jan 2025 " + HEAD,
            TAIL,
        ),
        (
            CHATML
            + "{% if enable_thinking is not defined or enable_thinking %}<think>\n{% endif %}",
            HEAD,
            TAIL,
        ),
        (CHATML + "{% if thinking is not defined or thinking %}<think>\n{% endif %}", HEAD, TAIL),
        ("{{ messages[0].content }}A {%- generation -%} B{% endgeneration %}\n", "", "AB"),
        # A family without a switch gets the beginning of its answer.
        *(
            ("{{ messages[0].content }}{{ '" + opening + "' }}", "", opening + opener)
            for opening, opener in [
                ("<think>\n", "\n</think>\n\n"),
                ("<think>", "\n\n</think>\n\n"),
                ("<|start|>assistant", "<|channel|>final<|message|>"),
                ("<|START_THINKING|><|END_THINKING|>", "<|START_RESPONSE|>"),
                ("<|im_start|>assistant\n", ""),
            ]
        ),
    ],
)
def test_the_ends_surround_the_message(template: str, head: str, tail: str) -> None:
    """A template may not strip the message, and the prompt has no current date."""
    assert ends(template)[:2] == (head, tail)


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("{% if %}", "cannot be rendered"),
        ("{{ raise_exception('only with tools') }}", "cannot be rendered: only with tools"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "cannot be rendered"),
        ("Hello", "shows the message 0 times"),
        ("{{ messages[0].content }} {{ messages[0].content }}", "shows the message 2 times"),
        ("{{ 'a' * 1000000 }}" + CHATML, "writes 1,000,0.. characters"),
        ("{{ 1 | xmlattr }}" + CHATML, "AttributeError: 'int' object has no attribute 'items'"),
        ("{{ " + "(" * 100_000, "maximum recursion depth exceeded"),
    ],
    ids=lambda value: value[:30],
)
def test_an_unusable_template_is_a_model_error(template: str, complaint: str) -> None:
    with pytest.raises(ModelError, match=complaint) as caught:
        ends(template)
    assert caught.value.hint


@pytest.mark.parametrize(
    "attack",
    [
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ raise_exception.__globals__ }}",
        "{% include '/etc/passwd' %}",
    ],
)
def test_a_template_cannot_escape_its_sandbox(attack: str) -> None:
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
def test_a_template_that_needs_too_much_time_or_memory_is_refused(
    monkeypatch: pytest.MonkeyPatch, attack: str
) -> None:
    monkeypatch.setitem(chat._LIMITS, "seconds", 1)
    with pytest.raises(ModelError, match="takes more than 1 s or 512 MiB"):
        ends(attack + CHATML)


LLAMA_2 = (
    "{% if messages[0].role == 'system' %}"
    "{% set system, turns = messages[0].content, messages[1:] %}"
    "{% else %}{% set system, turns = none, messages %}{% endif %}"
    "{% for message in turns %}{% if message.role == 'user' %}{{ bos_token }}[INST] "
    "{% if loop.first and system %}<<SYS>>\n{{ system }}\n<</SYS>>\n\n{% endif %}"
    "{{ message.content }} [/INST]"
    "{% else %} {{ message.content }} {{ eos_token }}{% endif %}{% endfor %}"
)


@pytest.mark.parametrize(
    ("template", "texts"),
    [
        (LLAMA_2, ("<<SYS>>", "<</SYS>>", "[/INST]", "[INST]", "[/INST]")),
        (
            "So. {% if messages[1] %}{{ raise_exception('one') }}{% endif %}"
            "Q: {{ messages[0].content }}\nA:",
            ("A:",),
        ),
        ("{{ messages", ()),
        ("Say something.", ()),
    ],
    ids=["Llama 2", "one turn", "not a template", "shows no message"],
)
def test_turn_markers_are_found(template: str, texts: tuple[str, ...]) -> None:
    """Without begin and end tokens and the preamble; the system turn comes first."""
    markers = chat.ChatTemplate(template, bos="<s>", eos="</s>").between_turns()
    assert tuple(marker.strip() for marker in markers) == texts


def test_a_random_template_gives_the_same_prompt_twice() -> None:
    template = "{{ range(9999) | random }} {{ lipsum() }}" + CHATML
    first = ends(template)
    chat._run_template.cache_clear()
    assert ends(template)[:2] == first[:2]


def test_the_prompt_is_between_the_ends() -> None:
    prompts = [
        "".join(
            piece.text
            for node in attributions(["It is."], "  x  ", chat=around)[0].path
            for piece in node
        )
        for around in (ends(CHATML), None)
    ]
    assert prompts[0].startswith(HEAD + "Decide")
    assert prompts[0].endswith(TAIL)
    assert "<context>\n  x  \n</context>" in prompts[0]
    assert prompts[1].endswith("\nAnswer: ")


def test_every_template_of_the_folder_renders(vocabularies: Path) -> None:
    for path in sorted((vocabularies / "templates").glob("*.jinja")):
        assert ends(path.read_text(encoding="utf-8")).tail, path.stem
