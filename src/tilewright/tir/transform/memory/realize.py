"""Passes for programs with BufferRealize, from classic schedules: prefetches, rolling buffers, flat storage, textures."""

from __future__ import annotations

from typing import Any

from tilewright.arith import Analyzer, domain_touched
from tilewright.ir import DataType, IntImm, IRModule, PointerType, PrimExpr, PrimType, Range
from tilewright.ir.transform import Pass, PassContext
from tilewright.node import Mutator, Visitor, mutate_tuple, on
from tilewright.support.errors import TVMError
from tilewright.tir.arithmetic import add, const, floormod, logical_or, multiply, subtract
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.op import address_of, likely
from tilewright.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferRealize,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    Prefetch,
    Stmt,
    stmt_seq,
)
from tilewright.tir.stmt_functor import substitute, used_vars
from tilewright.tir.transform.base import body_pass, prim_func_pass
from tilewright.tir.transform.thread.thread_sync import scope_of

# --- InjectPrefetch


class _Prefetches(Mutator):
    """Inserts prefetches at the start of loops marked "prefetch_scope", for the data that the body reads `offset` iterations later."""

    def __init__(self) -> None:
        self.loops: list[For] = []

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(For)
    def _for(self, s: For) -> Stmt:
        self.loops.append(s)
        out = self.rebuild(s)
        self.loops.pop()
        return out

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        body = self.visit(s.body)
        if s.attr_key != "prefetch_scope":
            return s if body is s.body else s.replace(body=body)
        buffer = s.node
        if not isinstance(buffer, Buffer):
            raise TVMError(f"InjectPrefetch: prefetch_scope is said of a buffer, but of {buffer}")
        bounds = domain_touched(body, buffer, True, False)
        if not bounds:
            raise TVMError(f"InjectPrefetch: nothing under the prefetch_scope of {buffer.name} reads it")
        if self.loops:
            var = self.loops[-1].loop_var
            later = {var: add(var, s.value.astype(var.dtype))}
            bounds = [Range.from_min_extent(substitute(r.min, later), substitute(r.extent, later)) for r in bounds]
        return stmt_seq(Prefetch(buffer, tuple(bounds)), body)


def InjectPrefetch() -> Pass:
    """Replace attributes "prefetch_scope" (node: a buffer, value: the number of iterations ahead) by Prefetch
    statements for the data that is read then.
    """
    return body_pass("InjectPrefetch", lambda f: _Prefetches().visit(f.body), gives=("no_prefetch_scopes",))


# --- InjectRollingBuffer


class _Accesses(Visitor):
    def __init__(self, buffer: Buffer) -> None:
        self.buffer, self.writes = buffer, 0
        self.refused = False

    @on(Var)
    def _var(self, v: Var) -> None:
        self.refused |= v is self.buffer.data

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self.writes += s.buffer is self.buffer
        self.visit_children(s)


class _Rolling(Mutator):
    """Turns realizations marked "rolling_buffer_scope" into ring buffers: rows of the previous iteration are kept instead of recomputed."""

    def __init__(self) -> None:
        self.loops: list[For] = []
        self.marked: dict[Buffer, None] = {}
        self.analyzer = Analyzer()

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        if s.attr_key != "rolling_buffer_scope":
            return self.rebuild(s)
        self.marked[s.node] = None
        return self.visit(s.body)

    @on(For)
    def _for(self, s: For) -> Stmt:
        self.loops.append(s)
        self.analyzer.bind(s.loop_var, Range.from_min_extent(s.min, s.extent), allow_override=True)
        new = self.rebuild(s)
        self.loops.pop()
        # Iterations of this loop share the rolled realizations, which move around it.
        body, kept = new.body, []
        while isinstance(body, _Lifted) and body.loop is s:
            kept.append(body)
            body = body.body
        if kept:
            new = new.replace(body=body)
            for k in reversed(kept):
                new = k.realize.replace(body=new)
        return new

    @on(BufferRealize)
    def _realize(self, s: BufferRealize) -> Stmt:
        if s.buffer not in self.marked:
            return self.rebuild(s)
        serial = [f for f in self.loops if f.kind == ForKind.SERIAL]
        for f in reversed(serial):
            for k, r in enumerate(s.bounds):
                plan = self._plan(f, r)
                if plan is not None:
                    return self._roll(s, f, k, *plan)
        raise TVMError(
            f"InjectRollingBuffer: {s.buffer.name} has no dimension whose bounds move by less than their extent from one"
            " iteration of a serial loop to the next"
        )

    def _plan(self, f: For, r: Range) -> tuple[int, int] | None:
        """(step, extent) of bounds that move with a loop and overlap between iterations."""
        if f.loop_var not in used_vars(r.min) or not isinstance(r.extent, IntImm):
            return None
        following = substitute(r.min, {f.loop_var: add(f.loop_var, const(1, f.loop_var.dtype))})
        step = self.analyzer.simplify(subtract(following, r.min))
        if not isinstance(step, IntImm) or not 0 < step.value < r.extent.value:
            return None
        return step.value, r.extent.value

    def _roll(self, s: BufferRealize, f: For, axis: int, step: int, extent: int) -> Stmt:
        look = _Accesses(s.buffer)
        look.visit(s.body)
        inner = self.loops[self.loops.index(f) + 1 :]
        if look.refused or any([f2.loop_var in used_vars([r.min, r.extent]) for f2 in inner for r in s.bounds]):
            raise TVMError(
                f"InjectRollingBuffer: {s.buffer.name} must be realized right inside of loop {f.loop_var.name} and accessed"
                " by index only"
            )
        others = [r for k, r in enumerate(s.bounds) if k != axis]
        if any([f.loop_var in used_vars([r.min, r.extent]) for r in others]):
            raise TVMError(f"InjectRollingBuffer: {s.buffer.name} moves with {f.loop_var.name} in two dimensions")
        low = s.bounds[axis].min
        fresh = add(low, const(extent - step, low.dtype))
        walk = _Circular(s.buffer, axis, extent, lambda index: logical_or(f.loop_var <= f.min, index >= fresh))
        body = self.visit(walk.visit(s.body))
        bounds = tuple(
            [
                Range.from_min_extent(const(0, low.dtype), const(extent, low.dtype)) if k == axis else r
                for k, r in enumerate(s.bounds)
            ]
        )
        lifted: Stmt = _Lifted(f, s.replace(bounds=bounds, body=Evaluate(IntImm("int32", 0))), body)
        return lifted


class _Lifted(Stmt, key="tir.transform.Lifted"):
    """A body with a realization that moves around an outer loop; used only on the way up."""

    loop: Any
    realize: Any
    body: Stmt


class _Circular(Mutator):
    """Takes indices of one dimension modulo its size, and keeps only stores of new elements."""

    def __init__(self, buffer: Buffer, axis: int, size: int, is_new: Any) -> None:
        self.buffer, self.axis, self.size, self.is_new = buffer, axis, size, is_new

    def _indices(self, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        indices = mutate_tuple(self.visit, indices)
        return tuple([floormod(i, self.size) if k == self.axis else i for k, i in enumerate(indices)])

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> PrimExpr:
        if e.buffer is not self.buffer:
            return self.rebuild(e)
        return BufferLoad(e.buffer, self._indices(e.indices), e.predicate, e.span)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        if s.buffer is not self.buffer:
            return self.rebuild(s)
        store = BufferStore(s.buffer, self.visit(s.value), self._indices(s.indices), s.predicate, s.span)
        return IfThenElse(likely(self.is_new(s.indices[self.axis])), store)


def InjectRollingBuffer() -> Pass:
    """Make buffers that are marked "rolling_buffer_scope" ring buffers around the loop that moves them, and fill them
    only with new elements.
    """
    return body_pass("InjectRollingBuffer", lambda f: _Rolling().visit(f.body), gives=("no_rolling_buffers",))


# --- StorageFlatten

PREFETCH_READ, PREFETCH_KEEP, PREFETCH_DATA = 0, 3, 1


class _Flatten(Mutator):
    def __init__(self, cache_line_size: int, bound_attributes: bool) -> None:
        self.line, self.bound_attributes = cache_line_size, bound_attributes
        self.flat: dict[Buffer, tuple[Buffer, Any]] = {}
        self.views: dict[Buffer, tuple[Buffer, tuple[Any, ...], tuple[Any, ...]]] = {}
        self.analyzer = Analyzer()
        self.notes: list[tuple[Var, PrimExpr]] = []

    def declare(self, buffer: Buffer, bounds: tuple[Range, ...] | None) -> Buffer:
        """The flat buffer. With bounds, it has only the realized region."""
        shape = buffer.shape if bounds is None else tuple([r.extent for r in bounds])
        starts = None if bounds is None else tuple([r.min for r in bounds])
        sized = buffer if bounds is None else buffer.replace(shape=shape, strides=())
        total = const(1, "int32")
        for e in shape:
            total = multiply(total, e)
        if sized.strides:
            total = multiply(sized.strides[0], shape[0])
        if len(shape) == 1 and starts is None and not sized.strides and _is_zero(buffer.elem_offset):
            flat = buffer
        else:
            flat = buffer.replace(
                shape=(self.analyzer.simplify(total),), strides=(), elem_offset=const(0, "int32"), axis_separators=()
            )
        self.flat[buffer] = (flat, lambda indices: sized.offset_of(_moved(indices, starts))[0])
        if self.bound_attributes:
            self.notes.append((buffer.data, total))
        return flat

    def _access(self, b: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[Buffer, tuple[PrimExpr, ...]]:
        indices = mutate_tuple(self.visit, indices)
        while b in self.views:
            b, starts, strides = self.views[b]
            indices = _moved_back(indices, starts, strides)
        if b not in self.flat:
            self.declare(b, None)
        flat, index = self.flat[b]
        return flat, (indices if flat is b else (self.analyzer.simplify(index(indices)),))

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> PrimExpr:
        buffer, indices = self._access(e.buffer, e.indices)
        return e if buffer is e.buffer and indices is e.indices else BufferLoad(buffer, indices, e.predicate, e.span)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        buffer, indices = self._access(s.buffer, s.indices)
        return BufferStore(buffer, self.visit(s.value), indices, s.predicate, s.span)

    @on(For)
    def _for(self, s: For) -> Stmt:
        self.analyzer.bind(s.loop_var, Range.from_min_extent(s.min, s.extent), allow_override=True)
        return self.rebuild(s)

    @on(BufferRealize)
    def _realize(self, s: BufferRealize) -> Stmt:
        bounds = tuple([Range.from_min_extent(self.visit(r.min), self.visit(r.extent)) for r in s.bounds])
        flat = self.declare(s.buffer, bounds)
        condition, body = self.visit(s.condition), self.visit(s.body)
        out: Stmt = Allocate(flat.data, flat.dtype, flat.shape, condition, body)
        if self.bound_attributes:
            data, total = self.notes[-1]
            out = AttrStmt(data, "buffer_bound", total, out)
        return out

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        if s.attr_key != "buffer_bind_scope":
            return self.rebuild(s)
        view, source = s.node
        # The value is tvm_tuple(begin, extent, ...): the region of the source that the view covers.
        ends = [self.visit(x) for x in s.value.args]  # type: ignore[attr-defined]
        starts, extents = ends[0::2], ends[1::2]
        if len(starts) != len(source.shape):
            raise TVMError(
                f"StorageFlatten: {view.name} is bound to {len(starts)} ranges of {source.name}, which has"
                f" {len(source.shape)} dimensions"
            )
        kept = [k for k, e in enumerate(extents) if not (isinstance(e, IntImm) and e.value == 1)]
        skipped = len(source.shape) - len(view.shape)
        axes = tuple(range(skipped, len(source.shape))) if len(kept) != len(view.shape) else tuple(kept)
        self.views[view] = (source, tuple(starts), axes)
        return self.visit(s.body)

    @on(Prefetch)
    def _prefetch(self, s: Prefetch) -> Any:
        buffer = s.buffer
        size = buffer.dtype.bytes * buffer.dtype.lanes
        step = max(1, self.line // size)
        loops: list[tuple[Var, PrimExpr]] = []
        indices: list[PrimExpr] = []
        for k, r in enumerate(s.bounds):
            var = Var(f"prefetch_{k}", r.min.dtype)
            last = k == len(s.bounds) - 1
            count: PrimExpr = self.analyzer.simplify((r.extent + (step - 1)) // step) if last else r.extent
            loops.append((var, count))
            indices.append(add(r.min, multiply(var, const(step, var.dtype)) if last else var))
        flat, at = self._access(buffer, tuple(indices))
        call: PrimExpr = Call(
            "int32", "prefetch", (address_of(BufferLoad(flat, at)), PREFETCH_READ, PREFETCH_KEEP, PREFETCH_DATA)
        )
        inside: Any = None
        for i, dim in zip(indices, buffer.shape, strict=True):
            here = (i >= 0) & (i < dim)
            inside = here if inside is None else inside & here
        body: Stmt = IfThenElse(likely(inside), Evaluate(call))
        for var, count in reversed(loops):
            body = For(var, const(0, var.dtype), count.astype(var.dtype), ForKind.SERIAL, body)
        return body


def _is_zero(e: PrimExpr) -> bool:
    return isinstance(e, IntImm) and e.value == 0


def _moved(indices: tuple[PrimExpr, ...], starts: tuple[PrimExpr, ...] | None) -> tuple[PrimExpr, ...]:
    return indices if starts is None else tuple([subtract(i, s) for i, s in zip(indices, starts, strict=True)])


def _moved_back(
    indices: tuple[PrimExpr, ...], starts: tuple[PrimExpr, ...], axes: tuple[int, ...]
) -> tuple[PrimExpr, ...]:
    out = list(starts)
    for i, axis in zip(indices, axes, strict=True):
        out[axis] = add(out[axis], i)
    return tuple(out)


def StorageFlatten(cache_line_size: int, create_bound_attribute: bool = False) -> Pass:
    """Flatten storage: BufferRealize becomes Allocate, accesses become one-dimensional, "buffer_bind_scope" binds
    regions, Prefetch becomes one call for each cache line.

    cache_line_size: the bytes that one prefetch loads. create_bound_attribute: give storage an attribute "buffer_bound"
    with its number of elements.
    """

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        walk = _Flatten(cache_line_size, create_bound_attribute)
        for b in func.buffer_map.values():
            walk.declare(b, None)
        parameters = list(walk.notes)
        body = walk.visit(func.body)
        for data, total in reversed(parameters):
            body = AttrStmt(data, "buffer_bound", total, body)
        return func.replace(body=body)

    made: Pass = prim_func_pass(run, name="tir.StorageFlatten", gives=("flat_buffers", "no_realizes"))
    return made


# --- TextureFlatten

TEXTURE = "global.texture"
_SEPARATOR = {"texture": -2, "texture-nhwc": 2, "texture-weight": 1}


def texture_shape(buffer: Buffer) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
    """(width, height, channels) of the image for a buffer. The last dimension has the channels."""
    kind = buffer.scope().removeprefix("global.")
    if len(buffer.shape) < 3:
        raise TVMError(f"TextureFlatten: {buffer.name} is {list(buffer.shape)}; a texture has three dimensions or more")
    cut = _SEPARATOR.get(kind, -2)
    cut = cut if cut > 0 else len(buffer.shape) + cut
    height = const(1, "int32")
    width = const(1, "int32")
    for k, dim in enumerate(buffer.shape[:-1]):
        if k < cut:
            height = multiply(height, dim)
        else:
            width = multiply(width, dim)
    return width, height, buffer.shape[-1]


class _Texture(Mutator):
    def __init__(self) -> None:
        self.analyzer = Analyzer()

    def _is(self, b: Buffer) -> bool:
        return scope_of(b.data).startswith(TEXTURE)

    def _place(self, b: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
        """(x, y, channel)."""
        kind = b.scope().removeprefix("global.")
        cut = _SEPARATOR.get(kind, -2)
        cut = cut if cut > 0 else len(b.shape) + cut
        at = mutate_tuple(self.visit, indices)
        x: PrimExpr = const(0, "int32")
        y: PrimExpr = const(0, "int32")
        for k in range(len(at) - 1):
            if k < cut:
                y = add(multiply(y, b.shape[k]), at[k])
            else:
                x = add(multiply(x, b.shape[k]), at[k])
        return self.analyzer.simplify(x), self.analyzer.simplify(y), at[-1]

    @on(BufferRealize)
    def _realize(self, s: BufferRealize) -> Stmt:
        if not self._is(s.buffer):
            return self.rebuild(s)
        width, height, channels = texture_shape(s.buffer)
        body = self.visit(s.body)
        from tilewright.tir.builtin import tvm_stack_make_shape
        from tilewright.tir.expr import StringImm
        from tilewright.tir.stmt import LetStmt

        shape = tvm_stack_make_shape(width, height, channels)
        args = (StringImm(TEXTURE), const(2, "int64"), shape)
        return LetStmt(s.buffer.data, Call("handle", "nd_mem_alloc_with_scope", args), body)

    @on(Allocate)
    def _allocate(self, s: Allocate) -> Stmt:
        return self.rebuild(s)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> PrimExpr:
        if not self._is(e.buffer):
            return self.rebuild(e)
        x, y, channel = self._place(e.buffer, e.indices)
        return Call(e.dtype, "texture2d_load", (e.buffer.data, x, y, _first(channel)))

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        if not self._is(s.buffer):
            return self.rebuild(s)
        x, y, channel = self._place(s.buffer, s.indices)
        return Evaluate(Call("void", "texture2d_store", (s.buffer.data, x, y, _first(channel), self.visit(s.value))))


def _first(channel: PrimExpr) -> PrimExpr:
    out: PrimExpr = getattr(channel, "base", channel)
    return out


def TextureFlatten() -> Pass:
    """Make buffers of scope "global.texture" (and -nhwc, -weight) images of channels: texture2d_load(image, x, y,
    channel).
    """
    return body_pass("TextureFlatten", lambda f: _Texture().visit(f.body))


# --- PointerValueTypeRewrite


class _Widths(Visitor):
    """Storage -> the common number of lanes of all its accesses; 1 if they differ."""

    def __init__(self) -> None:
        self.lanes: dict[Var, int] = {}
        self.buffers: dict[Var, Buffer] = {}

    @on(Var)
    def _var(self, v: Var) -> None:
        if v.dtype.code == "handle":
            self.lanes[v] = 1

    @on(BufferLoad, BufferStore)
    def _access(self, a: Any) -> None:
        lanes = 1
        if len(a.indices) == 1 and a.buffer.dtype.lanes == 1 and a.predicate is None:
            index = a.indices[0]
            if type(index).__name__ == "Ramp" and isinstance(index.stride, IntImm) and index.stride.value == 1:
                lanes = index.lanes if _divides(index.base, index.lanes) else 1
        if self.buffers.setdefault(a.buffer.data, a.buffer) is not a.buffer:
            lanes = 1
        old = self.lanes.get(a.buffer.data)
        self.lanes[a.buffer.data] = lanes if old in (None, lanes) else 1
        self.visit_children(a)

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        self.visit(s.value)
        self.visit(s.body)


def _divides(e: PrimExpr, n: int) -> bool:
    found = Analyzer().modular_set(e)
    return bool(found.coeff % n == 0 and found.base % n == 0)


class _Retype(Mutator):
    def __init__(self, lanes: dict[Var, int]) -> None:
        self.lanes = lanes
        self.names: dict[Var, Var] = {}
        self.made: dict[Buffer, Buffer] = {}

    def width(self, b: Buffer) -> int:
        n = self.lanes.get(b.data, 1)
        last = b.shape[-1] if b.shape else None
        return n if n > 1 and isinstance(last, IntImm) and last.value % n == 0 else 1

    def data(self, v: Var, dtype: DataType) -> Var:
        if v not in self.names:
            self.names[v] = Var(v.name, PointerType(PrimType(dtype), scope_of(v)))
        return self.names[v]

    def buffer(self, b: Buffer, n: int) -> Buffer:
        if b not in self.made:
            dtype = b.dtype.with_lanes(n)
            size: Any = b.shape[0]
            shape = (const(size.value // n, size.dtype),)
            self.made[b] = b.replace(data=self.data(b.data, dtype), dtype=dtype, shape=shape)
        return self.made[b]

    def _index(self, index: Any, n: int) -> PrimExpr:
        out: PrimExpr = Analyzer().simplify(self.visit(index.base) // n)
        return out

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> PrimExpr:
        n = self.width(e.buffer)
        if n == 1:
            return self.rebuild(e)
        return BufferLoad(self.buffer(e.buffer, n), (self._index(e.indices[0], n),), None, e.span)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        n = self.width(s.buffer)
        if n == 1:
            return self.rebuild(s)
        return BufferStore(self.buffer(s.buffer, n), self.visit(s.value), (self._index(s.indices[0], n),), None, s.span)

    @on(Allocate)
    def _allocate(self, s: Allocate) -> Stmt:
        n = self.lanes.get(s.buffer_var, 1)
        (size,) = s.extents if len(s.extents) == 1 else (None,)
        if n == 1 or not isinstance(size, IntImm) or size.value % n:
            self.lanes.pop(s.buffer_var, None)
            return self.rebuild(s)
        dtype = s.dtype.with_lanes(n)
        data = self.data(s.buffer_var, dtype)
        return s.replace(
            buffer_var=data, dtype=dtype, extents=(const(size.value // n, size.dtype),), body=self.visit(s.body)
        )

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        new = self.rebuild(s)
        return new.replace(node=self.names[s.node]) if isinstance(s.node, Var) and s.node in self.names else new


def PointerValueTypeRewrite() -> Pass:
    """Make storage whose accesses are all aligned vectors of one width storage of vectors, indexed by vector. Needs
    flat buffers.
    """

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        look = _Widths()
        look.visit(func.body)
        # A parameter keeps its type in the signature, and is viewed with the new type inside the function.
        lanes = {v: n for v, n in look.lanes.items() if n > 1}
        given = {b.data for b in func.buffer_map.values()}
        walk = _Retype({v: n for v, n in lanes.items() if v not in given})
        body = walk.visit(func.body)
        params = tuple([walk.names.get(p, p) for p in func.params])
        return func.replace(params=params, body=body) if walk.names else func

    made: Pass = prim_func_pass(run, name="tir.PointerValueTypeRewrite", needs=("flat_buffers",))
    return made
