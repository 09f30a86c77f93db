"""The errors a user can meet, named as in classic `tvm.error`, and the one that only we should meet."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from typing import Any


class TVMError(RuntimeError):
    """Root of every error raised on purpose; its text says what, where and how to mend it."""


class InternalError(TVMError):
    """A rule inside the compiler was broken; never the user's fault."""

    def __init__(self, message: str) -> None:
        super().__init__(
            f"{message}\nThis is a defect of the compiler, not of your program: please report it with the program above."
        )


class DiagnosticError(TVMError):
    """One or more located findings about a program. finding: the place of the first one and what it says, if they are known."""

    finding: tuple[Any, str] | None = None


class DepthError(TVMError, RecursionError):
    """Calls of a program nest deeper than the limit."""


class BoundsError(TVMError, IndexError):
    """An index lies outside of its axis in a program whose indices are checked (option "relay.check_bounds")."""


class DivisionByZeroError(TVMError, ZeroDivisionError):
    """An integer is divided by zero in a program in which this is checked (option "relay.check_bounds")."""


class CallTypeError(TVMError, TypeError):
    """A function of the runtime or a compiled one was called with a value of another kind than it takes."""


class CallValueError(TVMError, ValueError):
    """A function of the runtime or a compiled one was called with a value that it cannot take, such as a tensor of another shape."""


class UnknownTypeError(TypeError, ValueError):
    """A text names no data type."""


class CallAssertionError(TVMError, AssertionError):
    """A condition that a compiled program asserts does not hold."""


class ProgramError(TVMError, ValueError):
    """A program cannot be compiled as it was given."""


class ScheduleError(TVMError):
    """A schedule primitive was refused."""


class RPCError(TVMError):
    """A remote session failed."""


class ModelError(TVMError):
    """The model, or what was said about it, is wrong."""


class OpError(TVMError):
    """Root of the errors about one operator of a model."""


class UnknownOpError(OpError, AttributeError):
    """No operator has this name."""


class OpNotImplemented(OpError, NotImplementedError):
    """The operator, or this form of it, is not supported."""


class OpNotEnabled(OpError, NotImplementedError):
    """The operator is known, but not to this target or build."""


class OpAttributeRequired(OpError, AttributeError):
    """A required attribute of an operator is missing."""


class OpAttributeInvalid(OpError, AttributeError):
    """An attribute of an operator has a value that it cannot have."""


class OpAttributeUnImplemented(OpError, NotImplementedError):
    """An attribute of an operator has a value that is not supported."""


class ModelWarning(UserWarning):
    """A model says something of itself that is not so; what it computes follows from its operators."""


def said(error: BaseException) -> str:
    """An exception in words for users: the text of errors that are raised on purpose, else the meaning of Python's own."""
    if isinstance(error, OSError) and error.strerror:
        files = [os.fspath(f) for f in (error.filename, error.filename2) if isinstance(f, (str, bytes, os.PathLike))]
        return ": ".join([*[os.fsdecode(f) for f in files[:1]], error.strerror])
    if isinstance(error, MemoryError):  # NumPy has its own kind
        return "there is not enough memory"
    text = str(error.args[0]) if isinstance(error, KeyError) and len(error.args) == 1 else str(error)
    if type(error).__module__ == "struct":
        return "it ends too early"
    if type(error).__module__ in _PACKED or type(error).__name__ in ("BadZipFile", "BadGzipFile"):
        return DAMAGED
    if isinstance(error, TVMError) or type(error).__module__ != "builtins":
        return text or type(error).__name__
    if isinstance(error, KeyError):
        # Sentences are messages of ours; a name alone is what was looked up.
        return text if " " in text else f"{text} is missing"
    for kind, words, meaning in _MEANINGS:
        if isinstance(error, kind) and re.search(words, text):
            return meaning
    return text or type(error).__name__


DAMAGED = "it is cut off or damaged, or no file of its kind"
_PACKED = ("tarfile", "zipfile", "zlib", "_lzma")
"""Modules of the standard library that read archives and compressed files, with errors in their own words."""
_OTHER_KIND = "something in it is of another kind than its place takes"
_MEANINGS: tuple[tuple[type[BaseException], str, str], ...] = (
    (RecursionError, "", "it is nested too deeply"),
    (UnicodeError, "", "a string in it is not in the encoding that it must have"),
    (ZeroDivisionError, "", "a number is divided by zero"),
    (OverflowError, "", "a number in it is too large"),
    (IndexError, r"index out of range|out of bounds|pop from", "something in it has fewer elements than are read"),
    (AttributeError, r"object has no attribute", _OTHER_KIND),
    (
        TypeError,
        r"'\w+' object|of type '|operand type|positional argument|keyword argument|must be .*, not \w+$|can only concat|NoneType",
        _OTHER_KIND,
    ),
    (AssertionError, "^$", "a rule of its format is broken"),
    (StopIteration, "", "it ends too early"),
    (EOFError, "", "it ends too early"),
    (ValueError, "values to unpack", "something in it has another number of elements than are read"),
    (
        ValueError,
        "Object arrays cannot be loaded",
        "it holds Python objects (pickles), which are not loaded from files",
    ),
    (ValueError, r"invalid literal for int\(\)|could not convert string to float", "a number in it cannot be read"),
)
"""Explanations of Python's own exceptions, by their messages, for faults in the input. Other messages are kept."""

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_OUT_OF_MEMORY = ("Cannot allocate memory", "failed to map segment", "bad_alloc", "Unable to allocate")
MEMORY = "there is not enough memory: free some, raise the limit of this process (ulimit -v), or take a smaller batch or model"
THREADS = "the system starts no more threads for this user or process: raise the limit (ulimit -u, or pids of the container), or end others"


def environment_fault(error: BaseException) -> str | None:
    """The resource that a machine lacks (memory, threads, disk space, packages), if an exception or its cause tells of one, and the
    remedy; None for
    faults of programs, models and compilers."""
    for e in _causes(error):
        if isinstance(e, MemoryError) or getattr(e, "errno", None) == errno.ENOMEM:
            return MEMORY
        if isinstance(e, (OSError, ImportError)) and any([word in str(e) for word in _OUT_OF_MEMORY]):
            return MEMORY
        if "can't start new thread" in str(e) or "pthread_create failed" in str(e):
            return THREADS
        if isinstance(e, OSError) and e.errno == errno.EAGAIN:
            return THREADS
    if isinstance(error, ImportError) and not (error.name or "").startswith("tilewright"):
        return f"a package that is needed cannot be loaded: {error}"
    if isinstance(error, OSError):
        return f"{said(error)}; free some space there" if error.errno in _FULL else said(error)
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
