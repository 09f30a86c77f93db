"""Functions that differ in their parameters only: a name, its parameters as text, and what it does."""

from __future__ import annotations

import inspect
from ast import literal_eval
from collections.abc import Callable
from functools import cache
from typing import Any

Function = Callable[..., Any]


@cache
def signature(parameters: str) -> inspect.Signature:
    """The signature of parameters that are separated by spaces, with defaults as in `out_dtype=None`."""
    found = []
    for text in parameters.split():
        name, _, default = text.partition("=")
        value = literal_eval(default) if default else inspect.Parameter.empty
        found.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=value))
    return inspect.Signature(found)


def named(function: Function, name: str, parameters: str, doc: str) -> Function:
    """A function under a name, that takes these parameters by place or by name and passes them on by place."""
    taken = signature(parameters)

    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = taken.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None
        bound.apply_defaults()
        return function(*bound.args)

    called.__name__ = called.__qualname__ = name
    called.__doc__ = doc
    called.__signature__ = taken  # type: ignore[attr-defined]
    return called
