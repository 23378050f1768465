"""What a chat template writes between the messages of a conversation, for families of templates."""

import pytest

from localjudge.engine.tokens import between_turns

pytestmark = pytest.mark.engine

LLAMA_2 = (
    "{% if messages[0].role == 'system' %}{% set system, turns = messages[0].content, messages[1:] %}"
    "{% else %}{% set system, turns = none, messages %}{% endif %}"
    "{% for message in turns %}{% if message.role == 'user' %}{{ bos_token }}[INST] "
    "{% if loop.first and system %}<<SYS>>\n{{ system }}\n<</SYS>>\n\n{% endif %}{{ message.content }} [/INST]"
    "{% else %} {{ message.content }} {{ eos_token }}{% endif %}{% endfor %}"
)
ALPACA = (
    "Below is an instruction.\n\n{% for message in messages %}"
    "{% if message.role == 'system' %}{{ raise_exception('no') }}"
    "{% elif message.role == 'user' %}### Instruction:\n{{ message.content }}\n\n"
    "{% else %}### Response:\n{{ message.content }}{{ eos_token }}\n\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}### Response:\n{% endif %}"
)
VICUNA = (
    "{% if messages[0].role != 'system' %}A chat with an assistant. {% endif %}{% for message in messages %}"
    "{% if message.role == 'system' %}{{ message.content }} "
    "{% elif message.role == 'user' %}USER: {{ message.content }} "
    "{% else %}ASSISTANT: {{ message.content }}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
ONE_TURN = (
    "{% if messages | length > 1 %}{{ raise_exception('one message') }}{% endif %}Q: {{ messages[0].content }}\nA:"
)


@pytest.mark.parametrize(
    ("template", "texts"),
    [
        (LLAMA_2, ("<<SYS>>", "<</SYS>>", "[/INST]", "[INST]", "[/INST]")),
        (ALPACA, ("### Response:", "### Instruction:", "### Response:")),
        (VICUNA, ("", "USER:", "ASSISTANT:", "USER:", "ASSISTANT:")),
        (ONE_TURN, ("A:",)),
        ("{{ raise_exception('nothing') }}", ()),
        ("{{ messages", ()),
        ("Say something.", ()),
    ],
    ids=["Llama 2", "Alpaca", "Vicuna", "one turn", "refuses all", "no template", "shows no message"],
)
def test_what_stands_between_turns(template: str, texts: tuple[str, ...]) -> None:
    """Without begin and end tokens, and without the preamble before the first turn; the system's turn comes first."""
    assert tuple(text.strip() for text in between_turns(template, bos="<s>", eos="</s>")) == texts
