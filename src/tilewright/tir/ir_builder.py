"""The classic IRBuilder: loops, conditions and stores written as Python statements, for bodies of extern operations.

ib = tir.ir_builder.create()
a = ib.buffer_ptr(buffer)
with ib.for_range(0, n, "i") as i:
    a[i] = a[i] + 1.0
stmt = ib.get()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tilewright.ir import DataType, PointerType, PrimExpr, PrimType, as_prim_expr
from tilewright.tir.arithmetic import const_true
from tilewright.tir.buffer import Buffer, decl_buffer
from tilewright.tir.expr import BufferLoad, Var
from tilewright.tir.op import indexdiv, indexmod, likely
from tilewright.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
    stmt_seq,
)

_KINDS = {
    "serial": ForKind.SERIAL,
    "parallel": ForKind.PARALLEL,
    "vectorize": ForKind.VECTORIZED,
    "vectorized": ForKind.VECTORIZED,
    "unroll": ForKind.UNROLLED,
    "unrolled": ForKind.UNROLLED,
}


class BufferVar:
    """A buffer inside an IRBuilder: `v[i]` loads and `v[i] = x` stores.

    One index into a buffer of several dimensions counts its elements in row-major order.
    """

    def __init__(self, builder: IRBuilder, buffer: Buffer) -> None:
        self._builder, self._buffer = builder, buffer

    @property
    def dtype(self) -> DataType:
        return self._buffer.dtype

    def asobject(self) -> Var:
        """The data pointer, as an argument of calls."""
        return self._buffer.data

    def _indices(self, index: Any) -> tuple[PrimExpr, ...]:
        given = tuple(index) if isinstance(index, (tuple, list)) else (index,)
        shape, name = self._buffer.shape, self._buffer.name
        indices = [as_prim_expr(i, f"index of buffer {name}") for i in given]
        if len(indices) == len(shape):
            return tuple(indices)
        if len(indices) != 1:
            raise ValueError(
                f"buffer {name} has {len(shape)} dimensions, but was indexed with {len(given)}: {list(given)}"
            )
        rest, unravelled = indices[0], []
        for extent in reversed(shape[1:]):
            unravelled.append(indexmod(rest, extent))
            rest = indexdiv(rest, extent)
        return (rest, *reversed(unravelled)) if shape else ()

    def __getitem__(self, index: Any) -> BufferLoad:
        return BufferLoad(self._buffer, self._indices(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        store = as_prim_expr(value, f"value stored to buffer {self._buffer.name}")
        if store.dtype.element != self.dtype:
            if not isinstance(value, (int, float)):
                raise ValueError(
                    f"data type does not match content type {self.dtype} vs {store.dtype} in a store to buffer"
                    f" {self._buffer.name}; cast the value with .astype"
                )
            store = as_prim_expr(value, dtype=self.dtype)
        self._builder.emit(BufferStore(self._buffer, store, self._indices(index)))


class IRBuilder:
    """Collects statements; scopes are `with` statements, and `get` returns the whole."""

    def __init__(self) -> None:
        self._sequences: list[list[Stmt | Callable[[Stmt], Stmt]]] = [[]]
        self.nidx = 0

    def _pop(self) -> Stmt:
        """The innermost sequence as one statement; a scope opened on the way wraps all that follows it."""
        body: list[Stmt] = []
        for item in reversed(self._sequences.pop()):
            body = [item, *body] if isinstance(item, Stmt) else [item(stmt_seq(body))]
        return stmt_seq(body)

    def emit(self, stmt: Stmt | PrimExpr | Callable[[Stmt], Stmt]) -> None:
        """Appends a statement, a call, or a function that wraps all statements that follow in this scope."""
        self._sequences[-1].append(Evaluate(stmt) if isinstance(stmt, PrimExpr) else stmt)

    @contextmanager
    def _scope(self, value: Any, wrap: Callable[[Stmt], Stmt]) -> Iterator[Any]:
        self._sequences.append([])
        yield value
        self.emit(wrap(self._pop()))

    def scope_attr(self, node: Any, attr_key: str, value: Any) -> None:
        """An attribute of `node` over all that follows in this scope."""
        if isinstance(node, BufferVar):
            node = node.asobject()
        attribute = as_prim_expr(value, f"attribute {attr_key}")
        self.emit(lambda body: AttrStmt(node, attr_key, attribute, body))

    def for_range(
        self, begin: Any, end: Any, name: str = "i", dtype: str | None = None, kind: str = "serial"
    ) -> AbstractContextManager[Var]:
        """A loop over begin, ..., end - 1; gives its variable. kind: serial, parallel, vectorize or unroll."""
        if kind not in _KINDS:
            raise ValueError(f"unknown kind of loop {kind!r}; one of {', '.join(_KINDS)} is expected")
        if name == "i":
            name = chr(ord(name) + self.nidx) if self.nidx < 3 else f"{name}_{self.nidx - 3}"
            self.nidx += 1
        first, last = as_prim_expr(begin, "begin of a loop"), as_prim_expr(end, "end of a loop")
        if dtype is None:
            # A literal takes the type of the other bound.
            wide = [e.dtype for e in (first, last) if e.dtype == "int64"]
            dtype = wide[0] if wide else last.dtype
        var = Var(name, dtype)
        low, high = first.astype(dtype), last.astype(dtype)
        scope: AbstractContextManager[Var] = self._scope(
            var, lambda body: For(var, low, high - low, _KINDS[kind], body)
        )
        return scope

    def while_loop(self, condition: Any) -> AbstractContextManager[None]:
        """A loop for as long as the condition holds."""
        test = as_prim_expr(condition, "condition of a while loop")
        return self._scope(None, lambda body: While(test, body))

    def if_scope(self, cond: Any) -> AbstractContextManager[None]:
        """Statements that run where the condition holds."""
        test = as_prim_expr(cond, "condition of if_scope")
        return self._scope(None, lambda body: IfThenElse(test, body))

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """The scope of statements that run if the condition of the preceding if_scope is false."""
        last = self._sequences[-1][-1] if self._sequences[-1] else None
        if not isinstance(last, IfThenElse) or last.else_case is not None:
            raise RuntimeError("else_scope can only follow an if_scope")
        self._sequences[-1].pop()
        self._sequences.append([])
        yield
        self.emit(IfThenElse(last.condition, last.then_case, self._pop()))

    def new_scope(self) -> AbstractContextManager[None]:
        """A scope that bounds allocations and attributes."""
        return self._scope(None, lambda body: body)

    def let(self, var_name: str, value: Any) -> Var:
        """A variable that stands for `value` in all that follows in this scope."""
        bound = as_prim_expr(value, f"value of {var_name}")
        var = Var(var_name, bound.dtype)
        self.emit(lambda body: LetStmt(var, bound, body))
        return var

    def allocate(
        self, dtype: str, shape: Any, name: str = "buf", axis_separators: Any = None, scope: str = "global"
    ) -> BufferVar:
        """Storage of `shape` elements for the rest of this scope."""
        extents = shape if isinstance(shape, (tuple, list)) else (shape,)
        data = Var(name, PointerType(PrimType(DataType("int8" if dtype == "bool" else dtype)), scope))
        buffer = decl_buffer(extents, dtype, name, data=data, scope=scope, axis_separators=axis_separators)
        self.emit(lambda body: Allocate(data, buffer.dtype, buffer.shape, const_true(), body))
        return BufferVar(self, buffer)

    def pointer(self, content_type: str, name: str = "ptr", scope: str = "") -> BufferVar:
        """A pointer parameter to elements of `content_type`, indexed flat."""
        return BufferVar(self, decl_buffer((1,), content_type, name, scope=scope))

    def buffer_ptr(self, buf: Buffer) -> BufferVar:
        """A buffer for loads and stores by its own indices."""
        return BufferVar(self, buf)

    def likely(self, expr: Any) -> PrimExpr:
        """A condition that nearly always holds."""
        return likely(expr)

    def get(self) -> Stmt:
        """The program; every scope must be closed."""
        if len(self._sequences) != 1:
            raise RuntimeError(f"{len(self._sequences) - 1} scopes of the builder are still open")
        stmt = self._pop()
        self._sequences.append([])
        return stmt


def create() -> IRBuilder:
    """A new builder."""
    return IRBuilder()
