"""Check arguments of public functions by their names and annotations."""

import types
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, Union, Unpack, get_args, get_origin, get_type_hints

from localjudge.errors import ArgumentTypeError, ArgumentValueError, InputError
from localjudge.words import suggestion

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_NUMBERS: dict[Any, type] = {int: Integral, float: Real}
_WORDS: dict[Any, str] = {
    str: "a text",
    Path: "a path",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    type(None): "None",
}


def check_arguments(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Return the function with checks: an unknown name or a value of another type raises ArgumentTypeError.

    Settings of a run and elements of lists are checked inside; an InputError becomes an ArgumentValueError.
    """
    form = _stated(signature(function))
    kinds = {name: parameter.annotation for name, parameter in form.parameters.items() if name not in ("self", "cls")}
    checked_names = kinds.keys() & signature(function).parameters

    @wraps(function)
    def call(*arguments: _Arguments.args, **options: _Arguments.kwargs) -> _Result:
        for name in options:
            if name not in kinds:
                raise ArgumentTypeError(f"there is no option {name!r}", hint=suggestion(name, kinds, "the options"))
        for name, value in form.bind_partial(*arguments, **options).arguments.items():
            if name in checked_names and not _takes(kinds[name], value):
                raise ArgumentTypeError(f"{name} cannot be {value!r:.80}", hint=f"it takes {_in_words(kinds[name])}")
        try:
            return function(*arguments, **options)
        except InputError as error:
            if type(error) is not InputError:
                raise
            value_error = ArgumentValueError(error.message, hint=error.hint)
            raise value_error.with_traceback(error.__traceback__) from error.__cause__

    call.__signature__ = form  # type: ignore[attr-defined] # for help and editors
    return call


def _stated(form: Signature) -> Signature:
    parameters: list[Parameter] = []
    for parameter in form.parameters.values():
        keys = get_args(parameter.annotation) if get_origin(parameter.annotation) is Unpack else ()
        options = [(name, kind) for key in keys for name, kind in get_type_hints(key).items()]
        parameters += [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind) for name, kind in options]
        parameters += [] if keys else [parameter]
    return form.replace(parameters=parameters)


def _takes(annotation: Any, value: object) -> bool:
    """Return whether a value is of the annotated type; true for lists."""
    if len(kinds := _kinds(annotation)) > 1:
        return any(_takes(kind, value) for kind in kinds)
    if get_origin(annotation) is Literal:
        return any(type(value) is type(word) and value == word for word in get_args(annotation))
    if annotation in _NUMBERS:
        return isinstance(value, _NUMBERS[annotation]) and not isinstance(value, bool)
    try:
        return isinstance(value, annotation)
    except TypeError:  # a generic type, or a protocol that cannot be checked
        return True


def _kinds(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def _in_words(annotation: Any) -> str:
    words: list[str] = []
    for kind in _kinds(annotation):
        values = get_args(kind) if get_origin(kind) is Literal else ()
        words += map(repr, values) if values else [_WORDS.get(kind, kind.__name__)]
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
