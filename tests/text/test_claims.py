"""Sentences without a claim are recognised by their forms, and a claim is never taken for one."""

import pytest

from localjudge import Sample
from localjudge.metrics import catalog
from localjudge.text import Segmenter

sentences = Segmenter()

QUESTION = "Is it so?"

BARE = [
    "Yes.",
    "No.",
    "Unfortunately not.",
    "**Ja.**",
    "Nein!",
    "Leider nein.",
    "Oui.",
    "“Non.”",
    "Sí.",
]
NO_CLAIM = [
    "Please do two things:",
    "Kind regards,",
    "Kind regards, your Northfield team",
    "Best regards Ann Smith",
    "I am sorry, but I cannot answer this question on the basis of the documents.",
    "Unfortunately, I don’t know.",
    "The documents do not contain information on this.",
    "I hope this helps.",
    "Let me know if you have more questions.",
    "Here are the 3 steps:",
    "Dear customer,",
    "Sure.",
    "Thank you for your question.",
    "Mit freundlichen Grüßen Ihr Team",
    "Leider kann ich diese Frage nicht beantworten.",
    "Leider enthalten die Dokumente dazu keine Angaben.",
    "Ich kann diese Frage anhand der Dokumente nicht beantworten.",
    "Ich kann diese Frage nicht beantworten.",
    "Ich kann Ihre Frage nicht beantworten.",
    "Diese Frage kann ich nicht beantworten.",
    "Dazu enthalten die Dokumente keine Angaben.",
    "Die Dokumente enthalten dazu keine Angaben.",
    "The documents contain no information about this.",
    "Es tut mir leid, aber dazu liegen mir keine Informationen vor.",
    "Sehr geehrte Frau Meier,",
    "Bei Fragen stehen wir gern zur Verfügung.",
    "Je suis désolé, mais je ne peux pas répondre à cette question.",
    "Cordialement, votre équipe",
    "Veuillez procéder comme suit :",
    "Lo siento, pero no puedo responder a esta pregunta.",
    "Un cordial saludo,",
    "Haga lo siguiente:",
]
CLAIMS = [
    "The documents do not contain a limit, but the policy pays 500 euros.",
    "The documents do not contain a limit, so the policy pays all.",
    "Best practice is to wait.",
    "All the best hotels are insured.",
    "Regards to the deductible are paid.",
    "No, the policy pays nothing.",
    "Thanks to the new law, rent fell.",
    "Sure, the policy pays floods.",
    "Hello, the policy pays floods.",
    "The following cars are insured:",
    "Please note that floods are excluded:",
    "Feel free to cancel at any time.",
    "Let me know within 14 days.",
    "Ich kann diese Frage mit Ja beantworten.",
    "Dazu enthalten die Dokumente 2 Fristen und keine Ausnahme.",
    "Dazu enthalten die Dokumente eine Frist, aber keine Ausnahme.",
    "The documents contain no limit.",
    "Leider zahlt die Versicherung nicht.",
    "Malheureusement, la police ne paie pas.",
    "Lamentablemente, la póliza no paga.",
]


def asked_about(response: str) -> list[str]:
    """Return the texts about which faithfulness asks."""
    sample = Sample(id="a", user_input=QUESTION, response=response)
    tasks = next(catalog.get("faithfulness").steps(sample, sentences), [])
    return [task.unit.text for task in tasks]


@pytest.mark.parametrize("sentence", BARE)
def test_yes_and_no_are_judged_with_their_question(sentence: str) -> None:
    assert asked_about(sentence) == [f"{QUESTION} {sentence}"]


@pytest.mark.parametrize("sentence", NO_CLAIM)
def test_a_sentence_without_a_claim_is_not_judged(sentence: str) -> None:
    assert asked_about(sentence) == []


@pytest.mark.parametrize("sentence", CLAIMS)
def test_a_claim_is_judged(sentence: str) -> None:
    assert asked_about(sentence) == [sentence]
