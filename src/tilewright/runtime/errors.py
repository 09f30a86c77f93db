"""Errors across the native boundary: which Python exception a native kind is, and the merged traceback."""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import Any, TypeVar

from tilewright.support import errors as _errors

ErrorType = TypeVar("ErrorType", bound=type[BaseException])

_kinds: dict[str, type[BaseException]] = {
    name: value for name, value in vars(_errors).items() if isinstance(value, type) and issubclass(value, BaseException)
}
# The text of an internal error is made by its class; from native code it comes as it is.
_kinds["InternalError"] = _errors.TVMError
_kinds["RecursionError"] = _errors.DepthError
# Programs catch what compiled code says of its arguments as a TVMError, or as Python's own kinds.
_kinds["TypeError"], _kinds["ValueError"] = _errors.CallTypeError, _errors.CallValueError
_kinds["AssertionError"] = _errors.CallAssertionError
_travelling: dict[type[BaseException], str] = {
    _errors.CallTypeError: "TypeError",
    _errors.CallValueError: "ValueError",
    _errors.CallAssertionError: "AssertionError",
}


def register_error(
    func_name: str | ErrorType | None = None, cls: ErrorType | None = None
) -> ErrorType | Callable[[ErrorType], ErrorType]:
    """Makes an exception class known by its name, so that native code and remote sessions can raise it."""
    if isinstance(func_name, type):
        return register_error(func_name.__name__, func_name)

    def register(target: ErrorType) -> ErrorType:
        _kinds[func_name if isinstance(func_name, str) else target.__name__] = target
        return target

    return register if cls is None else register(cls)


Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]


def tvm_wrap_excepthook(exception_hook: Hook) -> Hook:
    """A `sys.excepthook` that calls another one, and then ends the processes that the program started with multiprocessing, so that the
    program ends, too."""

    def hook(exctype: type[BaseException], value: BaseException, trbk: TracebackType | None) -> None:
        exception_hook(exctype, value, trbk)
        started = sys.modules.get("multiprocessing")
        for child in started.active_children() if started is not None else ():
            child.terminate()

    return hook


def error_class(kind: str) -> type[BaseException]:
    """The exception class of a kind; TVMError for unregistered kinds."""
    found = _kinds.get(kind) or getattr(builtins, kind, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else _errors.TVMError


def error_kind(error: BaseException) -> str:
    """The kind under which a Python exception travels."""
    return _travelling.get(type(error), type(error).__name__)


_ENTRY = re.compile(r'File "(.*?)", line (\d+), in (.*)')
_TEMPLATE: CodeType = compile("_getframe()", "<native>", "eval")


def _frame(file: str, line: int, function: str) -> FrameType:
    """A frame that stands for a call in native code."""
    code = _TEMPLATE.replace(co_filename=file, co_name=function, co_qualname=function, co_firstlineno=line)
    frame: FrameType = eval(code, {"_getframe": sys._getframe})
    return frame


_TYPE_INDEX = re.compile(r": its type index(?: must be [\d or]+)?, but is (-?\d+)$")
_VALUE = re.compile(r"a value of type index (-?\d+)$")
_TYPES = {
    0: "None", 1: "an int", 2: "a bool", 3: "a float", 4: "a pointer", 5: "a data type", 6: "a device", 7: "a tensor",
    8: "a str", 9: "bytes", 11: "a str", 12: "bytes", 65: "a str", 66: "bytes", 67: "an error", 68: "a function",
    69: "a shape", 70: "a tensor", 71: "a list", 72: "a dict", 73: "a module",
}  # fmt: skip
"""Python classes of the type indices of the calling convention."""


def _readable(message: str) -> str:
    """Native code knows only the number of an argument's type; a reader wants its name."""
    message = _TYPE_INDEX.sub(r", but is a value of type index \1", message)
    return _VALUE.sub(lambda found: _TYPES.get(int(found[1]), found[0]), message)


def make_error(kind: str, message: str, backtrace: str) -> BaseException:
    """The exception for a native error, with the native calls as the innermost entries of its traceback."""
    cls = error_class(kind)
    message = _readable(message)
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
