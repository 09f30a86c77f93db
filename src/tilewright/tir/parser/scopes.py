"""Words that hold what follows them: allocations, attributes, threads, lets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewright.ir import DataType, PrimExpr, Range, as_prim_expr
from tilewright.ir.types import PointerType, PrimType
from tilewright.node.field_values import numpy_dtype
from tilewright.script.parser import Scope, ScriptParser
from tilewright.support.errors import TVMError
from tilewright.tir.arithmetic import const_true
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import IterVar, Let, Var
from tilewright.tir.parser.blocks import tir_parser
from tilewright.tir.parser.buffers import Shape, described, make_buffer
from tilewright.tir.parser.frames import AssertScope, LetScope, check_tag, declared_var
from tilewright.tir.parser.values import as_region, plain, set_span
from tilewright.tir.parser.words import Word, dtype_of, rename_var
from tilewright.tir.stmt import Allocate, AllocateConst, AttrStmt, BufferRealize, DeclBuffer, Stmt


class Around(Scope):
    """A statement made of its body."""

    def __init__(self, what: str, value: Any, make: Callable[[Any, Any], Stmt]) -> None:
        self.what, self.value, self.make = what, value, make

    def named(self, p: ScriptParser, name: str) -> None:
        if isinstance(self.value, Var):
            self.value = declared_var(p, name, self.value)

    def enter(self, p: ScriptParser) -> Any:
        return self.value

    def leave(self, p: ScriptParser, body: Any) -> Stmt:
        return self.make(self.value, body)


def _named(what: str, var: Var) -> Var:
    p = tir_parser(what)
    p.unnamed[id(var)] = (var, lambda name: rename_var(var, name), p.at)
    set_span(var, p.source.span(p.at))
    return var


def _pointer(dtype: DataType, scope: str) -> Var:
    return Var("v", PointerType(PrimType(DataType("int8") if dtype.is_bool else dtype), scope))


def _extents(extents: Any) -> tuple[PrimExpr, ...]:
    given = extents if isinstance(extents, (list, tuple)) else (extents,)
    return tuple([as_prim_expr(e, "an extent of an allocation") for e in given])


def allocate(
    extents: Any, dtype: Any, scope: str = "global", condition: Any = None, annotations: Mapping[str, Any] | None = None
) -> Around:
    """Storage of `extents` elements for what follows; gives the data pointer."""
    kind = dtype_of(dtype)
    var = _named("T.allocate", _pointer(kind, scope))
    holds = const_true() if condition is None else as_prim_expr(condition, "the condition of T.allocate")
    dims = _extents(extents)
    return Around("T.allocate", var, lambda v, body: Allocate(v, kind, dims, holds, body, annotations or {}))


def allocate_const(data: Any, dtype: Any, extents: Any, annotations: Mapping[str, Any] | None = None) -> Around:
    """Constant storage for what follows; gives the data pointer."""
    kind, dims = dtype_of(dtype), _extents(extents)
    var = _named("T.allocate_const", _pointer(kind, "global"))
    if isinstance(data, np.ndarray):
        return Around(
            "T.allocate_const", var, lambda v, body: AllocateConst(v, kind, dims, data, body, annotations or {})
        )
    if any([isinstance(x, str) for x in data]):
        data = [float(x) for x in data]
    array = np.asarray(data, numpy_dtype(kind)).reshape([int(d) for d in dims])  # type: ignore[call-overload]
    return Around("T.allocate_const", var, lambda v, body: AllocateConst(v, kind, dims, array, body, annotations or {}))


@described
def decl_buffer(shape: Shape, dtype: Any = "float32", data: Var | None = None, *rest: Any, **named: Any) -> Around:
    """A buffer for what follows: a view of `data`, or storage of its own when there is none."""
    made = make_buffer(shape, dtype, data, *rest, **named)

    def wrap(made: Buffer, body: Any) -> Stmt:
        inner = DeclBuffer(made, body)
        return inner if data is not None else Allocate(made.data, made.dtype, made.shape, const_true(), inner)

    return Around("T.decl_buffer", made, wrap)


def attr(node: Any, attr_key: str, value: Any) -> Around:
    """Something said about `node` for what follows."""
    if not isinstance(attr_key, str):
        raise TypeError(f"the key of T.attr must be a string, but was given {type(attr_key).__name__}: {attr_key!r}")
    said = as_prim_expr(plain(value), f"the value of the attribute {attr_key}")
    return Around("T.attr", None, lambda _, body: AttrStmt(node, attr_key, said, body))


def env_thread(thread_tag: str, dtype: str = "int32") -> Var:
    """The index of a thread axis; T.launch_thread sets its extent."""
    p = tir_parser("T.env_thread")
    check_tag(thread_tag)
    var = _named("T.env_thread", Var("v", dtype))
    p.tags[id(var)] = thread_tag
    p.kept.append(var)
    return var


def launch_thread(thread: Any, extent: Any) -> Around:
    """Threads of a tag such as "threadIdx.x", or of a T.env_thread; gives the index."""
    p = tir_parser("T.launch_thread")
    size = as_prim_expr(extent, "the extent of T.launch_thread")
    if isinstance(thread, str):
        var, tag = env_thread(thread, size.dtype), thread
    elif isinstance(thread, Var) and id(thread) in p.tags:
        var, tag = thread, p.tags[id(thread)]
    else:
        raise TypeError(
            f'T.launch_thread takes a tag such as "threadIdx.x" or a T.env_thread, but was given {thread!r}'
        )

    def wrap(index: Var, body: Any) -> Stmt:
        return AttrStmt(IterVar(None, index, IterVar.ThreadIndex, tag), "thread_extent", size, body)

    return Around("T.launch_thread", var, wrap)


def LetStmt(value: Any, type_annotation: Any = None, *, var: Any = None) -> LetScope:
    """A variable that stands for a value in what follows."""
    bound = as_prim_expr(plain(value), "the value of T.LetStmt")
    if var is None:
        note = type_annotation
        if isinstance(note, Word):
            var = Var("v", note.dtype)
        elif isinstance(note, Var):
            var = note
        else:
            var = Var("v", bound.dtype if note is None else note)
        _named("T.LetStmt", var)
    return LetScope(var, bound)


def let(v: Var, value: Any, body: Any = None) -> Any:
    """The expression `body` with the variable standing for a value; without a body, a scope."""
    return LetStmt(value, var=v) if body is None else Let(v, as_prim_expr(plain(value)), as_prim_expr(plain(body)))


def Let_(expr: Any, where: Mapping[Var, Any]) -> PrimExpr:
    """The expression with variables standing for values."""
    result = as_prim_expr(plain(expr), "the body of T.Let")
    for var, value in reversed(list(where.items())):
        result = Let(var, as_prim_expr(plain(value), "a value of T.Let"), result)
    return result


def Assert(condition: Any, message: Any) -> AssertScope:
    """A condition that must hold for what follows."""
    return AssertScope(as_prim_expr(plain(condition), "what is asserted"), as_prim_expr(message))


def realize(buffer_slice: Any, storage_scope: str, condition: Any = True) -> Around:
    """The bounds within which a buffer exists in what follows."""
    region = as_region(buffer_slice, "T.realize")
    bounds: tuple[Range, ...] = region.region
    holds = as_prim_expr(condition, "the condition of T.realize")
    if region.buffer.scope() != storage_scope:
        raise TVMError(
            f"T.realize names the scope {storage_scope!r}, but buffer {region.buffer.name} is in {region.buffer.scope()!r}"
        )
    return Around("T.realize", None, lambda _, body: BufferRealize(region.buffer, bounds, holds, body))
