"""Responses: thinking and lists of sources are left out, and marks are no part of a statement."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from localjudge import Sample
from localjudge.metrics import Context, Span, response_statements
from localjudge.text import Segmenter
from localjudge.text.responses import is_json, prepare, statements

sentences = Segmenter()

A = "It is in Ulm."
CITING = "It is old [1]. It is big [2]."
FENCE = "```"


def responding(text: str, *ids: str) -> Sample:
    contexts = tuple(Context(text="It is.", id=name) for name in ids)
    return Sample(id="1", response=text, retrieved_contexts=contexts)


def shown(text: str, *ids: str, keep_thinking: bool = False) -> list[str]:
    cut = Segmenter("en", keep_thinking=keep_thinking)
    return [statement.shown for statement in response_statements(responding(text, *ids), cut)]


def cited(text: str, *ids: str) -> list[tuple[str, ...]]:
    judged = response_statements(responding(text, *ids), sentences)
    return [tuple(name for mark in statement.marks for name in mark.names) for statement in judged]


@pytest.mark.parametrize(
    "thinking",
    [
        "<think>\nPerhaps Berlin? No.\n</think>\n\n",
        "<think></think>",
        "<think>\n\n</think>\n\n",
        "<think>Perhaps Berlin? No.</think>",
        "<THINK>Perhaps Berlin? No.</THINK> ",
        "<Thinking>Perhaps Berlin? No.</Thinking>\n",
        "<reasoning>Perhaps Berlin? No.</reasoning>\n",
        "<thought>Perhaps Berlin? No.</thought>\n",
        '<think type="deep" budget="9">Perhaps Berlin?</think>\n',
        "< think >Perhaps Berlin?</ think >\n",
        "<think>Perhaps <think>Berlin?</think> No.</think>\n",
        "<think>Perhaps <think>Berlin? No.</think>\n",
        "<thinking>One. <reasoning>Two.</reasoning> Three.</thinking>\n",
        "<think>One.</think>\n<think>Two.</think>\n",
        "Perhaps Berlin? No.\n</think>\n\n",
        "Perhaps Berlin? No.</think>",
        "Perhaps Berlin? No.</think>\n\n</think>\n",
        "</think>",
        f"<think>\n{FENCE}python\nx = 1\n{FENCE}\nThen?\n</think>\n",
        f"<think>\n{FENCE}python\nx = 1\n</think>\n",
        "<think>Use `</b>` here.</think>\n",
        "[THINK]Perhaps Berlin?[/THINK]",
        "◁think▷Perhaps Berlin?◁/think▷",
        "&lt;think&gt;Perhaps Berlin?&lt;/think&gt;\n",
        "<think>\n| a | b |\n|---|---|\n| 1 | 2 |\n</think>\n",
        "<think>Sources:\n[1] a.pdf\n</think>\n",
        "<|channel|>analysis<|message|>Berlin? No.<|end|>"
        "<|start|>assistant<|channel|>final<|message|>",
        "<|start|>assistant<|channel|>analysis<|message|>No.<|end|>"
        "<|start|>assistant<|channel|>commentary<|message|>"
        "So?<|end|><|start|>assistant<|channel|>final<|message|>",
        "analysis<|message|>Berlin? No.<|end|><|start|>assistant<|channel|>final<|message|>",
        "analysisPerhaps Berlin? No.assistantfinal",
        "Here is my thought process: Perhaps Berlin? No. Here is my response: ",
        "<|begin_of_thought|>\nBerlin? No.\n<|end_of_thought|>\n",
        "<|START_THINKING|>Berlin? No.<|END_THINKING|>",
        "<|think|>Berlin? No.<|/think|>",
        "<unused94>thought\nBerlin? No.<unused95>",
        "<|channel>thought\nBerlin? No.<channel|>",
        "<seed:think>Berlin? No.</seed:think>",
        "<scratchpad>Berlin? No.</scratchpad>\n",
        "<reflection>Berlin? No.</reflection>\n",
        "<analysis>Berlin? No.</analysis>\n",
    ],
)
def test_thinking_is_left_out(thinking: str) -> None:
    assert shown(thinking + A) == [A]
    assert prepare(thinking + A).shown == A


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{A} <think>Or Bern?</think> It is old.", [A, "It is old."]),
        (f"{A}\n<think>Or Bern?", [A]),
        (f"{A}\n\n<think>Or Bern?</think>", [A]),
        ("<think>Or Bern? No.", []),
        ("<think>Or Bern? No.</think>", []),
        ("<think></think>", []),
        ("Or Bern?\n</think>", []),
        ("Models write `<think>` before they answer. It helps.", None),
        ("Models write <think> before they answer. It helps.", None),
        ("Models write <think> and </think> around it. It helps.", None),
        (f"Use this:\n{FENCE}xml\n<think>\nA. B.\n</think>\n{FENCE}\nIt helps.", None),
        ("I think it is old. <b>Really.</b>", None),
        ("The tag `</think>` ends it. It helps.", None),
        ("<thinker>Rodin</thinker> made it. It is old.", None),
    ],
)
def test_thinking_between_sentences_and_text_about_thinking(
    text: str, expected: list[str] | None
) -> None:
    """None: nothing is left out."""
    if expected is None:
        assert prepare(text).thinking == ()
    else:
        assert shown(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "<analysis>It is old. It is big.</analysis>",
        "<reason>It is old.</reason>",
        "<analysis>It is old.",
        "Write <analysis>x</analysis> as tags. It works.",
        "The analysis is done. The final answer is near.",
        "Here is my response: it is old. It is big.",
        "Say assistantfinal. It works.",
        "<think />\nIt is old. It is big.",
    ],
)
def test_an_answer_is_no_thinking(text: str) -> None:
    """Tags that also name answers are thinking only in a pair before an answer."""
    judged = shown(text)
    assert judged
    assert sum(map(len, judged)) >= len(text) * 0.6


@pytest.mark.parametrize(
    "token", ["<|im_end|>", "<|eot_id|>", "<|return|>", "<|end|>", "</s>", "<end_of_turn>"]
)
def test_special_tokens_of_models_are_no_part_of_a_statement(token: str) -> None:
    assert shown(A + token) == [A]


def test_thinking_can_be_kept() -> None:
    assert shown(f"<think>Or Bern?</think>\n{A}", keep_thinking=True) == [
        "<think>Or Bern?</think>",
        A,
    ]


SOURCES = [
    "\n\n**Sources:**\n[1] policy-2024.pdf, p. 3\n[2] faq.html",
    "\n\n[^1]: policy-2024.pdf, p. 3\n[^2]: https://example.org/faq",
    "\n\nReferences\n- [1] policy-2024.pdf, p. 3\n- [2] faq.html",
    "\n\nSources: [1] a.pdf, [2] b.html",
    "\nSources: [1] a.pdf, [2] b.html",
    " Sources: [1] a.pdf, [2] b.html",
    "\n\n**Sources**: [1], [2]",
    "\n\n(Sources: [1] a.pdf; [2] b.html)",
    "\n\n## References\n\n1. Policy handbook, 2024\n2. Frequently asked questions",
    "\n\n### Sources\n\n1) Policy handbook\n2) https://example.org/faq",
    "\n\n---\n**References:**\n\n* [1] Smith, J. (2019). The dose. Nature 12(3).\n* [2] The Times",
    "\n\n[1] Smith, J. (2019). The dose. Nature 12(3).\n[2] The Times, 2020.",
    "\n\n[1] The policy handbook.\n[2] The questions page.",
    "\n\n[1] policy.pdf\n\n[2] faq.html",
    "\n\n[1]: https://example.org/a\n[2]: https://example.org/b",
    "\n\nQuellen:\n[1] richtlinie.pdf, S. 3\n[2] faq.html",
    "\n\nLiteraturverzeichnis\n[1] Handbuch\n[2] Fragen",
    "\n\nFuentes:\n[1] política.pdf\n[2] preguntas.html",
    "\n\nRéférences :\n[1] politique.pdf\n[2] questions.html",
    "\n\nFonti:\n1. politica.pdf\n2. domande.html",
    "\n\nBronnen:\n- beleid.pdf\n- vragen.html",
    "\n\n参考文献\n[1] 方針.pdf\n[2] 質問.html",
    "\n\n参考资料：\n[1] 政策手册\n[2] 常见问题",
    "\n\n来源：[1] a.pdf，[2] b.html",
    "\n\n출처:\n[1] 정책.pdf\n[2] 질문.html",
    "\n\nالمصادر:\n[1] policy.pdf\n[2] faq.html",
    "\n\nस्रोत:\n[1] policy.pdf\n[2] faq.html",
    "\n\nИсточники:\n[1] policy.pdf\n[2] faq.html",
    "\n\nSources:\n- https://example.org/a\n- [The FAQ](https://example.org/b)",
    "\n\nSources:\n\n- **[1]** policy.pdf\n- **[2]** faq.html",
    "\n\nSources:\n【1†policy.pdf】\n【2†faq.html】",
    "\n\n<b>Sources:</b>\n[1] policy.pdf\n[2] faq.html",
    "\n\n<sup>1</sup> policy.pdf\n<sup>2</sup> faq.html",
    "\n\nSources:",
    "\n\n---\n\n### 📚 Sources\n- [1] policy.pdf\n- [2] faq.html",
    "\n\n📎 Sources: [1] [2]",
    "\n\nSource(s): [1], [2]",
    "\n\nSource documents:\n- policy.pdf\n- faq.html",
    "\nSOURCES: 0-pl, 5-pl",
    "\n\nSources: doc1, doc2",
    "\n\nSources: Document 1, Document 2",
    "\n\nSources: Policy handbook [1], FAQ [2]",
    "\n\n_Source: policy.pdf, faq.html_",
    "\n\n(1) policy.pdf\n(2) faq.html",
    "\n\n1: policy.pdf\n2: faq.html",
    "\n\nRelevant links:\n- https://a.example\n- https://b.example",
    "\n\nRelated documents:\n- [1] a.pdf\n- [2] b.pdf",
    "\n\nNotes:\n[1] policy.pdf\n[2] faq.html",
    "\n\nRead more:\n[1] https://a.example\n[2] https://b.example",
    "\n\nFuentes consultadas:\n[1] a.pdf\n[2] b.pdf",
    "\n\n참고자료:\n[1] a.pdf\n[2] b.pdf",
    "\n\n【参考文献】\n[1] 方針.pdf\n[2] 質問.html",
    "\n\n【出典】\n- 方針.pdf\n- 質問.html",
    "\n\n<sources>\n[1] a.pdf\n[2] b.pdf\n</sources>",
    "\n\n<h3>Sources</h3><ol><li>policy.pdf</li><li>faq.html</li></ol>",
    "\n\n<details><summary>Sources</summary>\n\n[1] policy.pdf\n[2] faq.html\n</details>",
]


@pytest.mark.parametrize("sources", SOURCES)
def test_a_list_of_sources_states_and_cites_nothing(sources: str) -> None:
    assert shown(CITING + sources) == ["It is old", "It is big"]
    assert cited(CITING + sources) == [("1",), ("2",)]
    assert prepare(CITING + sources).shown == CITING


@pytest.mark.parametrize(
    "sources",
    ["**References**\n\n1. [Policy](https://a.b/c)\n2. The FAQ", "Sources:\n[1] A\n[2] B"],
)
def test_a_closing_remark_after_the_list_of_sources_is_a_statement(sources: str) -> None:
    text = f"{CITING}\n\n{sources}\n\nLet me know if you need more."
    assert shown(text) == ["It is old", "It is big", "Let me know if you need more."]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Do this:\n1. Open the door.\n2. Close the door.", 3),
        ("Renewable sources:\n- Solar power is clean.\n- Wind power grows.", 3),
        ("Sources:\n- Solar power is clean.\n- Wind power grows.", 3),
        ("Sources of energy:\n1. Solar power\n2. Wind power", 3),
        ("It is old.\n\nReferences are required for the job. Ask two people.", 3),
        ("[1] The dose is safe.\n[2] Rockets fly.", 2),
        ("Two claims:\n[1] The dose is safe.\n[2] Rockets fly.", 3),
        ("[1] policy.pdf\n[2] faq.html", 2),
        ("The files are:\n- a.pdf\n- b.html", 3),
        ("It is old [1].\n\nLinks between both are strong.", 2),
        ("Its sources: the Rhine and the Danube.", 1),
        ("- It is old [1].\n- It is big [2].", 2),
        ("1. It is old [1].\n2. It is big [2].", 2),
        ("It is old [1].\n\nNote: it is also big.", 2),
        ("The steps are:\n[1] Open the door\n[2] Close the door", 3),
        ("You find it here:\n[1] policy.pdf\n[2] faq.html", 3),
        ("It is old. Source: policy.pdf. It is big.", 3),
        ("It is old. (Source: policy.pdf) It is big. (Source: faq.md)", 2),
        ("It is old. Sources: [1] says that it is big. [2] says it is not.", 2),
        ("Es ist alt. Quellen: [1] sagt, dass es groß ist. [2] sagt, dass es klein ist.", 2),
        ("Notes:\n[1] It rains often.\n[2] It pours often.", 3),
    ],
)
def test_other_lists_at_the_end_are_statements(text: str, count: int) -> None:
    assert len(shown(text)) == count


@pytest.mark.parametrize(
    ("text", "expected", "names"),
    [
        ("Ulm [1] is old [2].", ["Ulm is old"], [("1", "2")]),
        ("Ulm[1] is old[2].", ["Ulm is old"], [("1", "2")]),
        ("Ulm is old [1][2], and big [3].", ["Ulm is old, and big"], [("1", "2", "3")]),
        ("Ulm ([1], [2]) is old.", ["Ulm is old."], [("1", "2")]),
        ("Ulm is old (see [1]).", ["Ulm is old"], [("1",)]),
        (
            'He said "Ulm is old [1]." Then he left [2].',
            ['He said "Ulm is old."', "Then he left"],
            [("1",), ("2",)],
        ),
        ("[1] Ulm is old. [2] It is big.", ["Ulm is old.", "It is big."], [("1", "2"), ()]),
        (
            "- [1] Ulm is old\n- [2] It is big and it is not small.\n\nSo it is.",
            None,
            [("1",), ("2",), ()],
        ),
        ("Ulm is old.\n\n[1]", ["Ulm is old."], [("1",)]),
        ("Ulm is old.\n[1]\nIt is big.\n[2]", ["Ulm is old.", "It is big."], [("1",), ("2",)]),
        ("Ulm is old【1†a.pdf】.", ["Ulm is old"], [("1",)]),
        ("Ulm is old.<sup>1</sup>", ["Ulm is old."], [("1",)]),
        ("Ulm is old.¹ It is big.²", ["Ulm is old.", "It is big."], [("1",), ("2",)]),
        ("Ulm is old.(1) It is big.(2)", ["Ulm is old.", "It is big."], [("1",), ("2",)]),
        ("Ulm is old [1](https://a.example).", ["Ulm is old"], [("1",)]),
        (
            "| Ulm | old [1] |\n| Bern | big [2] |",
            ["| Ulm | old |", "| Bern | big |"],
            [("1",), ("2",)],
        ),
        (
            "Use array[1] and x[2]. Then args[0].",
            ["Use array[1] and x[2].", "Then args[0]."],
            [(), ()],
        ),
        ("Call `rows[1]` now.", ["Call `rows[1]` now."], [()]),
        ("According to [1], Ulm is old.", ["According to [1], Ulm is old."], [("1",)]),
        ("[1] says that Ulm is old.", ["[1] says that Ulm is old."], [("1",)]),
        ("It is shown in [1].", ["It is shown in [1]."], [("1",)]),
        ("Ulm is old.[1]. It is big [2].", ["Ulm is old.", "It is big"], [("1",), ("2",)]),
        ('Ulm is old.<a href="#1">[1]</a> It is big.', ["Ulm is old.", "It is big."], [("1",), ()]),
        ("Ulm is old.^1^ It is big.", ["Ulm is old.", "It is big."], [("1",), ()]),
        ("Ulm is old.\\[1\\] It is big.", ["Ulm is old.", "It is big."], [("1",), ()]),
        ("Ulm is old [Source: Handbook of 2020].", ["Ulm is old"], None),
        ("Ulm is old [source: a.pdf, p. 2].", ["Ulm is old"], None),
        (
            "He said so [sic]. It was [REDACTED].",
            ["He said so [sic].", "It was [REDACTED]."],
            [(), ()],
        ),
        (
            "Smith (2019) says 5 m² and 10<sup>6</sup>.",
            ["Smith (2019) says 5 m² and 10<sup>6</sup>."],
            [()],
        ),
        ("See [the page](https://a.example/1) and [GPT-4](https://b.example).", None, [()]),
        ("It opened [in 2019] and closed [2021].", None, [()]),
        ("Options: (1) open it, (2) close it.", None, [()]),
        ("The interval [0, 100] and [a, b].", ["The interval [0, 100] and [a, b]."], [()]),
        (
            "The value is [0, 1]. It is in [1].",
            ["The value is [0, 1].", "It is in [1]."],
            [(), ("1",)],
        ),
        ("A vector [1, 2, 3] is short.", ["A vector [1, 2, 3] is short."], [()]),
        ("It returns [1, 2].", ["It returns [1, 2]."], [()]),
        ("x = [1, 2] is a list.", ["x = [1, 2] is a list."], [()]),
        ("Ulm is old **[1]**. It is big **[2]**.", ["Ulm is old", "It is big"], [("1",), ("2",)]),
        ("Ulm is old. **[1]** It is big. *[2]*", ["Ulm is old.", "It is big."], [("1",), ("2",)]),
        ("Ulm is old ¹. It is 5 m ².", ["Ulm is old", "It is 5 m ²."], [("1",), ()]),
        ("Ulm is old.⁽¹⁾ It is big.⁽²⁾", ["Ulm is old.", "It is big."], [("1",), ("2",)]),
        ("Ulm is old.[1]:75–76 It is big.[2]", ["Ulm is old.", "It is big."], [("1",), ("2",)]),
        ("Ulm is old.$^{1}$ It is big.$^2$", ["Ulm is old.", "It is big."], [("1",), ("2",)]),
        (
            "Ulm is old.\\cite{a} It is big~\\citep[p. 3]{b,c}.",
            ["Ulm is old.", "It is big"],
            [("a",), ("b", "c")],
        ),
        (
            "Ulm is old [@a2019, p. 3]. It is big [@b].",
            ["Ulm is old", "It is big"],
            [("@a2019",), ("@b",)],
        ),
        (
            "Ulm is old [2 and 4]. It is big [1 & 3].",
            ["Ulm is old", "It is big"],
            [("2", "4"), ("1", "3")],
        ),
        ("Ulm is old.[#1] It is big.[ref_2]", ["Ulm is old.", "It is big."], [("#1",), ("ref_2",)]),
        ("Ulm is old [ID: 1]. It is big [https://a.example].", ["Ulm is old", "It is big"], None),
        ("Ulm is old [a.pdf:3]. It is big [a.html#top].", ["Ulm is old", "It is big"], None),
        ("Ulm is old (Source 1). It is big (see Document 2).", ["Ulm is old", "It is big"], None),
        ("Ulm is old. (Source 1) It is big. (Source: a.pdf)", ["Ulm is old.", "It is big."], None),
        ("Bob (ID 5) is old (see below).", ["Bob (ID 5) is old (see below)."], [()]),
        (
            "[cite_start]Ulm is old[cite: 1]. [cite_start]It is big[cite: 2].",
            ["Ulm is old", "It is big"],
            None,
        ),
        (
            "Ulm is old.\ue200cite\ue202turn0search1\ue201 "
            "It is big.\ue200cite\ue202turn0file2\ue201",
            ["Ulm is old.", "It is big."],
            [("cite turn0search1",), ("cite turn0file2",)],
        ),
        (
            "Ulm is old citeturn0search1turn0file2.",
            ["Ulm is old"],
            [("cite turn0search1", "cite turn0file2")],
        ),
        (
            "Ulm is old.:contentReference[oaicite:0]{index=0} It is big.",
            ["Ulm is old.", "It is big."],
            None,
        ),
        ("Ulm is old.[a.example](https://a.example) It is big.", None, [(), ()]),
        ("Yan et al. [2004b] saw Ulm. It is [1999, 2004].", None, [(), ()]),
        ("Ulm is old.1 It is big.2,3", ["Ulm is old.", "It is big."], [("1",), ("2", "3")]),
        ("He said “no.”3 Ulm is v2.1 The end.", ["He said “no.”", "Ulm is v2.1 The end."], None),
        (
            "Notes:\n[1] It is old.\n[2] It is big.",
            ["Notes:", "It is old.", "It is big."],
            [(), ("1",), ("2",)],
        ),
    ],
)
def test_marks_are_no_part_of_a_statement(
    text: str, expected: list[str] | None, names: list[tuple[str, ...]] | None
) -> None:
    if expected is not None:
        assert shown(text) == expected
    if names is not None:
        assert cited(text) == names


def test_an_id_without_digits_is_a_mark_where_contexts_have_it() -> None:
    text = "Ulm is old.[danube] It is big. [b]"
    assert shown(text, "danube", "b") == ["Ulm is old.", "It is big."]
    assert cited(text, "danube", "b") == [("danube",), ("b",)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{A}\n{FENCE}python\n{FENCE}", [A]),
        (f"{A}\n{FENCE}\nx = 1. Y = 2.\n{FENCE}", [A, "x = 1. Y = 2."]),
        (f"{A}\n~~~bash\nrun. It.\n~~~", [A, "run. It."]),
        (f"{A}\n  {FENCE}js\n  a. B.\n  {FENCE}\nDone.", [A, "a. B.", "Done."]),
        (f"{A}\n{FENCE}python\n# A title. More.", [A, "# A title. More."]),
        (
            f"{A}\n{FENCE}{FENCE}\n{FENCE}\na. B.\n{FENCE}\n{FENCE}{FENCE}",
            [A, f"{FENCE}\na. B.\n{FENCE}"],
        ),
        ("| Plan | Price |\n|---|---|\n| Pro | All. 5 dollars |", ["| Pro | All. 5 dollars |"]),
        ("| Plan | Price |\n|:---|---:|\n| Pro | All. 5 dollars |", ["| Pro | All. 5 dollars |"]),
        ("Plan | Price\n--- | ---\nPro | All. 5 dollars", ["Pro | All. 5 dollars"]),
        ("| Plan |\n|---|\n| All. Good. |", ["| All. Good. |"]),
        (
            "Prices:\n| Plan | Price |\n| --- | --- |\n| Pro | `a|b`. 5 |\n\nDone.",
            ["Prices:", "| Pro | `a|b`. 5 |", "Done."],
        ),
        ("> | Plan | Price |\n> |---|---|\n> | Pro | All. 5 |", ["> | Pro | All. 5 |"]),
        (
            "<table><tr><th>Plan</th></tr><tr><td>Pro.</td><td>All. 5</td></tr></table>",
            ["<td>Pro.</td><td>All. 5</td>"],
        ),
        ("Use `a | b` to pipe. It works.", ["Use `a | b` to pipe.", "It works."]),
        ("<p>One.</p><p>Two.</p>", ["One.", "Two."]),
        ("<p><b>Dose</b>: 5 mg.</p>", ["<b>Dose</b>: 5 mg."]),
        ("<ul><li>One</li><li>Two</li></ul>", ["One", "Two"]),
        ("<answer>One. Two.</answer>", ["One.", "Two."]),
        ("One.<br><br>Two.<hr>", ["One.", "Two."]),
        ("One.\\nTwo.\\n", ["One.", "Two."]),
        ("One.\u200b Two.\u200b", ["One.", "Two."]),
        ("<b></b>\n\n***\n\nOne.", ["One."]),
        ("One.&nbsp;Two.", ["One.", "Two."]),
        ("One.\u200e Two.\u200f", ["One.", "Two."]),
        ("<script>var a = 1. Then b.</script>\nOne.", ["One."]),
        ("<style>p { color: red. }</style><p>One.</p>", ["One."]),
        (
            "Put it in <script> tags. Close it by </script>.",
            ["Put it in <script> tags.", "Close it by </script>."],
        ),
        ("Use `<script>a. b</script>`. One.", ["Use `<script>a. b</script>`.", "One."]),
        ("<!-- A note. More. -->One.<!-- End. --> Two.", ["One.", "Two."]),
        (f"Use {FENCE}a. B = x{FENCE} here. One.", [f"Use {FENCE}a. B = x{FENCE} here.", "One."]),
    ],
)
def test_markup_is_no_statement(text: str, expected: list[str]) -> None:
    assert shown(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        '{"answer": "It is old. It is big.", "sources": [1]}',
        '\n{"answer": "It is old. It is big."}\n',
        '["It is old. It is big."]',
        '{\n  "answer": "It is old.\\nIt is big.",\n  "sure": true\n}',
        '<think>One. Two.</think>{"answer": "It is old. It is big."}',
    ],
)
def test_a_json_text_is_one_statement(text: str) -> None:
    assert len(shown(text)) == 1


@pytest.mark.parametrize(
    "text", ["[1]", "[1, 2]", "{}s", "[sic]", "{old. Big.}", "", "[", "[" * 100_000 + "]"]
)
def test_brackets_are_not_json(text: str) -> None:
    assert not is_json(text)


PIECES = [
    "<think>",
    "</think>",
    "One. ",
    "Two [1]. ",
    "\n",
    "\n\n",
    "Sources:\n",
    "[1] a.pdf\n",
    "| a | b |\n",
    "```\n",
    "`",
    "\x1c",
    "\x85",
    "\xa0",
    "\u2028",
    "\u200b",
]


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
@example("\x1c<think><think></think>One.")
@example("x <think><think></think>One.")
def test_offsets_in_the_shown_text_are_those_of_the_statement(text: str) -> None:
    response = prepare(text)
    for statement in response_statements(responding(text), sentences):
        start = response.offset_in_shown(statement.span.start)
        assert response.shown[start : start + len(statement.span.text)] == statement.span.text


def test_a_character_that_is_left_out_has_no_place_in_the_shown_text() -> None:
    response = prepare("<think>Hm.</think>One.")
    assert response.offset_in_shown(len("<think>Hm.</think>")) == 0
    with pytest.raises(ValueError, match="character 3"):
        response.offset_in_shown(3)


def test_a_fence_behind_thinking_is_code() -> None:
    """Also in a list. A tag in it is text."""
    for mark in ("", "- ", "1. "):
        text = f"<think>Plan.</think>{mark}{FENCE}\n<think>\n{FENCE}\nDone."
        assert len(prepare(text).thinking) == 1


@pytest.mark.parametrize(
    "unit",
    [
        "<think></think>",
        "<think>",
        "</think>",
        "<think>`a`</think>",
        "[1] a.pdf\n",
        "It is old [1]. ",
        "[1][2]. ",
        "[^1]: a.pdf\n",
    ],
)
def test_a_response_of_many_marks_or_tags_takes_linear_time(unit: str) -> None:
    """300,000 take seconds. Of some, 100,000 took 15, so these would take minutes."""
    size = 300_000
    text = (unit * size)[:size]
    prepared = prepare(text)
    assert prepared.text == text
    marks = [statement.marks for statement in statements(prepared, by_lines)]
    assert len(marks) in (0, text.count("\n"), text.count("\n") + 1)


def by_lines(text: str) -> list[Span]:
    spans = []
    start = 0
    for line in text.splitlines(keepends=True):
        spans.append(Span(start=start, end=start + len(line), text=line))
        start += len(line)
    return spans
