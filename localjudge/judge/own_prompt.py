"""Your own wording of a task: one file in the place of a profile's.

    task = "relevance_sentence"       which wording it replaces
    grammar = "relevant"              the answer, as in the profile
    [[node]] ...                      the prompt's nodes, root first

The file is hashed into the profile's sha256, so into the judge's part of the signature and into every stored answer's
key: a changed word is another judge.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from localjudge.errors import UsageError
from localjudge.judge.answer_forms import AnswerForm
from localjudge.judge.prompts import PromptProfile, TaskPrompt
from localjudge.option_spelling import option, option_name
from localjudge.toml_file import parse_toml
from localjudge.types import Record


class OwnPrompt(Record):
    """A file's name and every word of it: what a run keeps, so that it can be verified without the file."""

    file: str
    text: str


def read_prompts(files: object) -> tuple[OwnPrompt, ...]:
    """Prompts from files and from prompts; one, or a list of them. Raises UsageError for what cannot be read."""
    return tuple(map(_read_prompt, files if isinstance(files, Sequence) and not isinstance(files, str) else [files]))


def _read_prompt(file: object) -> OwnPrompt:
    if isinstance(file, OwnPrompt):
        return file
    if not isinstance(file, str | Path):
        raise UsageError(f"{option_name('prompts')} must be names of files, got {file!r:.80}")
    try:
        return OwnPrompt(file=str(file), text=Path(file).read_bytes().decode())
    except OSError as error:
        raise UsageError(f"the prompt {file} cannot be read: {error.strerror}", hint="name a TOML file") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the prompt {file} is not TOML: {error}", hint="mend the file") from error


def with_prompt(profile: PromptProfile, prompt: OwnPrompt) -> PromptProfile:
    """The profile with one task worded by the prompt.

    Raises UsageError for what is not a wording of a task, and for a judge that reads no instructions: it would answer
    anything with even odds.
    """
    file, content = prompt.file, prompt.text.encode()
    if not profile.instructions:
        raise UsageError(
            f"the prompt {file} cannot be used: this judge ({profile.description}) would not understand a word of it",
            hint=f"leave out {option_name('prompts')}, or name a model that follows instructions: {option('judge')}",
        )
    table = parse_toml(content, f"the prompt {file}")
    task = table.pop("task", None)
    if task not in profile.tasks:
        raise UsageError(
            f"the prompt {file} {'names no task' if task is None else f'says task = {task!r}'}",
            hint=f"put task = ... above the first [[node]]; it is one of {', '.join(sorted(profile.tasks))}",
        )
    try:
        wording = TaskPrompt.model_validate(table)
    except ValidationError as error:
        raise UsageError(
            f"the prompt {file} is not valid: {error}", hint="compare it with a bundled profile"
        ) from error
    if wording.grammar != profile.tasks[task].grammar:
        raise UsageError(
            f"the prompt {file} asks for the answer {wording.grammar!r}",
            hint=f"the answer of this task is {_said(profile.tasks[task].grammar)}",
        )
    if "unit" not in wording.places:
        raise UsageError(f"the prompt {file} never shows the text that is judged", hint="put {unit} into a node")
    digest = hashlib.sha256(profile.sha256.encode() + hashlib.sha256(content).digest()).hexdigest()
    return profile.model_copy(update={"tasks": {**profile.tasks, task: wording}, "sha256": digest})


def _said(grammar: str | AnswerForm) -> str:
    """How a file says which answer is meant."""
    return f'grammar = "{grammar}"' if isinstance(grammar, str) else "the table [grammar] of the profile's file"
