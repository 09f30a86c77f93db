"""Marks of programs that tell which of their schedules a configuration is of."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable
from typing import Any


def _hash(func: Callable[..., Any]) -> str:
    return hashlib.sha256(inspect.getsource(func).encode()).hexdigest()


def attach_code_hash(s: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates a function that changes a schedule: the schedule gets the digest of its source."""

    def decorator(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def called(*args: Any, **kwargs: Any) -> Any:
            made = func(*args, **kwargs)
            s.code_hash = _hash(func)
            return made

        return called

    return decorator


def attach_code_hash_to_arg(arg_idx: int = 1) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """As attach_code_hash, for the schedule that is the argument of a number."""

    def decorator(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def called(*args: Any, **kwargs: Any) -> Any:
            made = func(*args, **kwargs)
            args[arg_idx].code_hash = _hash(func)
            return made

        return called

    return decorator
