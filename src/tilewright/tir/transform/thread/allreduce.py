"""Reductions across the threads of a block: blocks to tvm_thread_allreduce, and tvm_thread_allreduce to shared memory
or shuffles.
"""

from __future__ import annotations

from typing import Any

from tilewright.ir import DataType, IntImm, IRModule, PointerType, PrimExpr, PrimType
from tilewright.ir.transform import Pass, PassContext
from tilewright.node import Mutator, nodes_of, on, post_order_visit
from tilewright.script.underline import located
from tilewright.support.errors import TVMError
from tilewright.tir.arithmetic import conjuncts, const_true, logical_and
from tilewright.tir.buffer import Buffer, decl_buffer
from tilewright.tir.expr import EQ, LT, BufferLoad, CommReducer, IterVar, Select, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.op import call_intrin
from tilewright.tir.stmt import (
    Allocate,
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    stmt_seq,
)
from tilewright.tir.stmt_functor import substitute
from tilewright.tir.transform.base import body_pass, call_name, is_true, prim_func_pass
from tilewright.tir.transform.block.reducers import update_of
from tilewright.tir.transform.thread.thread_sync import barrier


def _zero(n: int = 0) -> IntImm:
    return IntImm("int32", n)


class _LowerAllreduce(Mutator):
    """Keeps the thread axes around a statement; each allreduce gets separate storage."""

    def __init__(self, buffers: dict[Var, Buffer], warp: int) -> None:
        self.buffers, self.warp = buffers, warp
        self.threads: dict[Var, tuple[str, PrimExpr]] = {}
        self.reducer: CommReducer | None = None

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        if s.attr_key == "thread_extent" and isinstance(s.node, IterVar) and s.node.thread_tag.startswith("threadIdx"):
            outer_threads = self.threads
            self.threads = {**outer_threads, s.node.var: (s.node.thread_tag, s.value)}
            new = self.rebuild(s)
            self.threads = outer_threads
            return new
        if s.attr_key == "reduce_scope" and isinstance(s.node, CommReducer):
            outer, self.reducer = self.reducer, s.node
            body = self.visit(s.body)
            self.reducer = outer
            return body
        return self.rebuild(s)

    @on(Evaluate)
    def _evaluate(self, s: Evaluate) -> Stmt:
        if call_name(s.value) != "tvm_thread_allreduce":
            return s
        if self.reducer is None:
            raise TVMError(
                located(
                    "LowerThreadAllreduce: a tvm_thread_allreduce is not in a reduce_scope, which names its reducer", s
                )
            )
        args = s.value.args  # type: ignore[attr-defined]
        n = int(args[0])
        reduced = [t for t in args[2 + 2 * n :] if isinstance(t, Var)]
        for t in reduced:
            if t not in self.threads:
                raise TVMError(located(f"LowerThreadAllreduce: {t.name} is not a thread axis around the reduction", s))
        values = list(args[1 : 1 + n])
        if not is_true(args[1 + n]):
            values = [
                Select(args[1 + n], v, i.astype(v.dtype))
                for v, i in zip(values, self.reducer.identity_element, strict=True)
            ]
        return self._lower(values, list(args[2 + n : 2 + 2 * n]), reduced)

    def _extent(self, v: Var) -> int:
        extent = self.threads[v][1]
        if not isinstance(extent, IntImm):
            raise TVMError(
                located(f"LowerThreadAllreduce: the extent of {v.name} is {extent}; it must be a constant", v)
            )
        return extent.value

    def _numbers(self, axes: list[Var]) -> tuple[PrimExpr, int]:
        """(the number of a thread along some axes, with the first varying fastest; their number of threads)."""
        number: PrimExpr = _zero()
        count = 1
        for v in sorted(axes, key=lambda v: self.threads[v][0]):
            number = number + v.astype("int32") * count
            count *= self._extent(v)
        return number, count

    def _combine(self, a: list[BufferLoad], b: list[BufferLoad]) -> list[PrimExpr]:
        assert self.reducer is not None
        env = dict(zip((*self.reducer.lhs, *self.reducer.rhs), (*a, *b), strict=True))
        return [substitute(e, env) for e in self.reducer.result]

    def _store(self, result: Any, value: PrimExpr) -> Stmt:
        if isinstance(result, BufferLoad):
            return BufferStore(result.buffer, value, result.indices)
        if result not in self.buffers:
            self.buffers[result] = decl_buffer((1,), value.dtype, result.name, data=result)
        return BufferStore(self.buffers[result], value, (_zero(),))

    def _lower(self, values: list[PrimExpr], results: list[PrimExpr], reduced: list[Var]) -> Stmt:
        number, count = self._numbers(reduced)
        if count == 1:
            return stmt_seq(*[self._store(r, v) for r, v in zip(results, values, strict=True)])
        tags = {self.threads[v][0] for v in reduced}
        total = self._numbers(list(self.threads))[1]
        power = count & (count - 1) == 0
        if tags == {"threadIdx.x"} and power and count <= self.warp and total % self.warp == 0:
            return self._by_shuffles(values, results, count)
        if tags == {"threadIdx.x"} and power and self.warp < count <= self.warp * self.warp and self.warp > 1:
            return self._by_warps(values, results, reduced, number, count)
        return self._by_memory(values, results, reduced, number, count)

    @staticmethod
    def _buffer(name: str, dtype: DataType, size: int, scope: str) -> Buffer:
        data = Var(name, PointerType(PrimType(dtype), scope))
        return decl_buffer((size,), dtype, name, data=data)

    @staticmethod
    def _within(buffers: list[Buffer], body: Stmt) -> Stmt:
        for b in reversed(buffers):
            body = Allocate(b.data, b.dtype, b.shape, const_true(), body)
        return body

    def _by_memory(
        self, values: list[PrimExpr], results: list[PrimExpr], reduced: list[Var], number: PrimExpr, count: int
    ) -> Stmt:
        """A tree reduction in shared memory: half of the threads add the values of the other half, then a quarter, ..."""
        kept = [v for v in self.threads if v not in reduced]
        group, groups = self._numbers(kept)
        buffers = [self._buffer(f"red_buf{k}", v.dtype, groups * count, "shared") for k, v in enumerate(values)]
        base = group * count

        def at(offset: Any) -> list[Any]:
            return [BufferLoad(b, (base + offset,)) for b in buffers]

        steps: list[Stmt] = [BufferStore(b, v, (base + number,)) for b, v in zip(buffers, values, strict=True)]
        steps.append(barrier("shared"))
        live = count
        while live > 1:
            half = (live + 1) // 2
            sums = self._combine(at(number), at(number + half))
            steps += [
                *self._all_at_once(buffers, sums, base + number, LT(number, _zero(live - half))),
                barrier("shared"),
            ]
            live = half
        steps += [self._store(r, v) for r, v in zip(results, at(_zero()), strict=True)]
        # All threads must have read the result before the next iteration of a loop overwrites the storage.
        steps.append(barrier("shared"))
        return self._within(buffers, stmt_seq(*steps))

    @staticmethod
    def _all_at_once(buffers: list[Buffer], values: list[PrimExpr], index: PrimExpr, condition: PrimExpr) -> list[Stmt]:
        """Stores of values that must not depend on each other: all values are computed first."""
        if len(buffers) == 1:
            return [IfThenElse(condition, BufferStore(buffers[0], values[0], (index,)))]
        names = [Var(f"{b.name}_sum", v.dtype) for b, v in zip(buffers, values, strict=True)]
        body: Stmt = stmt_seq(*[BufferStore(b, v, (index,)) for b, v in zip(buffers, names, strict=True)])
        for v, value in reversed(list(zip(names, values, strict=True))):
            body = LetStmt(v, value, body)
        return [IfThenElse(condition, body)]

    def _by_warps(
        self, values: list[PrimExpr], results: list[PrimExpr], reduced: list[Var], number: PrimExpr, count: int
    ) -> Stmt:
        """A reduction by shuffles within each warp; every warp then reduces the results of all, which go through shared memory."""
        assert self.reducer is not None
        warps = count // self.warp
        group, groups = self._numbers([v for v in self.threads if v not in reduced])
        buffers = [self._buffer(f"red_warps{k}", v.dtype, groups * warps, "shared") for k, v in enumerate(values)]
        mine = [self._buffer(f"red_warp{k}", v.dtype, 1, "local") for k, v in enumerate(values)]
        own: list[PrimExpr] = [BufferLoad(b, (_zero(),)) for b in mine]
        lane = number % self.warp
        first = [BufferStore(b, v, (group * warps + number // self.warp,)) for b, v in zip(buffers, own, strict=True)]
        # Lanes beyond the number of warps repeat results that no lane below reads.
        of_all: list[PrimExpr] = [BufferLoad(b, (group * warps + lane % warps,)) for b in buffers]
        steps = [
            self._by_shuffles(values, own, self.warp),
            IfThenElse(EQ(lane, _zero()), stmt_seq(*first)),
            barrier("shared"),
            self._by_shuffles(of_all, results, warps),
            # All warps must have read the results before the next reduction overwrites them.
            barrier("shared"),
        ]
        return self._within([*buffers, *mine], stmt_seq(*steps))

    def _by_shuffles(self, values: list[PrimExpr], results: list[PrimExpr], count: int) -> Stmt:
        """A reduction by shuffles within a warp, without memory and barriers."""
        sums = [self._buffer(f"red_buf{k}", v.dtype, 1, "local") for k, v in enumerate(values)]
        other = [self._buffer(f"t{k}", v.dtype, 1, "local") for k, v in enumerate(values)]

        def first(buffers: list[Buffer]) -> list[Any]:
            return [BufferLoad(b, (_zero(),)) for b in buffers]

        def shuffled(name: str, value: PrimExpr, by: int) -> PrimExpr:
            mask = call_intrin("uint32", "tir.tvm_warp_activemask")
            # Devices have no shuffles of truth values and of narrow integers.
            narrow = value.dtype.bits < 32 and value.dtype.code in ("int", "uint")
            word = DataType("int32") if narrow or value.dtype.is_bool else value.dtype
            moved = call_intrin(word, name, mask, value.astype(word), _zero(by), _zero(count), _zero(self.warp))
            return moved.astype(value.dtype)

        steps: list[Stmt] = [BufferStore(b, v, (_zero(),)) for b, v in zip(sums, values, strict=True)]
        by = count // 2
        while by:
            down = [shuffled("tir.tvm_warp_shuffle_down", v, by) for v in first(sums)]
            steps += [BufferStore(b, v, (_zero(),)) for b, v in zip(other, down, strict=True)]
            steps += self._all_at_once(sums, self._combine(first(sums), first(other)), _zero(), const_true())
            by //= 2
        shown = [shuffled("tir.tvm_warp_shuffle", v, 0) for v in first(sums)]
        steps += [self._store(r, v) for r, v in zip(results, shown, strict=True)]
        return self._within([*sums, *other], stmt_seq(*[_unconditional(s) for s in steps]))


def _unconditional(s: Stmt) -> Stmt:
    return s.then_case if isinstance(s, IfThenElse) and is_true(s.condition) else s


def LowerThreadAllreduce() -> Pass:
    """Lower tvm_thread_allreduce to a tree in shared memory, or to shuffles within a warp.

    The target's attribute `thread_warp_size` gives the size of a warp. Without a target there are no shuffles.
    """

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        target = func.attrs.get("target")
        kind = str(getattr(getattr(target, "kind", None), "name", ""))
        warp = int(getattr(target, "thread_warp_size", 1) or 1) if kind in ("cuda", "nvptx", "rocm", "metal") else 1
        buffers: dict[Var, Buffer] = {}

        def note(n: Any) -> None:
            if isinstance(n, BufferLoad):
                buffers.setdefault(n.buffer.data, n.buffer)

        post_order_visit(func.body, note)
        return func.replace(body=_LowerAllreduce(buffers, warp).visit(func.body))

    made: Pass = prim_func_pass(run, name="tir.LowerThreadAllreduce", gives=("no_allreduce",))
    return made


class _CrossThread(Mutator):
    """Collects reduction blocks with a reduction axis bound to threads."""

    def __init__(self) -> None:
        self.chain: list[For] = []

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(For)
    def _for(self, s: For) -> Stmt:
        loops, inner = [s], s.body
        before: dict[int, tuple[Stmt, ...]] = {}
        # Statements right before the reduction, inside its loops, stay there: `before[d]` inside d loops.
        while True:
            if type(inner) is For:
                loops.append(inner)
                inner = inner.body
            elif type(inner) is SeqStmt and len(loops) not in before:
                before[len(loops)] = inner.seq[:-1]
                inner = inner.seq[-1]
            else:
                break
        if isinstance(inner, BlockRealize):
            new = self._reduction(loops, before, inner)
            if new is not None:
                return new
        return self.rebuild(s)

    def _reduction(self, loops: list[For], before: dict[int, tuple[Stmt, ...]], realize: BlockRealize) -> Stmt | None:
        block = realize.block
        used: set[Var] = set()
        spatial: set[Var] = set()
        for axis, value in zip(block.iter_vars, realize.iter_values, strict=True):
            (used if axis.iter_type == IterVar.CommReduce else spatial).update(variables(value))
        reducing = [f for f in loops if f.loop_var in used]
        threads = [f for f in reducing if _is_thread(f)]
        if not threads or block.init is None:
            return None
        first = loops.index(reducing[0])
        inside = loops[first:]
        name = block.name_hint
        mixed = [f.loop_var.name for f in inside if f.loop_var in spatial]
        if mixed:
            raise TVMError(
                located(
                    f"LowerCrossThreadReduction: block {name} reduces over threads, but the loop {mixed[0]} below its"
                    " reduction loops is not a reduction loop; reorder it outside of them",
                    realize,
                )
            )
        visited = {depth: tuple([self.visit(x) for x in stmts]) for depth, stmts in before.items()}
        new = self._split(realize, inside, {depth - first: stmts for depth, stmts in visited.items() if depth > first})
        for depth in range(first, 0, -1):
            new = loops[depth - 1].replace(body=stmt_seq(*visited.get(depth, ()), new))
        return new

    def _split(self, realize: BlockRealize, inside: list[For], before: dict[int, tuple[Stmt, ...]]) -> Stmt:
        """for threads: partial result; allreduce; thread 0 (or all threads, for private storage) writes the result back."""
        block = realize.block
        threads = [f for f in inside if _is_thread(f)]
        found = update_of(block)
        reducer, targets = found.reducer, found.targets
        parts, wholes = (
            [decl_buffer((1,), t.dtype, f"{kind}_{t.buffer.name}", scope="local") for t in targets]
            for kind in ("in_thread", "cross_thread")
        )
        index = (_zero(),)
        axes = {a.var: v for a, v in zip(block.iter_vars, realize.iter_values, strict=True)}

        def realized(suffix: str, body: Stmt, predicate: PrimExpr, reduces: bool) -> Stmt:
            kept = [a for a in block.iter_vars if reduces or a.iter_type != IterVar.CommReduce]
            names = {a.var: a.var.copy_with_suffix("") for a in kept}
            made = [
                IterVar(a.dom, names[a.var], a.iter_type if reduces else IterVar.DataPar, a.thread_tag) for a in kept
            ]
            from tilewright.tir.analysis.regions import get_block_read_write_region

            plain = Block(made, (), (), f"{block.name_hint}_{suffix}", substitute(body, names))
            reads, writes = get_block_read_write_region(plain)
            return BlockRealize(
                tuple([axes[a.var] for a in kept]), predicate, plain.replace(reads=reads, writes=writes)
            )

        own = [BufferLoad(p, index) for p in parts]
        combined = found.combine(own, found.sources)
        update: Stmt = realized("in_thread", _stores(parts, combined), realize.predicate, True)
        for depth in range(len(inside), 0, -1):
            update = stmt_seq(*before.get(depth, ()), update)
            if inside[depth - 1] not in threads:
                update = inside[depth - 1].replace(body=update)
        args = (
            IntImm("uint32", len(parts)), *own, const_true(), *[BufferLoad(w, index) for w in wholes],
            *[_thread_var(f) for f in threads],
        )  # fmt: skip
        everywhere: Stmt = Evaluate(call_intrin("handle", "tir.tvm_thread_allreduce", *args))
        everywhere = AttrStmt(reducer, "reduce_scope", IntImm("int32", 0), everywhere)
        # Conditions on spatial axes apply to the result like to the partial results; those on reduction axes only to the latter.
        stepping = {f.loop_var for f in inside}
        first = const_true()
        for condition in conjuncts(realize.predicate):
            if not variables(condition) & stepping:
                first = logical_and(first, condition)
        if any([t.buffer.scope() != "local" for t in targets]):
            for f in threads:
                first = logical_and(first, EQ(f.loop_var, f.min))
        back = [BufferStore(t.buffer, BufferLoad(w, index), t.indices) for t, w in zip(targets, wholes, strict=True)]
        write = realized("write_back", stmt_seq(*back), first, False)
        cross = Block((), (), (), f"{block.name_hint}_cross_thread", everywhere)
        empty = [BufferStore(p, e, index) for p, e in zip(parts, reducer.identity_element, strict=True)]
        body: Stmt = stmt_seq(*empty, update, BlockRealize((), const_true(), cross), write)
        local = Block((), (), (), f"{block.name_hint}_reduction", body, None, (*parts, *wholes))
        out: Stmt = BlockRealize((), const_true(), local)
        for f in reversed(threads):
            out = f.replace(body=out)
        return out


def variables(e: PrimExpr) -> set[Var]:
    """The variables that an expression uses."""
    return set(nodes_of(e, Var))


def _is_thread(f: For) -> bool:
    return (
        f.kind == ForKind.THREAD_BINDING
        and f.thread_binding is not None
        and f.thread_binding.thread_tag.startswith("threadIdx")
    )


def _thread_var(f: For) -> Var:
    return f.loop_var


def _stores(buffers: list[Buffer], values: list[PrimExpr]) -> Stmt:
    """Stores of values that must not depend on each other: all values are computed first."""
    if len(buffers) == 1:
        return BufferStore(buffers[0], values[0], (_zero(),))
    names = [Var(f"{b.name}_new", v.dtype) for b, v in zip(buffers, values, strict=True)]
    body: Stmt = stmt_seq(*[BufferStore(b, v, (_zero(),)) for b, v in zip(buffers, names, strict=True)])
    for name, value in reversed(list(zip(names, values, strict=True))):
        body = LetStmt(name, value, body)
    return body


def LowerCrossThreadReduction() -> Pass:
    """Divide a reduction block whose reduction loop is bound to threads into a partial result per thread,
    tvm_thread_allreduce and a store of the result.

    Tuple reducers such as argmax must have the form that `te.comm_reducer` makes: values bound to names, then stored.
    """
    return body_pass("LowerCrossThreadReduction", lambda f: _CrossThread().visit(f.body))
