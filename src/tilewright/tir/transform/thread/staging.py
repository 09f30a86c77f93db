"""Copies between memories: through registers, distributed over the threads of a block, or by an intrinsic or a DMA
engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.arith import Analyzer, detect_linear_equation
from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.ir.transform import Pass
from tilewright.node import Mutator, on
from tilewright.support.errors import TVMError
from tilewright.tir.arithmetic import add, conjuncts, const, const_true, floordiv, floormod, multiply, subtract
from tilewright.tir.buffer import Buffer, decl_buffer
from tilewright.tir.expr import BufferLoad, Call, IterVar, Var
from tilewright.tir.op import address_of
from tilewright.tir.stmt import (
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    Stmt,
    stmt_seq,
)
from tilewright.tir.stmt_functor import substitute
from tilewright.tir.transform.base import body_pass, call_name, is_true

LOCAL_STAGE = "tir.manifest_shared_memory_local_stage"
ZERO = IntImm("int32", 0)


def nest_of(s: Stmt) -> tuple[list[For], Stmt]:
    """The perfect loop nest at a statement, and the statement inside it."""
    loops: list[For] = []
    while isinstance(s, For):
        loops.append(s)
        s = s.body
    return loops, s


def rebuilt(loops: list[For], body: Stmt, fresh: bool = False) -> Stmt:
    """Put loops around a body. `fresh`: with new variables."""
    if fresh:
        made = [f.replace(loop_var=f.loop_var.copy_with_suffix("")) for f in loops]
        body = substitute(body, {a.loop_var: b.loop_var for a, b in zip(loops, made, strict=True)})
        loops = made
    for f in reversed(loops):
        body = f.replace(body=body)
    return body


class _LocalStage(Mutator):
    """Redirects marked copies into shared memory through registers, so that all loads of one iteration are in flight at once."""

    def __init__(self) -> None:
        self.loops: list[For] = []

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(For)
    def _for(self, s: For) -> Stmt:
        loops, inner = nest_of(s)
        if not (isinstance(inner, BlockRealize) and LOCAL_STAGE in inner.block.annotations):
            return self.rebuild(s)
        own = [f for f in loops if f.kind != ForKind.THREAD_BINDING]
        bound = [f for f in loops if f.kind == ForKind.THREAD_BINDING]
        last = max([loops.index(f) for f in bound], default=-1)
        outer, inside = loops[: last + 1], [f for f in own if loops.index(f) > last]
        body = self._staged(inner, inside)
        return rebuilt(outer, body)

    @on(BlockRealize)
    def _realize(self, s: BlockRealize) -> Stmt:
        return self._staged(s, []) if LOCAL_STAGE in s.block.annotations else self.rebuild(s)

    @staticmethod
    def _staged(s: BlockRealize, loops: list[For]) -> Stmt:
        block = s.block
        store = block.body
        if (
            not isinstance(store, BufferStore)
            or block.init is not None
            or not store.buffer.scope().startswith("shared")
        ):
            raise TVMError(
                f"ManifestSharedMemoryLocalStage: block {block.name_hint} must be one store to shared memory, but is\n{store}"
            )
        extents = []
        for f in loops:
            if not isinstance(f.extent, IntImm):
                raise TVMError(
                    f"ManifestSharedMemoryLocalStage: loop {f.loop_var.name} around {block.name_hint} has no constant extent"
                )
            extents.append(f.extent)
        shape = tuple(extents) or (IntImm("int32", 1),)
        local = decl_buffer(shape, store.buffer.dtype, f"{store.buffer.name}_local", scope="local")
        at: tuple[PrimExpr, ...] = tuple([subtract(f.loop_var, f.min) for f in loops]) or (ZERO,)
        notes = {k: v for k, v in block.annotations.items() if k != LOCAL_STAGE}
        names = {a.var: a.var.copy_with_suffix("") for a in block.iter_vars}
        axes = [IterVar(a.dom, names[a.var], a.iter_type, a.thread_tag) for a in block.iter_vars]
        from tilewright.tir.analysis.regions import get_block_read_write_region

        # Loops, not the block's own axes, index the registers: both blocks are opaque in that buffer.
        fetch = Block(
            block.iter_vars, (), (), f"{block.name_hint}_fetch", BufferStore(local, store.value, at), annotations=notes
        )
        put = Block(
            axes,
            (),
            (),
            block.name_hint,
            substitute(store.replace(value=BufferLoad(local, at)), names),
            annotations=notes,
        )
        parts = []
        for b, fresh in ((fetch, False), (put, True)):
            reads, writes = get_block_read_write_region(b)
            realize = s.replace(block=b.replace(reads=reads, writes=writes))
            parts.append(rebuilt(loops, realize, fresh))
        holder = Block((), (), (), f"{block.name_hint}_stage", stmt_seq(*parts), None, (local,))
        reads, writes = get_block_read_write_region(holder)
        return BlockRealize((), const_true(), holder.replace(reads=reads, writes=writes))


def ManifestSharedMemoryLocalStage() -> Pass:
    """Divide the copy in blocks annotated "tir.manifest_shared_memory_local_stage" into one to registers and one from
    there to shared memory.
    """
    return body_pass("ManifestSharedMemoryLocalStage", lambda f: _LocalStage().visit(f.body))


# --- LowerAutoCopy


class _AutoCopy(Mutator):
    """Fuses the loops of blocks annotated "auto_copy" and splits them over the threads around them, with vectors innermost."""

    def __init__(self) -> None:
        self.threads: list[tuple[str, Var, PrimExpr]] = []

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(For)
    def _for(self, s: For) -> Stmt:
        axis = s.thread_binding
        if s.kind != ForKind.THREAD_BINDING or axis is None or not axis.thread_tag.startswith("threadIdx"):
            return self.rebuild(s)
        self.threads.append((axis.thread_tag, s.loop_var, s.extent))
        out = self.rebuild(s)
        self.threads.pop()
        return out

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        axis = s.node
        if (
            s.attr_key != "thread_extent"
            or not isinstance(axis, IterVar)
            or not axis.thread_tag.startswith("threadIdx")
        ):
            return self.rebuild(s)
        self.threads.append((axis.thread_tag, axis.var, s.value))
        out = self.rebuild(s)
        self.threads.pop()
        return out

    @on(Block)
    def _block(self, b: Block) -> Block:
        if not getattr(b.annotations.get("auto_copy"), "value", b.annotations.get("auto_copy")):
            return self.rebuild(b)
        notes = {k: v for k, v in b.annotations.items() if k not in ("auto_copy", "vector_bytes", "local_stage")}
        body = self._spread(b, int(b.annotations.get("vector_bytes", 1)), bool(b.annotations.get("local_stage", False)))
        return b.replace(body=body, annotations=notes)

    def _spread(self, b: Block, vector_bytes: int, staged: bool) -> Stmt:
        loops, inner = nest_of(b.body)
        predicate: PrimExpr = const_true()
        if isinstance(inner, BlockRealize) and inner.block.init is None:
            env = {a.var: v for a, v in zip(inner.block.iter_vars, inner.iter_values, strict=True)}
            predicate, inner = inner.predicate, substitute(inner.block.body, env)
        if isinstance(inner, IfThenElse) and inner.else_case is None and is_true(predicate):
            predicate, inner = inner.condition, inner.then_case
        plain = loops and all([f.kind in (ForKind.SERIAL, ForKind.VECTORIZED, ForKind.UNROLLED) for f in loops])
        sizes = [f.extent.value for f in loops if isinstance(f.extent, IntImm)]
        if not isinstance(inner, BufferStore) or not plain or len(sizes) != len(loops):
            raise TVMError(
                f"LowerAutoCopy: block {b.name_hint} must be loops of constant extents around one store, but is\n{b.body}"
            )
        count = 1
        for n in sizes:
            count *= n
        lanes = max(1, vector_bytes // (inner.buffer.dtype.bytes * inner.buffer.dtype.lanes))
        while count % lanes or sizes[-1] % lanes:
            lanes //= 2
        threads = 1
        number: PrimExpr = ZERO
        for _, var, extent in sorted(self.threads, key=lambda t: t[0]):
            if not isinstance(extent, IntImm):
                raise TVMError(f"LowerAutoCopy: the extent of {var.name} around {b.name_hint} is not a constant")
            number = add(number, multiply(var.astype("int32"), const(threads, "int32")))
            threads *= extent.value
        iterations = -(-count // (threads * lanes))
        iteration, lane = Var("turn", "int32"), Var("vec", "int32")
        flat = add(multiply(add(multiply(iteration, const(threads, "int32")), number), const(lanes, "int32")), lane)
        rest = flat
        env2: dict[Var, PrimExpr] = {}
        for k in range(len(loops) - 1, -1, -1):
            f = loops[k]
            part = rest if k == 0 else floormod(rest, sizes[k])
            env2[f.loop_var] = add(f.min, part.astype(f.loop_var.dtype))
            rest = floordiv(rest, sizes[k])
        store = substitute(inner, env2)
        condition = substitute(predicate, env2)
        guards = [c for c in conjuncts(condition) if not is_true(c)]
        if iterations * threads * lanes != count:
            guards.insert(0, flat < count)
        loops_out = [
            For(iteration, 0, iterations, ForKind.SERIAL, Evaluate(ZERO)),
            *([For(lane, 0, lanes, ForKind.VECTORIZED, Evaluate(ZERO))] if lanes > 1 else []),
        ]
        if lanes == 1:
            store = substitute(store, {lane: ZERO})
            guards = [substitute(g, {lane: ZERO}) for g in guards]

        def guarded(s: Stmt) -> Stmt:
            if not guards:
                return s
            whole = guards[0]
            for g in guards[1:]:
                whole = whole & g
            return IfThenElse(whole, s)

        if not staged:
            return rebuilt(loops_out, guarded(store))
        shape = (iterations, lanes)
        local = decl_buffer(shape, store.buffer.dtype, f"{store.buffer.name}_local", scope="local")
        at = (iteration, lane if lanes > 1 else ZERO)
        fetch = rebuilt(loops_out, guarded(BufferStore(local, store.value, at)))
        put = rebuilt(loops_out, guarded(store.replace(value=BufferLoad(local, at))), fresh=True)
        return BlockRealize((), const_true(), Block((), (), (), "local_stage", stmt_seq(fetch, put), None, (local,)))


def LowerAutoCopy() -> Pass:
    """Lower blocks annotated "auto_copy" to copies in which adjacent threads copy adjacent elements.

    The loops are fused and split into iterations, the threads around the block, and vectors of "vector_bytes" bytes.
    With "local_stage" the copy goes through registers.
    """
    return body_pass("LowerAutoCopy", lambda f: _AutoCopy().visit(f.body))


# --- InjectCopyIntrin


class _CopyIntrin(Mutator):
    def __init__(self, key: str, make: Callable[..., Any]) -> None:
        self.key, self.make = key if key.startswith("pragma_") else f"pragma_{key}", make

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        if s.attr_key != self.key:
            return self.rebuild(s)
        out = self.copy(s.body)
        return Evaluate(out) if isinstance(out, PrimExpr) else out

    def copy(self, body: Stmt) -> Any:
        loops, store = nest_of(body)
        if isinstance(store, BlockRealize) and not store.block.iter_vars:
            store = store.block.body
        if not isinstance(store, BufferStore):
            raise TVMError(
                f"InjectCopyIntrin: under {self.key} there must be loops around one store, but there is\n{body}"
            )
        value: Any = store.value
        condition, other = None, None
        if call_name(value) == "if_then_else":
            condition, value, other = value.args
        cast = type(value).__name__ == "Cast"
        load = value.value if cast else value
        if type(load) is not BufferLoad:
            raise TVMError(
                f"InjectCopyIntrin: the store under {self.key} must store an element of a buffer, but stores {store.value}"
            )
        names = [f.loop_var for f in loops]
        analyzer = Analyzer()
        for f in loops:
            analyzer.bind(f.loop_var, Range.from_min_extent(f.min, f.extent))
        extents = [f.extent for f in loops]
        dst = self._view(store.buffer, store.indices, names, extents, loops, "dst")
        before, after, shape, starts = self._padding(condition, loops, analyzer)
        src = self._view(load.buffer, load.indices, names, shape, loops, "src", starts)
        pad_value = const(0, value.dtype) if other is None else other
        return self.make(src, dst, before, after, pad_value)

    def _view(
        self,
        b: Buffer,
        indices: tuple[PrimExpr, ...],
        names: list[Var],
        shape: list[PrimExpr],
        loops: list[For],
        what: str,
        starts: list[PrimExpr] | None = None,
    ) -> Buffer:
        at = b.offset_of(indices)[0]
        found = detect_linear_equation(at, names)
        if not found:
            raise TVMError(
                f"InjectCopyIntrin: {b.name} is accessed at {at}, which is not linear in the loops of the copy"
            )
        offset = found[-1]
        for k, (stride, f) in enumerate(zip(found, loops, strict=False)):
            first = f.min if starts is None else add(f.min, starts[k])
            offset = add(offset, multiply(stride, first))
        offset = Analyzer().simplify(offset)
        return decl_buffer(
            tuple(shape) or (1,), b.dtype, b.name, data=b.data, strides=tuple(found[:-1]) or (1,), elem_offset=offset,
            scope=b.scope(), data_alignment=b.data_alignment, offset_factor=1,
        )  # fmt: skip

    def _padding(
        self, condition: Any, loops: list[For], analyzer: Analyzer
    ) -> tuple[list[PrimExpr], list[PrimExpr], list[PrimExpr], list[PrimExpr]]:
        """(before, after, shape, starts) of the region that a condition on the loops admits."""
        if condition is None:
            return [], [], [f.extent for f in loops], [const(0, f.loop_var.dtype) for f in loops]
        from tilewright.arith import detect_clip_bound

        bounds = detect_clip_bound(condition, [f.loop_var for f in loops])
        if not bounds:
            raise TVMError(
                f"InjectCopyIntrin: the padding's condition {condition} does not bound the loops of the copy"
            )
        before, after, shape, starts = [], [], [], []
        for k, f in enumerate(loops):
            low, high = bounds[2 * k], bounds[2 * k + 1]
            zero = const(0, f.loop_var.dtype)
            first = zero if low is None else analyzer.simplify(_max(low - f.min, zero))
            last = zero if high is None else analyzer.simplify(_max(f.min + f.extent - 1 - high, zero))
            before.append(first)
            after.append(last)
            shape.append(analyzer.simplify(f.extent - first - last))
            starts.append(first)
        return before, after, shape, starts


def _max(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    from tilewright.tir.arithmetic import maximum

    out: PrimExpr = maximum(a, b)
    return out


def InjectCopyIntrin(pragma_key: str, fintrin: Callable[..., Any]) -> Pass:
    """Replace copies under the pragma with this key by the statement fintrin(src, dst, pad_before, pad_after,
    pad_value).

    src and dst are buffers with strides, of the copied shape. The padding lists are empty without padding.
    """
    return body_pass("InjectCopyIntrin", lambda f: _CopyIntrin(pragma_key, fintrin).visit(f.body))


# --- LowerAsyncDMA


class _Dma(Mutator):
    """Replaces copy loops under "async_commit_queue_scope" by dma_copy, and waits by dma_wait."""

    def __init__(self) -> None:
        self.queues: set[int] = set()

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        if (
            s.attr_key == "async_wait_queue_scope"
            and isinstance(s.body, AttrStmt)
            and s.body.attr_key == "async_wait_inflight_count"
        ):
            wait = Evaluate(Call("int32", "dma_wait", (s.value, s.body.value)))
            return stmt_seq(wait, self.visit(s.body.body))
        if s.attr_key != "async_commit_queue_scope":
            return self.rebuild(s)
        body = s.body
        while isinstance(body, AttrStmt) and body.attr_key == "async_scope":
            body = body.body
        loops, store = nest_of(body)
        made = self._copy(loops, store, s.value)
        return made if made is not None else self.visit(body)

    @staticmethod
    def _copy(loops: list[For], store: Stmt, queue: PrimExpr) -> Stmt | None:
        if not isinstance(store, BufferStore) or type(store.value) is not BufferLoad:
            return None
        load = store.value
        size = load.dtype.bytes * load.dtype.lanes
        first: dict[Var, PrimExpr] = {}
        step = 1
        for f in reversed(loops):
            for index in (store.indices, load.indices):
                if len(index) != 1:
                    return None
                found = detect_linear_equation(index[0], [f.loop_var])
                if not found or not isinstance(found[0], IntImm) or found[0].value != step:
                    return None
            if not isinstance(f.extent, IntImm):
                return None
            step *= f.extent.value
            first[f.loop_var] = f.min
        to = address_of(BufferLoad(store.buffer, tuple([substitute(i, first) for i in store.indices])))
        source = address_of(BufferLoad(load.buffer, tuple([substitute(i, first) for i in load.indices])))
        args = (queue, to, source, const(size * step, "int32"), const(0, "int32"))
        return Evaluate(Call("int32", "dma_copy", args))


def LowerAsyncDMA() -> Pass:
    """Replace copies of adjacent elements under "async_commit_queue_scope" by dma_copy(queue, to, from, bytes, bypass),
    and waits by dma_wait.
    """
    return body_pass("LowerAsyncDMA", lambda f: _Dma().visit(f.body))
