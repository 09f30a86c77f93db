"""Who evaluates the frames of Python functions: CPython, or an extension in its place (PEP 523), as torch.compile puts one there.

CPython keeps the frames of nested calls on the heap. Where an extension evaluates them, each takes a piece of C's stack, which ends at
some ten thousand of them, and the process with it.
"""

from __future__ import annotations

import ctypes
from typing import Any


def _interpreter() -> tuple[Any, Any, int] | None:
    """(reads the evaluator, sets it, that of CPython), of this interpreter; None where Python does not say."""
    api = ctypes.pythonapi
    try:
        read, write = api._PyInterpreterState_GetEvalFrameFunc, api._PyInterpreterState_SetEvalFrameFunc
        this, own = api.PyInterpreterState_Get, ctypes.cast(api._PyEval_EvalFrameDefault, ctypes.c_void_p).value
    except AttributeError:
        return None
    this.restype = read.restype = ctypes.c_void_p
    read.argtypes, write.argtypes, write.restype = [ctypes.c_void_p], [ctypes.c_void_p, ctypes.c_void_p], None
    state = ctypes.c_void_p(this())
    return (lambda: read(state)), (lambda evaluator: write(state, evaluator)), own or 0


_found = _interpreter()


def evaluate_frames() -> int | None:
    """Let CPython evaluate the frames of calls from here on: what did before, for `give_back`; None if CPython did."""
    if _found is None:
        return None
    read, write, own = _found
    before = read()
    if before == own:
        return None
    write(own)
    return int(before)


def give_back(evaluator: int | None) -> None:
    """Let what `evaluate_frames` found evaluate frames again, unless another thread has put a new evaluator there meanwhile."""
    if evaluator is not None and _found is not None:
        read, write, own = _found
        if read() == own:
            write(evaluator)
