"""The NumPy model and llama.cpp give the same logit, within 0.05."""

import pytest
from bare_llama import BareModel
from reference_judge import prompts
from reference_judge.numpy_model import NumpyJudge
from reference_judge.vocabulary import ANSWER, CONTEXT, STATEMENT, Vocabulary

TOLERANCE = 0.05
TOWER = "The Iron Gate was opened in 1936 by the city of Porto, which had paid 1,200 workers to build it."
FILLER = "Ships brought grain, wool and salt to the harbour; merchants kept their books in a hall above the water. "
STATEMENTS = (
    "The Iron Gate was opened in 1936.",
    "The Iron Gate was opened in 1937 by Lisbon.",
    "Yes.",
    "1936 1,200",
    "",
    "Ворота открыл город Порту.",
    "The U.S. paid 50% of the café's costs.",
    "서울은 대한민국의 수도이다.",
    "नई दिल्ली 北京 القاهرة",
)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_short_prompts(statement: str, words: Vocabulary, numpy_judge: NumpyJudge, llama_judge: BareModel) -> None:
    prompt = prompts.attribution(words, [TOWER], statement)
    assert llama_judge.log_odds(prompt) == pytest.approx(numpy_judge.log_odds(prompt), abs=TOLERANCE)


@pytest.mark.parametrize("place", [0, 7000])
def test_prompts_that_nearly_fill_the_window(
    place: int, words: Vocabulary, numpy_judge: NumpyJudge, llama_judge: BareModel
) -> None:
    text = FILLER * 330
    prompt = prompts.attribution(words, [text[: 5 * place] + TOWER + text[5 * place :]], STATEMENTS[0])
    assert 7000 < len(prompt) < 8192
    assert llama_judge.log_odds(prompt) == pytest.approx(numpy_judge.log_odds(prompt), abs=TOLERANCE)


def test_several_contexts(words: Vocabulary, numpy_judge: NumpyJudge, llama_judge: BareModel) -> None:
    prompt = prompts.attribution(words, [FILLER, "", TOWER, FILLER * 3], STATEMENTS[0])
    assert llama_judge.log_odds(prompt) == pytest.approx(numpy_judge.log_odds(prompt), abs=TOLERANCE)


@pytest.mark.parametrize("contexts", [[], [TOWER], [FILLER * 5, "", f"{TOWER} {FILLER}"], [TOWER * 60, FILLER * 200]])
@pytest.mark.parametrize("judged", [TOWER, FILLER, "", "1936"])
def test_relevance(
    judged: str, contexts: list[str], words: Vocabulary, numpy_judge: NumpyJudge, llama_judge: BareModel
) -> None:
    """Without contexts as a chunk, beside them as a sentence; the last are as long as the window allows."""
    prompt = prompts.relevance(words, contexts, "When was the Iron Gate in Porto opened?", judged)
    assert llama_judge.log_odds(prompt) == pytest.approx(numpy_judge.log_odds(prompt), abs=TOLERANCE)


def test_a_statement_decoded_from_a_shared_context(
    words: Vocabulary, numpy_judge: NumpyJudge, llama_judge: BareModel
) -> None:
    shared = [words.ids[CONTEXT], *words.tokenizer.encode(FILLER * 20 + TOWER)]
    llama_judge.logits(shared)
    for statement in STATEMENTS:
        answer = [words.ids[ANSWER], *words.tokenizer.encode(prompts.FORCED_ATTRIBUTION)]
        own = [words.ids[STATEMENT], *words.tokenizer.encode(statement), *answer]
        assert llama_judge.log_odds(own, kept=len(shared)) == pytest.approx(
            numpy_judge.log_odds([*shared, *own]), abs=TOLERANCE
        )
