"""Check arguments of public functions by their annotations, before any work begins."""

import types
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from inspect import Parameter, Signature, signature
from numbers import Integral, Real
from typing import (
    Any,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from localjudge.errors import ArgumentTypeError, ArgumentValueError, InputError
from localjudge.words import suggestion

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

    An unknown name or a value of another type raises ArgumentTypeError. Elements of lists, and
    settings (`**settings: Unpack[...]`), are left to the function, whose InputError becomes an
    ArgumentValueError.
    """
    form = signature(function)
    shown = form.replace(parameters=_expand(form))
    names = [name for name in shown.parameters if name not in ("self", "cls")]

    @wraps(function)
    def call(*arguments: _Arguments.args, **options: _Arguments.kwargs) -> _Result:
        _check_names(options, names)
        for name, value in form.bind_partial(*arguments, **options).arguments.items():
            parameter = form.parameters[name]
            is_checked = name in names and parameter.kind is not Parameter.VAR_KEYWORD
            if is_checked and not _takes(parameter.annotation, value):
                hint = f"it takes {_describe(parameter.annotation)}"
                raise ArgumentTypeError(f"{name} cannot be {value!r:.80}", hint=hint)
        try:
            return function(*arguments, **options)
        except InputError as error:
            if type(error) is not InputError:
                raise
            value_error = ArgumentValueError(error.message, hint=error.hint)
            raise value_error.with_traceback(error.__traceback__) from error.__cause__

    call.__signature__ = shown  # type: ignore[attr-defined]
    return call


def _expand(form: Signature) -> list[Parameter]:
    """Return the parameters, with one for each setting in place of `**settings`."""
    parameters: list[Parameter] = []
    for parameter in form.parameters.values():
        if parameter.kind is not Parameter.VAR_KEYWORD:
            parameters.append(parameter)
            continue
        [settings] = get_args(parameter.annotation)
        for name, kind in get_type_hints(settings).items():
            keyword = Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            parameters.append(keyword)
    return parameters


def _check_names(options: Mapping[str, object], names: Collection[str]) -> None:
    for name in options:
        if name not in names:
            hint = suggestion(name, names, "the options")
            raise ArgumentTypeError(f"there is no option {name!r}", hint=hint)


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
