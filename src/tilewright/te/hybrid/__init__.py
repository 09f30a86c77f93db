"""Hybrid script: loops over tensor elements written as a Python function, compiled to one operation of TE."""

from __future__ import annotations

import ast
import functools
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.support import lazy
from tilewright.te.hybrid.emulate import emulated
from tilewright.te.hybrid.module import HybridModule, build
from tilewright.te.hybrid.parser import HybridParser, Written, defined, written
from tilewright.te.operation import HybridOp
from tilewright.te.tag import resolve_tag
from tilewright.te.tensor import Tensor
from tilewright.tir.expr import Var

__all__ = ["HybridModule", "HybridOp", "build", "decorate", "script", "source_to_op"]


def script(pyfunc: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of tensors from one that is written in the hybrid subset of Python.

    Called with tensors (and numbers, variables, or sequences of numbers), it returns the tensors that the function
    returns. Called with NumPy arrays only, it runs the function as Python.

    The subset: `output_tensor(shape, dtype)`, `allocate(shape, dtype, scope)`; loops over `range`, `parallel`,
    `vectorize`, `unroll`, `const_range` and `bind(tag, extent)`, which are the axes of the operation and can be
    scheduled; calls of other such functions, `ceil_div`, `max_num_threads()`; assignments to elements and to scalars,
    `if`, arithmetic, comparisons, intrinsics (exp, sqrt, max_value, ...), types as casts; and one `return` at the end.
    Raises ValueError, with file and line, for anything else.
    """

    @functools.wraps(pyfunc)
    def call(*args: Any) -> Any:
        if any([isinstance(a, (Tensor, Var)) for a in _flat(args)]):
            return _operation(written(pyfunc), args)
        if all([isinstance(a, (np.ndarray, int, float, str, list, tuple, np.generic)) for a in args]):
            return emulated(pyfunc)(*args)
        raise ValueError(
            f"te.hybrid: {pyfunc.__name__} takes tensors and numbers, or NumPy arrays and numbers, but was given"
            f" {', '.join([type(a).__name__ for a in args])}"
        )

    return call


def _flat(args: Any) -> list[Any]:
    return [x for a in args for x in (_flat(a) if isinstance(a, (list, tuple)) else (a,))]


def decorate(func: Callable[..., Any], fwrapped: Callable[..., Any]) -> Callable[..., Any]:
    """Make `fwrapped(func, *args)` a function with the name and documentation of `func`."""

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        return fwrapped(func, *args, **kwargs)

    return call


def _operation(function: Written, args: Sequence[Any]) -> Any:
    parser = HybridParser(function, args)
    body = parser.parse()
    op = HybridOp(
        parser.name,
        resolve_tag(""),
        {},
        tuple(parser.inputs),
        tuple(parser.input_buffers),
        tuple(parser.returned),
        body,
        tuple(parser.axes),
    )
    return op.output(0) if op.num_outputs == 1 else list(op.outputs)


def source_to_op(
    src: str | ast.AST, args: Sequence[Any], symbols: Mapping[str, Any], closure_vars: Mapping[str, Any]
) -> Any:
    """The tensors of a hybrid script that is text, or a syntax tree, called with `args`. symbols, closure_vars: the values of names from
    outside of it."""
    tree = ast.parse(textwrap.dedent(src)) if isinstance(src, str) else src
    return _operation(Written(defined(tree), "<source>", {**symbols, **closure_vars}), args)


# Names of scripts that run as Python, where classic programs look for them.
_EMULATED = ("HYBRID_GLOBALS", "allocate", "bind", "inf", "max_num_threads", "ninf", "popcount", "rsqrt", "sigmoid")
lazy.faces(__name__, {"runtime": [f"{__name__}.emulate:{name}" for name in _EMULATED]})
__getattr__, __dir__ = lazy.late(__name__)
