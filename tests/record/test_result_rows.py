import json

from hypothesis import given, settings
from hypothesis import strategies as st

from localjudge.record.result_rows import Evaluation, JudgedUnit, json_line, score_rows, verdict_rows
from localjudge.types import Failed, NoAnswer, Scored, Span, Undefined, Unit, Verdict


def unit(index: int, text: str, start: int) -> Unit:
    span = Span(start=start, end=start + len(text), text=text)
    return Unit(kind="sentence", index=index, source="retrieved_contexts", source_index=3, span=span)


def test_score_rows_hold_the_contract_s_keys_in_order() -> None:
    evaluations = [
        Evaluation("a", "context_recall", Scored(value=2 / 3, numerator=2, denominator=3)),
        Evaluation("b", "context_recall", Undefined(reason="the reference has no sentence")),
        Evaluation("c", "context_recall", Failed(reason="too long")),
        Evaluation("d", "context_precision", Scored(value=0.5, detail="said so")),
    ]
    assert "".join(json_line(vars(row)) for row in score_rows(evaluations)) == (
        '{"sample_id": "a", "metric": "context_recall", "status": "scored", "score": 0.6666666666666666,'
        ' "numerator": 2, "denominator": 3, "detail": null}\n'
        '{"sample_id": "b", "metric": "context_recall", "status": "undefined", "score": null,'
        ' "numerator": null, "denominator": null, "detail": "the reference has no sentence"}\n'
        '{"sample_id": "c", "metric": "context_recall", "status": "failed", "score": null,'
        ' "numerator": null, "denominator": null, "detail": "too long"}\n'
        '{"sample_id": "d", "metric": "context_precision", "status": "scored", "score": 0.5,'
        ' "numerator": null, "denominator": null, "detail": "said so"}\n'
    )


def test_verdict_rows_hold_the_contract_s_keys_in_order() -> None:
    """A unit without a verdict is listed with its error; keys from `against` on are additions."""
    units = (
        JudgedUnit(unit(0, "Größe.", 0), Verdict(label=1, p_yes=0.75, legal_mass=0.5, reason="so", window=2)),
        JudgedUnit(unit(1, "Two.", 7), NoAnswer(error="too long")),
    )
    evaluation = Evaluation("a", "context_relevancy", Failed(reason="no verdict"), units)
    assert "".join(json_line(vars(row)) for row in verdict_rows([evaluation])) == (
        '{"sample_id": "a", "metric": "context_relevancy", "unit": "sentence", "index": 0,'
        ' "source": "retrieved_contexts", "source_index": 3, "start": 0, "end": 6, "text": "Größe.",'
        ' "p_yes": 0.75, "label": 1, "reason": "so", "window": 2, "error": null, "against": null,'
        ' "legal_mass": 0.5, "position": 0}\n'
        '{"sample_id": "a", "metric": "context_relevancy", "unit": "sentence", "index": 1,'
        ' "source": "retrieved_contexts", "source_index": 3, "start": 7, "end": 11, "text": "Two.",'
        ' "p_yes": null, "label": null, "reason": null, "window": null, "error": "too long", "against": null,'
        ' "legal_mass": null, "position": 1}\n'
    )


@given(st.text(st.characters(categories=None, exclude_categories=())), st.floats(0, 1))
@settings(deadline=None)
def test_any_values_round_trip_as_one_utf8_line(text: str, p_yes: float) -> None:
    """Python's `splitlines` also breaks at U+2028 and U+0085."""
    line = json_line({"text": text, "p_yes": p_yes})
    assert line.encode().decode().splitlines() == [line[:-1]]
    assert json.loads(line) == {"text": text, "p_yes": p_yes}
