"""Statements of tir."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilewright.ir import DataType, IntImm, PrimExpr, Range
from tilewright.ir.span import BaseSpan
from tilewright.node import Def, Node, Skip, register_converter
from tilewright.tir.buffer import Buffer, need_region, register_store
from tilewright.tir.buffer import BufferRegion as BufferRegion
from tilewright.tir.expr import (
    HANDLE,
    IterVar,
    Var,
    element_dtype,
    need_condition,
    need_integers,
    need_type,
)


class Stmt(Node):
    """Root of statements."""

    if TYPE_CHECKING:
        # A mutator returns a statement for a statement.
        def _sort(self) -> Stmt: ...


def _as_stmt(value: Any, where: str) -> Stmt:
    if isinstance(value, PrimExpr):
        return Evaluate(value)
    raise TypeError(f"{where} must be a statement, but was given {type(value).__name__}: {value!r}")


register_converter("Stmt", Stmt, _as_stmt)


class ForKind:
    """Kinds of loops."""

    SERIAL, PARALLEL, VECTORIZED, UNROLLED, THREAD_BINDING = range(5)
    NAMES = ("serial", "parallel", "vectorized", "unrolled", "thread_binding")


_KINDS = frozenset(range(5))


class LetStmt(Stmt, key="tir.LetStmt"):
    """The body, with the variable standing for a value."""

    _binder = "var"

    var: Def[Var]
    value: PrimExpr
    body: Stmt
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        need_type("the value of {}", self.var.dtype, self.value, name=self.var.name)


class AssertStmt(Stmt, key="tir.AssertStmt"):
    """Fails with the message when the condition is false, else goes on with the body."""

    condition: PrimExpr
    message: PrimExpr
    body: Stmt
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        need_condition("the condition of an assertion", self.condition)


class For(Stmt, key="tir.For"):
    """The body for loop_var = min, ..., min + extent - 1."""

    _binder = "loop_var"

    loop_var: Def[Var]
    min: PrimExpr
    extent: PrimExpr
    kind: int
    body: Stmt
    thread_binding: IterVar | None = None
    annotations: Mapping[str, Any] = {}
    span: Skip[BaseSpan | None] = None

    def __init__(
        self,
        loop_var: Var,
        min: Any,
        extent: Any,
        kind: int,
        body: Any,
        thread_binding: IterVar | None = None,
        annotations: Mapping[str, Any] | None = None,
        span: BaseSpan | None = None,
    ) -> None:
        if not isinstance(loop_var, Var):
            raise TypeError(f"For.loop_var must be a Var, but was given {type(loop_var).__name__}: {loop_var!r}")
        dtype = loop_var.dtype
        if type(min) is int:
            min = IntImm(dtype, min)
        if type(extent) is int:
            extent = IntImm(dtype, extent)
        self._build(loop_var, min, extent, kind, body, thread_binding, annotations or {}, span)

    def _derive(self) -> None:
        dtype = self.loop_var.dtype
        if self.min.dtype is not dtype or self.extent.dtype is not dtype or not (dtype.is_int or dtype.is_uint):
            raise TypeError(
                f"loop {self.loop_var.name}: its variable, min and extent must be integers of one type, but are"
                f" {dtype}, {self.min.dtype} and {self.extent.dtype}"
            )
        if self.kind not in _KINDS:
            raise TypeError(
                f"loop {self.loop_var.name}: kind must be one of ForKind.SERIAL .. 4, but was given {self.kind!r}"
            )
        if self.kind == ForKind.THREAD_BINDING and self.thread_binding is None:
            raise TypeError(f"loop {self.loop_var.name} is bound to a thread axis, so it needs a thread_binding")


class While(Stmt, key="tir.While"):
    """The body for as long as the condition holds."""

    condition: PrimExpr
    body: Stmt
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        need_condition("the condition of a while loop", self.condition)


class BufferStore(Stmt, key="tir.BufferStore"):
    """Writes an element of a buffer, or several when the last index is a vector."""

    buffer: Buffer
    value: PrimExpr
    indices: tuple[PrimExpr, ...]
    predicate: PrimExpr | None = None
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        expected = element_dtype(self.buffer, self.indices)
        if self.value.dtype is not expected:
            raise TypeError(
                f"a store to buffer {self.buffer.name} takes {expected}, but was given {self.value.dtype}: {self.value!r};"
                f' cast it with .astype("{expected}")'
            )
        if self.predicate is not None:
            need_condition(
                "the predicate of a store to buffer {}", self.predicate, expected.lanes, name=self.buffer.name
            )


register_store(BufferStore)


class BufferRealize(Stmt, key="tir.BufferRealize"):
    """The region of a buffer that is allocated while the body runs."""

    buffer: Def[Buffer]
    bounds: tuple[Range, ...]
    condition: PrimExpr
    body: Stmt
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        need_region(self.buffer, self.bounds)
        need_condition("the condition of a realization", self.condition)


class ProducerStore(Stmt, key="tir.ProducerStore"):
    """Writes an element of a te tensor."""

    producer: Any
    value: PrimExpr
    indices: tuple[PrimExpr, ...]
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        _need_indices(self.producer, self.indices)
        need_type("a store to tensor {}", DataType(self.producer.dtype), self.value, name=_name_of(self.producer))


class ProducerRealize(Stmt, key="tir.ProducerRealize"):
    """The bounds within which a te tensor exists while the body runs."""

    producer: Any
    bounds: tuple[Range, ...]
    condition: PrimExpr
    body: Stmt
    storage_scope: str = ""
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        _need_indices(self.producer, self.bounds)
        need_condition("the condition of a realization", self.condition)


class Allocate(Stmt, key="tir.Allocate"):
    """Storage of `extents` elements behind buffer_var while the body runs."""

    _binder = "buffer_var"

    buffer_var: Def[Var]
    dtype: DataType
    extents: tuple[PrimExpr, ...]
    condition: PrimExpr
    body: Stmt
    annotations: Mapping[str, Any] = {}
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        _need_storage(self)
        need_condition("the condition of the allocation of {}", self.condition, name=self.buffer_var.name)


class AllocateConst(Stmt, key="tir.AllocateConst"):
    """Constant storage; `data` is a NumPy array."""

    _binder = "buffer_var"

    buffer_var: Def[Var]
    dtype: DataType
    extents: tuple[PrimExpr, ...]
    data: Any
    body: Stmt
    annotations: Mapping[str, Any] = {}
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        _need_storage(self)


class AttrStmt(Stmt, key="tir.AttrStmt"):
    """The body, with something said about `node`."""

    node: Any
    attr_key: str
    value: PrimExpr
    body: Stmt
    span: Skip[BaseSpan | None] = None

    def _binds(self) -> list[Any]:
        return [self.node.var] if self.attr_key == "thread_extent" and isinstance(self.node, IterVar) else []


class DeclBuffer(Stmt, key="tir.DeclBuffer"):
    """The body, in which `buffer` is a view of storage that exists already."""

    _binder = "buffer"

    buffer: Def[Buffer]
    body: Stmt
    span: Skip[BaseSpan | None] = None


class SeqStmt(Stmt, key="tir.SeqStmt"):
    """Statements one after another; sequences among them are spliced in."""

    seq: tuple[Stmt, ...]
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        if not self.seq:
            raise TypeError("SeqStmt takes at least one statement, but was given none; nothing to do is Evaluate(0)")
        if any([type(s) is SeqStmt for s in self.seq]):
            self.seq = tuple([inner for s in self.seq for inner in (s.seq if type(s) is SeqStmt else (s,))])

    def __getitem__(self, i: int) -> Stmt:
        return self.seq[i]

    def __len__(self) -> int:
        return len(self.seq)


class IfThenElse(Stmt, key="tir.IfThenElse"):
    """One of two statements, by a condition."""

    condition: PrimExpr
    then_case: Stmt
    else_case: Stmt | None = None
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        need_condition("the condition of an if", self.condition)


class Evaluate(Stmt, key="tir.Evaluate"):
    """An expression evaluated for its effect."""

    value: PrimExpr
    span: Skip[BaseSpan | None] = None


class Prefetch(Stmt, key="tir.Prefetch"):
    """Says that a region of a buffer is read soon; it changes nothing."""

    buffer: Buffer
    bounds: tuple[Range, ...]
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        need_region(self.buffer, self.bounds)


class MatchBufferRegion(Node, key="tir.MatchBufferRegion"):
    """A buffer that is a view of a region of another."""

    buffer: Def[Buffer]
    source: BufferRegion

    def _derive(self) -> None:
        view, region = self.buffer, self.source
        base = region.buffer
        if view.dtype is not base.dtype:
            raise TypeError(
                f"match_buffer: {view.name} is {view.dtype}, but {base.name}, which it matches, is {base.dtype}"
            )
        if view.scope() != base.scope():
            raise TypeError(
                f"match_buffer: {view.name} is in scope {view.scope()!r}, but {base.name}, which it matches, in {base.scope()!r}"
            )
        extra = len(region.region) - len(view.shape)
        if extra < 0:
            raise TypeError(
                f"match_buffer: {view.name} has {len(view.shape)} dimensions, more than the {len(region.region)} of its region"
            )
        for k, r in enumerate(region.region[:extra]):
            if isinstance(r.extent, IntImm) and r.extent.value != 1:
                raise TypeError(
                    f"match_buffer: {view.name} leaves out dimension {k} of the region of {base.name}, which must have"
                    f" one element, but has {r.extent.value}"
                )
        for k, (r, dim) in enumerate(zip(region.region[extra:], view.shape, strict=True)):
            if isinstance(r.extent, IntImm) and isinstance(dim, IntImm) and r.extent.value != dim.value:
                raise TypeError(
                    f"match_buffer: dimension {k} of {view.name} has {dim.value} elements, but the region of {base.name}"
                    f" that it matches {r.extent.value}"
                )


class Block(Stmt, key="tir.Block"):
    """A unit of scheduling: what it reads and writes as functions of its iteration variables."""

    _cosmetic = frozenset({"name_hint"})

    if TYPE_CHECKING:

        def _sort(self) -> Block: ...

    iter_vars: Def[tuple[IterVar, ...]]
    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    name_hint: str
    body: Stmt
    init: Stmt | None = None
    alloc_buffers: Def[tuple[Buffer, ...]] = ()
    match_buffers: Def[tuple[MatchBufferRegion, ...]] = ()
    annotations: Mapping[str, Any] = {}
    span: Skip[BaseSpan | None] = None

    def _binds(self) -> list[Var | Buffer]:
        bound: list[Var | Buffer] = [axis.var for axis in self.iter_vars]
        for buffer in self.alloc_buffers:
            bound += (buffer, buffer.data)
        for match in self.match_buffers:
            bound += (match.buffer, *match.buffer.own_variables())
        return bound

    def __init__(
        self,
        iter_vars: Any,
        reads: Any,
        writes: Any,
        name_hint: str,
        body: Any,
        init: Any = None,
        alloc_buffers: Any = None,
        match_buffers: Any = None,
        annotations: Mapping[str, Any] | None = None,
        span: BaseSpan | None = None,
    ) -> None:
        self._build(
            iter_vars,
            reads,
            writes,
            name_hint,
            body,
            init,
            alloc_buffers or (),
            match_buffers or (),
            annotations or {},
            span,
        )


register_converter("Block", Block)


class BlockRealize(Stmt, key="tir.BlockRealize"):
    """A block at particular values of its iteration variables, run where the predicate holds."""

    iter_values: tuple[PrimExpr, ...]
    predicate: PrimExpr
    block: Block
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        if len(self.iter_values) != len(self.block.iter_vars):
            raise TypeError(
                f"block {self.block.name_hint} has {len(self.block.iter_vars)} iteration variables,"
                f" but is realized with {len(self.iter_values)} values"
            )
        need_integers("the values of block {}", self.iter_values, name=self.block.name_hint)
        need_condition("the predicate of block {}", self.predicate, name=self.block.name_hint)


def _need_storage(s: Allocate | AllocateConst) -> None:
    if s.buffer_var.dtype is not HANDLE:
        raise TypeError(f"the storage of {s.buffer_var.name} must be a handle, but is {s.buffer_var.dtype}")
    need_integers("the extents of {}", s.extents, name=s.buffer_var.name)


def _name_of(producer: Any) -> str:
    return str(getattr(producer, "name", None) or getattr(getattr(producer, "op", None), "name", "tensor"))


def _need_indices(producer: Any, given: tuple[Any, ...]) -> None:
    if len(given) != len(producer.shape):
        raise TypeError(
            f"tensor {_name_of(producer)} has {len(producer.shape)} dimensions, but was given {len(given)}: {list(given)}"
        )


def stmt_seq(*items: Any) -> Stmt:
    """The statements in order, nested sequences flattened and no-ops dropped; one alone is returned as it is."""
    flat: list[Stmt] = []

    def collect(item: Any) -> None:
        if isinstance(item, SeqStmt):
            for inner in item.seq:
                collect(inner)
        elif isinstance(item, (tuple, list)):
            for inner in item:
                collect(inner)
        elif isinstance(item, PrimExpr):
            flat.append(Evaluate(item))
        elif not (isinstance(item, Evaluate) and isinstance(item.value, IntImm)):
            flat.append(item)

    for item in items:
        collect(item)
    if len(flat) == 1:
        return flat[0]
    return SeqStmt(tuple(flat)) if flat else Evaluate(IntImm("int32", 0))


def stmt_list(stmt: Stmt) -> list[Stmt]:
    """The statements of a sequence, or the one statement."""
    return [s for item in stmt.seq for s in stmt_list(item)] if isinstance(stmt, SeqStmt) else [stmt]
