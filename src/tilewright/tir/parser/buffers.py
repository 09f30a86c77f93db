"""Words that make buffers: parameters, allocations, views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, TypeVar

from tilewright.ir import IntImm, PrimExpr
from tilewright.script.parser import active_or_none
from tilewright.support.errors import TVMError
from tilewright.tir.buffer import Buffer
from tilewright.tir.buffer import decl_buffer as new_buffer
from tilewright.tir.expr import Var
from tilewright.tir.parser.blocks import tir_parser
from tilewright.tir.parser.frames import BlockFrame, FunctionFrame
from tilewright.tir.parser.program import TirParser
from tilewright.tir.parser.values import as_region
from tilewright.tir.parser.words import Word, dtype_of
from tilewright.tir.stmt import MatchBufferRegion

Shape = int | PrimExpr | Sequence[int | PrimExpr]


def make_buffer(
    shape: Shape,
    dtype: Any = "float32",
    data: Var | None = None,
    strides: Sequence[int | str | PrimExpr] | None = None,
    elem_offset: int | str | PrimExpr | None = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Sequence[int | PrimExpr] | None = None,
) -> Buffer:
    """A buffer without a name, which its first assignment gives. What its parameters are, every word for buffers takes."""
    dims = (shape,) if isinstance(shape, (int, PrimExpr)) else tuple(shape)
    steps = [Var(s, "int32") if isinstance(s, str) else s for s in strides or ()]
    if 0 < len(steps) < len(dims) and all([isinstance(s, Var) for s in steps]):
        # Variables for the outer dimensions: what is inside of them is compact.
        inner: list[Any] = [IntImm("int32", 1)]
        while len(steps) + len(inner) < len(dims):
            inner.insert(0, inner[0] * dims[len(dims) - len(inner)])
        steps += inner
    if isinstance(elem_offset, str):
        elem_offset = Var(elem_offset, "int32")
    kind = "auto_broadcast" if buffer_type in ("auto", "auto_broadcast") else ""
    p = active_or_none()
    for dim in dims:
        if isinstance(dim, str):
            raise TypeError(
                f"buffer {_target(p)}: a dimension is a number or a variable, but the string {dim!r} was given"
            )
        if isinstance(dim, (int, IntImm)) and int(dim) < 0:
            raise TypeError(f"buffer {_target(p)}: a dimension cannot be negative, but {int(dim)} was given")
    made = new_buffer(
        dims, dtype_of(dtype), _target(p), data, steps, elem_offset, scope, align, offset_factor, kind, axis_separators
    )
    own: list[tuple[Any, str]] = []
    if data is None:
        own.append((made.data, ""))
    if offset_factor != 0 and elem_offset is None:
        own.append((made.elem_offset, "_elem_offset"))
    if isinstance(p, TirParser):
        p.fresh_buffer(made, tuple(own))
    elif p is not None:
        from tilewright.tir.parser.words import rename_buffer

        p.unnamed[id(made)] = (made, lambda name: rename_buffer(made, tuple(own), name), p.at)
    return made


def _target(p: Any) -> str:
    """The name that a buffer is about to get, for errors before it does."""
    targets = getattr(getattr(p, "at", None), "targets", ())
    name = getattr(targets[0], "id", None) if targets else None
    return name or "buffer"


Words = TypeVar("Words", bound=Callable[..., Any])


def described(word: Words) -> Words:
    """A word for buffers shows, for `*rest` and `**named` that it passes on, the parameters of make_buffer."""
    own = signature(word)
    first = {n: p for n, p in own.parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD}
    rest = [p for n, p in signature(make_buffer).parameters.items() if n not in first]
    shown: Any = word
    shown.__signature__ = own.replace(parameters=[*first.values(), *rest])
    return word


class _BufferWord:
    """`T.Buffer((n, m), "float32")`: the annotation of a parameter, or a view of `data`."""

    @described
    def __call__(self, *rest: Any, **named: Any) -> Buffer:
        return make_buffer(*rest, **named)

    def __getitem__(self, keys: Any) -> Buffer:
        if not isinstance(keys, tuple):
            return self(keys)
        if len(keys) > 1 and not isinstance(keys[1], (str, Word)):
            return self(keys)
        return self(*keys)


BufferWord = _BufferWord()


@described
def match_buffer(param: Any, shape: Shape | None = None, *rest: Any, **named: Any) -> Buffer:
    """The buffer behind a handle parameter or, in a block, a buffer that is a view of a region of another."""
    p = tir_parser("T.match_buffer")
    frame = p.frame("T.match_buffer", BlockFrame, FunctionFrame)
    if isinstance(param, Var):
        if not isinstance(frame, FunctionFrame) or all([v is not param for v in frame.params]):
            raise TypeError(f"T.match_buffer takes a parameter of the function, and {param.name} is none")
        if param.dtype != "handle":
            raise TypeError(f"T.match_buffer takes a handle, but {param.name} is {param.dtype}; declare it as T.handle")
        if param in frame.buffer_map:
            raise TVMError(f"the parameter {param.name} is matched to a buffer twice")
        if shape is None:
            raise TypeError("T.match_buffer of a parameter takes the shape of the buffer")
    else:
        region = as_region(param, "T.match_buffer")
        if not isinstance(frame, BlockFrame):
            raise TVMError("T.match_buffer of a region must be in a block, but is in a function")
        if shape is None:
            shape = [r.extent for r in region.region]
    made = make_buffer(shape, *rest, **named)
    if isinstance(param, Var):
        frame.buffer_map[param] = made
    else:
        frame.matches.append(MatchBufferRegion(made, region))
    return made


@described
def alloc_buffer(*rest: Any, **named: Any) -> Buffer:
    """A buffer with storage of its own, for the block (or the function) that it stands in."""
    frame = tir_parser("T.alloc_buffer").frame("T.alloc_buffer", BlockFrame, FunctionFrame)
    made = make_buffer(*rest, **named)
    frame.allocations.append(made)
    return made
