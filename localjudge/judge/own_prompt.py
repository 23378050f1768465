"""Your own wording of a task: one file in the place of a profile's.

    task = "relevance_sentence"       which wording it replaces
    grammar = "relevant"              the answer, as in the profile
    [[node]] ...                      the prompt's nodes, root first

The file is hashed into the profile's sha256, so into the judge's part of the signature and into every stored answer's
key: a changed word is another judge.
"""

import hashlib
import tomllib
from pathlib import Path

from pydantic import ValidationError

from localjudge.errors import UsageError
from localjudge.judge.answer_forms import AnswerForm
from localjudge.judge.prompts import PromptProfile, TaskPrompt
from localjudge.option_spelling import option, option_name


def with_prompt(profile: PromptProfile, file: Path) -> PromptProfile:
    """The profile with one task worded by the file.

    Raises UsageError for a file that is not a wording of a task, and for a judge that reads no instructions: it would
    answer anything with even odds.
    """
    if not profile.instructions:
        raise UsageError(
            f"the prompt {file} cannot be used: this judge ({profile.description}) would not understand a word of it",
            hint=f"leave out {option_name('prompts')}, or name a model that follows instructions: {option('judge')}",
        )
    try:
        content = file.read_bytes()
        table = tomllib.loads(content.decode())
    except OSError as error:
        raise UsageError(f"the prompt {file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the prompt {file} is not TOML: {error}", hint="mend the file") from error
    task = table.pop("task", None)
    if task not in profile.tasks:
        raise UsageError(
            f"the prompt {file} {'names no task' if task is None else f'says task = {task!r}'}",
            hint=f"put task = ... above the first [[node]]; it is one of {', '.join(sorted(profile.tasks))}",
        )
    try:
        prompt = TaskPrompt.model_validate(table)
    except ValidationError as error:
        raise UsageError(
            f"the prompt {file} is not valid: {error}", hint="compare it with a bundled profile"
        ) from error
    if prompt.grammar != profile.tasks[task].grammar:
        raise UsageError(
            f"the prompt {file} asks for the answer {prompt.grammar!r}",
            hint=f"the answer of this task is {_said(profile.tasks[task].grammar)}",
        )
    if "unit" not in prompt.places:
        raise UsageError(f"the prompt {file} never shows the text that is judged", hint="put {unit} into a node")
    digest = hashlib.sha256(profile.sha256.encode() + hashlib.sha256(content).digest()).hexdigest()
    return profile.model_copy(update={"tasks": {**profile.tasks, task: prompt}, "sha256": digest})


def _said(grammar: str | AnswerForm) -> str:
    """How a file says which answer is meant."""
    return f'grammar = "{grammar}"' if isinstance(grammar, str) else "the table [grammar] of the profile's file"
