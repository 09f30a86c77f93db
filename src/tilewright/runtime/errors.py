"""Errors across the native boundary: which Python exception a native kind is, and the merged traceback."""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import TypeVar

from tilewright.support import errors as _errors

ErrorType = TypeVar("ErrorType", bound=type[BaseException])

_kinds: dict[str, type[BaseException]] = {
    name: value for name, value in vars(_errors).items() if isinstance(value, type) and issubclass(value, BaseException)
}
# The text of an internal error is made by its class; from native code it comes as it is.
_kinds["InternalError"] = _errors.TVMError


def register_error(
    name: str | ErrorType | None = None, cls: ErrorType | None = None
) -> ErrorType | Callable[[ErrorType], ErrorType]:
    """Makes an exception class known by its name, so that native code and remote sessions can raise it."""
    if isinstance(name, type):
        return register_error(name.__name__, name)

    def register(target: ErrorType) -> ErrorType:
        _kinds[name if isinstance(name, str) else target.__name__] = target
        return target

    return register if cls is None else register(cls)


def error_class(kind: str) -> type[BaseException]:
    """The exception class of a kind; TVMError for kinds that nobody registered."""
    found = _kinds.get(kind) or getattr(builtins, kind, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else _errors.TVMError


def error_kind(error: BaseException) -> str:
    """The kind under which a Python exception travels."""
    return type(error).__name__


_ENTRY = re.compile(r'File "(.*?)", line (\d+), in (.*)')
_TEMPLATE: CodeType = compile("_getframe()", "<native>", "eval")


def _frame(file: str, line: int, function: str) -> FrameType:
    """A frame that stands for a call in native code."""
    code = _TEMPLATE.replace(co_filename=file, co_name=function, co_qualname=function, co_firstlineno=line)
    frame: FrameType = eval(code, {"_getframe": sys._getframe})
    return frame


def make_error(kind: str, message: str, backtrace: str) -> BaseException:
    """The exception for a native error, with the native calls as the innermost entries of its traceback."""
    cls = error_class(kind)
    try:
        error = cls(message)
    except TypeError:  # classes such as UnicodeDecodeError want more than a text
        error = _errors.TVMError(f"{kind}: {message}")
    if cls is _errors.TVMError and kind not in _kinds:
        error = _errors.TVMError(f"{kind}: {message}")
    traceback: TracebackType | None = None
    for file, line, function in _ENTRY.findall(backtrace):  # innermost first
        frame = _frame(file, int(line), function.strip())
        traceback = TracebackType(traceback, frame, frame.f_lasti, int(line))
    return error.with_traceback(traceback)
