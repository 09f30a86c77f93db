"""Words that make buffers: parameters, allocations, views."""

from __future__ import annotations

from typing import Any

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


def make_buffer(
    shape: Any,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Any = None,
) -> Buffer:
    """A buffer without a name, which its first assignment gives."""
    dims = (shape,) if isinstance(shape, (int, PrimExpr)) else tuple(shape)
    steps = [Var(s, "int32") if isinstance(s, str) else s for s in strides or ()]
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


class _BufferWord:
    """`T.Buffer((n, m), "float32")`: the annotation of a parameter, or a view of `data`."""

    def __call__(
        self,
        shape: Any,
        dtype: Any = "float32",
        data: Any = None,
        strides: Any = None,
        elem_offset: Any = None,
        scope: str = "global",
        align: int = 0,
        offset_factor: int = 0,
        buffer_type: str = "",
        axis_separators: Any = None,
    ) -> Buffer:
        return make_buffer(
            shape, dtype, data, strides, elem_offset, scope, align, offset_factor, buffer_type, axis_separators
        )

    def __getitem__(self, keys: Any) -> Buffer:
        if not isinstance(keys, tuple):
            return self(keys)
        if len(keys) > 1 and not isinstance(keys[1], (str, Word)):
            return self(keys)
        return self(*keys)


BufferWord = _BufferWord()


def match_buffer(
    param: Any,
    shape: Any = None,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Any = None,
) -> Buffer:
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
            raise TVMError("T.match_buffer of a region stands in a block, and this is in a function")
        if shape is None:
            shape = [r.extent for r in region.region]
    made = make_buffer(
        shape, dtype, data, strides, elem_offset, scope, align, offset_factor, buffer_type, axis_separators
    )
    if isinstance(param, Var):
        frame.buffer_map[param] = made
    else:
        frame.matches.append(MatchBufferRegion(made, region))
    return made


def alloc_buffer(
    shape: Any,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Any = None,
) -> Buffer:
    """A buffer with storage of its own, for the block (or the function) that it stands in."""
    frame = tir_parser("T.alloc_buffer").frame("T.alloc_buffer", BlockFrame, FunctionFrame)
    made = make_buffer(
        shape, dtype, data, strides, elem_offset, scope, align, offset_factor, buffer_type, axis_separators
    )
    frame.allocations.append(made)
    return made
