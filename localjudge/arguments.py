"""Check arguments of public functions by their annotations, before any work begins."""

import types
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from inspect import signature
from numbers import Integral, Real
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from localjudge.errors import ArgumentTypeError, ArgumentValueError, InputError
from localjudge.words import hint_for_option

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_NUMBERS: dict[Any, type] = {int: Integral, float: Real}
_TYPE_NAMES = {
    "str": "a text",
    "Path": "a path",
    "int": "a whole number",
    "float": "a number",
    "bool": "True or False",
    "NoneType": "None",
    "RunRecord": "a run",
    "Progress": "a localjudge.progress.Progress",
}
"""How a message names a type, by the name of its class."""


def check_arguments(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Return the function with checks of the names and types of its arguments.

    An unknown name or a value of another type raises ArgumentTypeError. Elements of lists are left
    to the function, whose InputError becomes an ArgumentValueError.
    """
    return check_arguments_except()(function)


def check_arguments_except(
    checked_inside: Collection[str] = (),
) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """Return a decorator like `check_arguments` that leaves the values of some arguments alone."""

    def decorate(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        form = signature(function)
        kinds = {name: parameter.annotation for name, parameter in form.parameters.items()}
        kinds.pop("self", None)
        kinds.pop("cls", None)

        @wraps(function)
        def call(*arguments: _Arguments.args, **options: _Arguments.kwargs) -> _Result:
            _check_names(options, kinds)
            for name, value in form.bind_partial(*arguments, **options).arguments.items():
                if name in kinds and name not in checked_inside:
                    _check_type(name, value, kinds[name])
            try:
                return function(*arguments, **options)
            except InputError as error:
                if type(error) is not InputError:
                    raise
                value_error = ArgumentValueError(error.message, hint=error.hint)
                raise value_error.with_traceback(error.__traceback__) from error.__cause__

        return call

    return decorate


def _check_names(options: Mapping[str, object], names: Collection[str]) -> None:
    for name in options:
        if name not in names:
            hint = hint_for_option(name, names)
            raise ArgumentTypeError(f"there is no option {name!r}", hint=hint)


def _check_type(name: str, value: object, annotation: Any) -> None:
    if not _takes(annotation, value):
        hint = f"it takes {_describe(annotation)}"
        raise ArgumentTypeError(f"{name} cannot be {value!r:.80}", hint=hint)


def _takes(annotation: Any, value: object) -> bool:
    """Return whether a value is of the annotated type; true for lists."""
    kinds = _alternatives(annotation)
    if len(kinds) > 1:
        return any(_takes(kind, value) for kind in kinds)
    if get_origin(annotation) is Literal:
        return any(type(value) is type(word) and value == word for word in get_args(annotation))
    if annotation in _NUMBERS:
        return isinstance(value, _NUMBERS[annotation]) and not isinstance(value, bool)
    try:
        return isinstance(value, annotation)
    except TypeError:  # a generic type, or a protocol that cannot be checked
        return True


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the type itself."""
    if get_origin(annotation) in (Union, types.UnionType):
        return get_args(annotation)
    return (annotation,)


def _describe(annotation: Any) -> str:
    """Return the accepted types and values: `'pass' or 'fail'`, `a text, a path or None`."""
    names: list[str] = []
    for kind in _alternatives(annotation):
        if get_origin(kind) is Literal:
            names += [repr(value) for value in get_args(kind)]
        else:
            names.append(_TYPE_NAMES.get(kind.__name__, kind.__name__))
    *others, last = names
    if not others:
        return last
    return f"{', '.join(others)} or {last}"
