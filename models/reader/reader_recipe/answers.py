"""Sentences of answers: some answer their question, some evade it, repeat it or answer another."""

import random
import re

REFUSALS = {
    "en": (
        "I have no information on {q}.", "I don't know {q}.", "I do not know.", "I can't answer that.",
        "The text does not say {q}.", "It is not stated {q}.", "There is no mention of {q}.",
        "Unfortunately, I cannot tell you {q}.", "The documents contain nothing about {t}.",
        "Sorry, I could not find any details about {t}.", "I'm afraid {t} is not discussed here.",
        "Based on the context, it is unclear {q}.", "The passage doesn't provide information about {q}.",
        "No information is available about {t}.", "I was unable to determine {q}.",
        "The given sources talk about {t}, but they do not answer the question of {q}.",
        "This question cannot be answered with the texts provided.", "I am not sure {q}.",
        "To find out {q}, you would need to look elsewhere.", "Please consult an expert on {t}.",
        "While {t} is mentioned, the text leaves open {q}.", "There isn't enough data to say {q}.",
        "Exact figures for {t} are not given.", "Nothing in the documents tells us {q}.",
        "You may want to check an official website for {t}.", "My knowledge does not cover {t}.",
        "The context mentions {t} without saying {q}.", "That is hard to say.", "No answer found.",
        "It would be necessary to read more about {t}.", "The question of {q} remains open in the text.",
    ),
    "de": (
        "Dazu habe ich keine Informationen: {q}", "Das weiß ich leider nicht.",
        "Im Text steht nichts zu {t}.", "Die Frage „{q}“ kann ich nicht beantworten.",
        "Leider geht aus den Unterlagen nicht hervor, was zu {t} gilt.",
        "Über {t} ist mir nichts bekannt.", "Zu {t} machen die Dokumente keine Angaben.",
        "Bitte wenden Sie sich wegen {t} an den Kundendienst.", "Das lässt sich so nicht sagen.",
        "Der Text erwähnt {t}, nennt aber keine Einzelheiten.", "Dazu finde ich keine Angabe.",
        "Ohne weitere Unterlagen lässt sich die Frage nach {t} nicht klären.",
    ),
    "fr": (
        "Je n'ai pas d'informations à ce sujet : {q}", "Je ne sais pas.",
        "Le texte ne dit rien sur {t}.", "Je ne peux pas répondre à la question « {q} ».",
        "Malheureusement, les documents ne précisent pas ce qui vaut pour {t}.",
        "Aucune information n'est disponible sur {t}.", "Cela reste difficile à dire.",
        "Veuillez contacter le service client pour {t}.",
        "Le texte mentionne {t}, mais sans donner de détails.", "Je n'ai pas trouvé de réponse.",
        "Il faudrait d'autres sources pour répondre à la question sur {t}.",
    ),
    "es": (
        "No tengo información al respecto: {q}", "No lo sé.", "El texto no dice nada sobre {t}.",
        "No puedo responder a la pregunta «{q}».",
        "Lamentablemente, los documentos no aclaran qué vale para {t}.",
        "No hay información disponible sobre {t}.", "Es difícil decirlo.",
        "Consulte con atención al cliente sobre {t}.",
        "El texto menciona {t}, pero no da detalles.", "No he encontrado ninguna respuesta.",
        "Harían falta otras fuentes para responder a la pregunta sobre {t}.",
    ),
}  # fmt: skip
REPEATED = {
    "en": (
        "You ask {q}.", "You want to know {q}.", "The question is {q}.", "{Q}",
        "Your question about {t} is a good one.", "Let us look at {q}.", "Here is what I found on {t}:",
        "Regarding {t}, there is the question of {q}.", "Many people wonder {q}.",
        "I will now explain {q}.", "This answer deals with {t}.", "To answer {q}, we look at the text.",
    ),
    "de": (
        "{Q}", "Sie fragen: {q}", "Ihre Frage betrifft {t}.", "Es geht hier um {t}.",
        "Gute Frage: {q}", "Im Folgenden erkläre ich, was zu {t} zu sagen ist.",
    ),
    "fr": (
        "{Q}", "Vous demandez : {q}", "Votre question concerne {t}.", "Il s'agit ici de {t}.",
        "Bonne question : {q}", "Voici ce que l'on peut dire sur {t}.",
    ),
    "es": (
        "{Q}", "Usted pregunta: {q}", "Su pregunta trata de {t}.", "Aquí se trata de {t}.",
        "Buena pregunta: {q}", "A continuación explico lo que se puede decir sobre {t}.",
    ),
}  # fmt: skip
EMPTY = {
    "en": (
        "I hope this helps!", "Let me know if you have further questions.", "Sure, I can help with that.",
        "Here is the answer.", "Thank you for your question.", "This is an interesting topic.",
        "There is a lot to say about {t}.", "{t} is important to many people.", "In summary:",
        "{t} has a long and interesting history.", "Opinions on {t} differ.", "Of course!",
    ),
    "de": (
        "Ich hoffe, das hilft!", "Gerne helfe ich weiter.", "Hier ist die Antwort.",
        "Vielen Dank für Ihre Frage.", "Das ist ein spannendes Thema.", "Zu {t} gibt es viel zu sagen.",
    ),
    "fr": (
        "J'espère que cela vous aide !", "Bien sûr, je peux vous aider.", "Voici la réponse.",
        "Merci pour votre question.", "C'est un sujet intéressant.", "Il y a beaucoup à dire sur {t}.",
    ),
    "es": (
        "¡Espero que esto ayude!", "Claro, puedo ayudarle.", "Aquí está la respuesta.",
        "Gracias por su pregunta.", "Es un tema interesante.", "Hay mucho que decir sobre {t}.",
    ),
}  # fmt: skip
VAGUE = {
    "why": ("For several reasons.", "There are various causes for this.", "Because of the circumstances at the time.", "It happened for a number of reasons that are explained in the text."),
    "when": ("At some point in the past.", "It happened a while ago.", "At a certain time.", "The date is mentioned in the text."),
    "where": ("In a certain place.", "Somewhere in the region.", "The place is named in the passage.", "It depends on where you are."),
    "who": ("A certain person.", "Several people were involved.", "Somebody who is named in the text.", "There were different people."),
    "how many": ("Quite a few.", "A certain number of them.", "The number is given in the text.", "More than one might think.", "The number of {t} varies."),
    "how": ("In various ways.", "It depends.", "There are different methods for this.", "By a certain process."),
    "what": ("Something that is described in the text.", "There are different answers to that.", "It depends on various factors.", "A number of things."),
}  # fmt: skip
VAGUE_ELSEWHERE = {
    "de": ("Das hängt von verschiedenen Faktoren ab.", "Dafür gelten bestimmte Regeln.", "Das ist unterschiedlich.", "Für {t} gibt es eine Regelung."),
    "fr": ("Cela dépend de plusieurs facteurs.", "Certaines règles s'appliquent.", "C'est variable.", "Il existe une règle pour {t}."),
    "es": ("Depende de varios factores.", "Se aplican ciertas normas.", "Eso varía.", "Existe una norma para {t}."),
}  # fmt: skip
SHORT_ANSWERS = (
    "{A}.", "{A}", "{a}", "It was {a}.", "The answer is {a}.", "According to the text, {a}.",
    "{A}, as the passage says.", "That would be {a}.", "I'm not sure, but the text says {a}.",
    "As stated in the document, it is {a}.", "The passage gives {a}.", "Answer: {a}",
    "Although few details are given, {a} is named as the answer.", "In short: {a}.",
    "No other source is given, but the text says {a}.",
)  # fmt: skip
LEADS = (
    "", "", "", "", "According to the text, ", "The passage says that ", "As far as is known, ",
    "The document states: ", "No details are missing here: ",
)  # fmt: skip
NONE_ANSWERS = {
    "who": ("Nobody.", "No one did.", "Nobody; that never happened.", "There was no such person."),
    "when": ("Never.", "It never happened.", "That did not take place at all.", "It was never built."),
    "where": ("Nowhere.", "It does not exist anywhere.", "It was never built."),
    "how many": ("None.", "There were none.", "Not a single one.", "Zero."),
    "why": ("There was no reason.", "It was done for no reason at all."),
}  # fmt: skip
YES_NO = {
    "en": (("Yes.", "No."), ("Yes, it is.", "No, it is not."), ("That is correct.", "That is not so."), ("Yes, always.", "No, never."), ("Yes, that is right.", "No, this is not the case.")),
    "de": (("Ja.", "Nein."), ("Ja, das stimmt.", "Nein, das stimmt nicht."), ("Ja, das gilt.", "Nein, das gilt nicht.")),
    "fr": (("Oui.", "Non."), ("Oui, c'est exact.", "Non, ce n'est pas le cas."), ("Oui, tout à fait.", "Non, pas du tout.")),
    "es": (("Sí.", "No."), ("Sí, así es.", "No, no es así."), ("Sí, por supuesto.", "No, en absoluto.")),
}  # fmt: skip
_AUXILIARY = r"(?:did|does|do|is|are|was|were|has|have|had|can|could|will|would|should)"
_TOPIC_WORDS = 4


def question_type(question: str) -> str:
    """The question's first words: how many, why, when, where, who, how or what."""
    lowered = question.lower()
    for kind in ("how many", "how much", "why", "when", "where", "who", "how"):
        if re.search(rf"\b{kind}\b", lowered):
            return "how many" if kind == "how much" else kind
    if re.search(r"\b(?:what|which) (?:year|date|day|month)\b", lowered):
        return "when"
    return "what"


def answer_type(answer: str) -> str:
    """A year, a number, a name or other words."""
    if re.fullmatch(r"(?:in )?1\d\d\d|(?:in )?20\d\d", answer.lower()):
        return "year"
    if re.search(r"\d", answer):
        return "number"
    if answer[:1].isupper():
        return "name"
    return "words"


def topic(question: str) -> str:
    """What a question is about: its longest run of capitalised words, or its last words."""
    words = question.strip("¿ ").rstrip("? ").split()
    names = re.findall(r"[A-Z][\w'-]+(?: (?:of |the |de )?[A-Z][\w'-]+)*", " ".join(words[1:]))
    if names:
        return str(max(names, key=len))
    return " ".join(words[-_TOPIC_WORDS:])


def indirect(question: str, rng: random.Random) -> str:
    """The question inside a sentence: "how many there were"; often with the verb moved."""
    text = question.strip().rstrip("?").strip()
    match = re.match(rf"(?i)((?:how \w+|wh\w+)) ({_AUXILIARY}) (.+?) (\w+)$", text)
    if match and rng.random() < 0.6:
        return f"{match[1].lower()} {match[3]} {match[2]} {match[4]}"
    match = re.match(rf"(?i)({_AUXILIARY}) (.+)$", text)
    if match:
        return f"whether {match[2]}"
    return text[:1].lower() + text[1:]


def fill(pattern: str, question: str, about: str, rng: random.Random) -> str:
    """Write a question and its topic into a sentence. English questions become indirect."""
    asked = question
    if "„" not in pattern and "«" not in pattern and ": {q}" not in pattern:
        asked = indirect(question, rng)
    text = pattern.format(q=asked, Q=question, t=about)
    return text[:1].upper() + text[1:]


def evasion(question: str, about: str, language: str, rng: random.Random) -> str:
    """A sentence that does not answer: a refusal, the question again, small talk, or vague words."""
    vague = VAGUE[question_type(question)] if language == "en" else VAGUE_ELSEWHERE[language]
    tables = (REFUSALS[language], REFUSALS[language], REPEATED[language], EMPTY[language], vague)
    pattern = rng.choice(rng.choice(tables))
    return fill(pattern, question, about, rng)


def short_answer(answer: str, rng: random.Random) -> str:
    pattern = rng.choice(SHORT_ANSWERS)
    return pattern.format(a=answer, A=answer[:1].upper() + answer[1:])


def none_answer(question: str, rng: random.Random) -> str | None:
    """An answer that there is none: "It was never built." None for other kinds of questions."""
    choices = NONE_ANSWERS.get(question_type(question))
    if choices is None:
        return None
    return rng.choice(choices)
