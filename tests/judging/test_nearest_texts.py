"""What a reader is shown of each kind of task."""

from localjudge.judge.nearest import Finders, show_nearest
from localjudge.metrics import Attribution, CustomQuestion, Relevance, Task, Usefulness
from localjudge.text import Segmenter
from localjudge.types import Sufficiency
from tests.judge.conftest import unit

CONTEXTS = (
    "It rains. Nobody knows why. The Danube rises in the Black Forest.",
    "The Rhine ends in the Netherlands. It is long.",
)
RISES = "The Danube rises in the Black Forest."
LETTERS = 40


def shown(task: Task, letters: int = LETTERS) -> Task:
    return show_nearest(task, Finders(Segmenter("en"), "en"), letters, lambda _: True)


def test_a_statement_is_shown_the_nearest_sentence() -> None:
    task = Attribution(unit=unit("statement", "The Danube rises."), contexts=CONTEXTS)
    near = shown(task)
    assert isinstance(near, Attribution)
    assert near.contexts == (RISES,)
    assert near.unit == task.unit


def test_a_question_is_shown_the_nearest_sentence_of_the_contexts() -> None:
    task = Sufficiency(
        unit=unit("question", "Where does the Danube rise?"),
        contexts=CONTEXTS,
        user_input="Where does the Danube rise?",
    )
    near = shown(task)
    assert isinstance(near, Sufficiency)
    assert near.contexts == (RISES,)


def test_a_sentence_is_shown_itself_among_its_contexts() -> None:
    task = Relevance(
        unit=unit("sentence", "Nobody knows why."), user_input="Why?", contexts=CONTEXTS
    )
    near = shown(task)
    assert isinstance(near, Relevance)
    assert near.contexts == ("It rains. Nobody knows why.",)
    assert near.unit.text == "Nobody knows why."


def test_a_chunk_is_shown_as_its_sentence_nearest_to_the_question() -> None:
    chunk = unit("chunk", CONTEXTS[0])
    for task in (
        Relevance(unit=chunk, user_input="Where does the Danube rise?"),
        Usefulness(unit=chunk, user_input=None, reference="In the Black Forest."),
    ):
        near = shown(task)
        assert near.unit.text == RISES
        assert near.unit.span == chunk.span


def test_code_and_tables_are_read() -> None:
    for text, nearest in (
        ("```\nreturn danube\n```", "return danube"),
        ("| a | b |\n|---|---|\n| danube | 2,850 |", "| danube | 2,850 |"),
    ):
        task = Attribution(unit=unit("statement", "It returns danube."), contexts=(text,))
        near = shown(task)
        assert isinstance(near, Attribution)
        assert near.contexts == (nearest,)


def test_own_questions_are_asked_about_everything() -> None:
    task = CustomQuestion(unit=unit("response", "A."), question="Is it long?", contexts=CONTEXTS)
    assert shown(task) == task


def test_fewer_letters_are_read_until_the_prompt_fits() -> None:
    """100, 75, 56, 42, 31 letters: the sentence with 37 fits until 42."""
    task = Attribution(unit=unit("statement", "The Danube rises."), contexts=CONTEXTS)
    finders = Finders(Segmenter("en"), "en")

    def fits(shown: Task) -> bool:
        return isinstance(shown, Attribution) and len(shown.contexts[0]) <= len(RISES)

    near = show_nearest(task, finders, 100, fits)
    assert isinstance(near, Attribution)
    assert near.contexts == (RISES,)


def test_texts_are_cut_once_for_questions_and_evidence() -> None:
    cut: list[str] = []

    class Counting:
        def __call__(self, text: str) -> list[object]:
            cut.append(text)
            return list(Segmenter("en")(text))

    finders = Finders(Counting(), "en")  # type: ignore[arg-type]
    for statement in ("The Danube rises.", "The Rhine ends.", "The Danube rises."):
        show_nearest(
            Attribution(unit=unit("statement", statement), contexts=CONTEXTS),
            finders,
            LETTERS,
            lambda _: True,
        )
    assert cut == list(CONTEXTS)
