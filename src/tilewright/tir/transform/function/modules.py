"""Passes on modules and signatures: extraction of constants, layouts of parameters, inlining of private functions,
verifiers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.ir import GlobalVar, IntImm, IRModule, PrimExpr, Range
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.node import Mutator, Visitor, mutate_tuple, on
from tilewright.support.errors import TVMError
from tilewright.tir.analysis.cost import calculate_allocated_bytes, verify_memory
from tilewright.tir.analysis.gpu import gpu_code_errors
from tilewright.tir.analysis.variables import verify_ssa
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import (
    AllocateConst,
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    SeqStmt,
    Stmt,
    While,
    stmt_seq,
)
from tilewright.tir.stmt_functor import renew_defs, substitute
from tilewright.tir.transform.base import call_name, is_no_op, prim_func_pass

NOTHING = Evaluate(IntImm("int32", 0))

# --- ExtractPrimFuncConstants


def ExtractPrimFuncConstants() -> Pass:
    """Move the constants of all functions to the module's attribute "constants", each once. Allocations refer to theirs
    by "irmod_storage_idx".
    """

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        constants: list[Any] = list((mod.attrs or {}).get("constants", ()))

        def number(data: Any) -> int:
            array = np.asarray(data)
            for k, other in enumerate(constants):
                have = np.asarray(other)
                if have.dtype == array.dtype and have.shape == array.shape and np.array_equal(have, array):
                    return k
            constants.append(data)
            return len(constants) - 1

        class Extract(Mutator):
            @on(PrimExpr)
            def _expr(self, e: PrimExpr) -> PrimExpr:
                return e

            @on(AllocateConst)
            def _constant(self, s: AllocateConst) -> Any:
                if "irmod_storage_idx" in s.annotations:
                    return s.replace(body=self.visit(s.body))
                return s.replace(
                    annotations={**s.annotations, "irmod_storage_idx": number(s.data)}, body=self.visit(s.body)
                )

        walk = Extract()
        functions = {
            g: f.replace(body=walk.visit(f.body)) if isinstance(f, PrimFunc) else f for g, f in mod.functions.items()
        }
        if not constants:
            return mod
        return mod.with_functions(functions).with_attr("constants", tuple(constants))

    return Pass(PassInfo(0, "tir.ExtractPrimFuncConstants"), run)


# --- ApplyLayoutTransforms


class _Layouts(Mutator):
    """Changes accesses of some buffers by index maps, to buffers of other shapes."""

    def __init__(self, maps: dict[Buffer, tuple[Buffer, tuple[Any, ...]]]) -> None:
        self.maps = maps

    def _indices(self, b: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        at = mutate_tuple(self.visit, indices)
        for m in self.maps[b][1]:
            at = tuple(m.map_indices(list(at)))
        return at

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> PrimExpr:
        if e.buffer not in self.maps:
            return self.rebuild(e)
        return BufferLoad(self.maps[e.buffer][0], self._indices(e.buffer, e.indices), e.predicate, e.span)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        if s.buffer not in self.maps:
            return self.rebuild(s)
        return BufferStore(
            self.maps[s.buffer][0], self.visit(s.value), self._indices(s.buffer, s.indices), s.predicate, s.span
        )

    @on(BufferRegion)
    def _region(self, r: BufferRegion) -> BufferRegion:
        if r.buffer not in self.maps:
            return self.rebuild(r)
        new = self.maps[r.buffer][0]
        if all([isinstance(x.extent, IntImm) and x.extent.value == 1 for x in r.region]):
            at = self._indices(r.buffer, tuple([x.min for x in r.region]))
            return BufferRegion(new, tuple([Range.from_min_extent(i, IntImm(i.dtype, 1)) for i in at]))
        return BufferRegion(new, tuple([Range.from_min_extent(IntImm(n.dtype, 0), n) for n in new.shape]))


def ApplyLayoutTransforms() -> Pass:
    """Apply the attribute "layout_transform_map" (data variable or buffer -> index maps) to the shapes of parameters
    and to their accesses.

    Callers of the function must pass arguments in the new layouts.
    """

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        table = func.attrs.get("layout_transform_map")
        if not table:
            return func
        by_data = {b.data: b for b in func.buffer_map.values()}
        maps: dict[Buffer, tuple[Buffer, tuple[Any, ...]]] = {}
        for key, given in table.items():
            buffer = key if isinstance(key, Buffer) else by_data.get(key, func.buffer_map.get(key))
            if buffer is None:
                raise TVMError(f"ApplyLayoutTransforms: {key} is not a buffer parameter of the function")
            chain = tuple(given) if isinstance(given, (tuple, list)) else (given,)
            shape = list(buffer.shape)
            for m in chain:
                shape = m.map_shape(shape)
            maps[buffer] = (buffer.replace(shape=tuple(shape), strides=()), chain)
        params = {p: maps[b][0] if b in maps else b for p, b in func.buffer_map.items()}
        body = _Layouts(maps).visit(func.body)
        return func.replace(body=body, buffer_map=params).without_attr("layout_transform_map")

    made: Pass = prim_func_pass(run, name="tir.ApplyLayoutTransforms")
    return made


# --- RemoveWeightLayoutRewriteBlock

PREPROC = "meta_schedule.layout_rewrite_preproc"


class _Rewrites(Visitor):
    """Blocks that only convert a weight to another layout: (source, rewritten, the store)."""

    def __init__(self) -> None:
        self.found: list[tuple[Buffer, Buffer, BufferStore, Block]] = []

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(Block)
    def _block(self, b: Block) -> None:
        if b.annotations.get(PREPROC):
            body = b.body
            if not isinstance(body, BufferStore) or type(body.value) is not BufferLoad:
                raise TVMError(
                    f"RemoveWeightLayoutRewriteBlock: block {b.name_hint} is annotated {PREPROC!r}, so it must copy one buffer"
                    f" to another, but its body is\n{body}"
                )
            self.found.append((body.value.buffer, body.buffer, body, b))
            return
        if b.init is not None:
            self.visit(b.init)
        self.visit(b.body)


class _Removed(Mutator):
    def __init__(self, gone: set[Buffer]) -> None:
        self.gone = gone

    @on(BlockRealize)
    def _realize(self, s: BlockRealize) -> Stmt:
        return NOTHING if s.block.annotations.get(PREPROC) else self.rebuild(s)

    @on(For)
    def _for(self, s: For) -> Stmt:
        new = self.rebuild(s)
        return NOTHING if is_no_op(new.body) else new

    @on(SeqStmt)
    def _seq(self, s: SeqStmt) -> Stmt:
        return stmt_seq(*[self.visit(x) for x in s.seq])

    @on(Block)
    def _block(self, b: Block) -> Block:
        new = self.rebuild(b)
        kept = tuple([x for x in new.alloc_buffers if x not in self.gone])
        return new if len(kept) == len(new.alloc_buffers) else new.replace(alloc_buffers=kept)


class _Constants(Mutator):
    """Converts constants to the layouts that removed blocks would give them."""

    def __init__(self, changes: dict[Var, tuple[Buffer, BufferStore, Block]], skip: bool) -> None:
        self.changes, self.skip = changes, skip

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(AllocateConst)
    def _constant(self, s: AllocateConst) -> Any:
        found = self.changes.get(s.buffer_var)
        body = self.visit(s.body)
        if found is None:
            return s.replace(body=body)
        new, store, block = found
        data = s.data if self.skip else rearranged(np.asarray(s.data), store, block)
        return s.replace(buffer_var=new.data, extents=new.shape, data=data, body=body)


def rearranged(array: Any, store: Any, block: Block) -> Any:
    """The result of a block that copies an array element by element."""
    from tilewright.tir.transform.thread.thread_sync import _values

    extents = [a.dom.extent.value for a in block.iter_vars]  # type: ignore[union-attr]
    grid = dict(zip([a.var for a in block.iter_vars], np.indices(extents).reshape(len(extents), -1), strict=True))
    count = int(np.prod(extents))

    def places(indices: Any) -> tuple[Any, ...]:
        return tuple([np.broadcast_to(_values(i, grid), (count,)) for i in indices])

    out = np.zeros([n.value for n in store.buffer.shape], array.dtype)
    source = array.reshape([n.value for n in store.value.buffer.shape])
    out[places(store.indices)] = source[places(store.value.indices)]
    return out


def RemoveWeightLayoutRewriteBlock(skip_ndarray_rewrite: bool = False) -> Pass:
    """Remove blocks that are annotated "meta_schedule.layout_rewrite_preproc". The weight must then be passed in its
    new layout.

    Parameters get the shape of the rewritten buffer. Constants are rearranged, unless skip_ndarray_rewrite is set.
    """

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        look = _Rewrites()
        look.visit(func.body)
        if not look.found:
            return func
        params = {b: p for p, b in func.buffer_map.items()}
        buffers = dict(func.buffer_map)
        constants: dict[Var, tuple[Buffer, BufferStore, Block]] = {}
        for source, new, store, block in look.found:
            if source in params:
                buffers[params[source]] = new
            else:
                constants[source.data] = (new, store, block)
        body: Stmt = _Removed({new for _, new, _, _ in look.found}).visit(func.body)
        if constants:
            body = _Constants(constants, skip_ndarray_rewrite).visit(body)
        return func.replace(body=body, buffer_map=buffers)

    made: Pass = prim_func_pass(run, name="tir.RemoveWeightLayoutRewriteBlock")
    return made


# --- InlinePrivateFunctions


class _Callees(Visitor):
    def __init__(self) -> None:
        self.statements: dict[GlobalVar, int] = {}
        self.elsewhere: set[GlobalVar] = set()

    @on(Evaluate)
    def _evaluate(self, s: Evaluate) -> None:
        if isinstance(s.value, Call) and isinstance(s.value.op, GlobalVar):
            self.statements[s.value.op] = self.statements.get(s.value.op, 0) + 1
            for a in s.value.args:
                self.visit(a)
        else:
            self.visit(s.value)

    @on(Call)
    def _call(self, e: Call) -> None:
        if isinstance(e.op, GlobalVar):
            self.elsewhere.add(e.op)
        self.visit_children(e)


def _inlinable(func: Any) -> bool:
    if not isinstance(func, PrimFunc) or "global_symbol" in func.attrs or func.buffer_map:
        return False
    returns = [False]

    class Returns(Visitor):
        @on(Call)
        def _call(self, e: Call) -> None:
            returns[0] |= call_name(e) == "ret"
            self.visit_children(e)

    Returns().visit(func.body)
    return not returns[0]


class _Inline(Mutator):
    def __init__(self, bodies: Mapping[GlobalVar, PrimFunc]) -> None:
        self.bodies = bodies

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(Evaluate)
    def _evaluate(self, s: Evaluate) -> Stmt:
        call: Any = s.value
        func = self.bodies.get(call.op) if isinstance(call, Call) and isinstance(call.op, GlobalVar) else None
        if func is None:
            return s
        if len(func.params) != len(call.args):
            raise TVMError(
                f"InlinePrivateFunctions: {call.op.name_hint} takes {len(func.params)} arguments, but is called with {len(call.args)}"
            )
        fresh = renew_defs(func)
        env = dict(zip(fresh.params, call.args, strict=True))
        return self.visit(substitute(fresh.body, env))

    @on(SeqStmt)
    def _seq(self, s: SeqStmt) -> Stmt:
        new = self.rebuild(s)
        return new if new is s else stmt_seq(new)


def InlinePrivateFunctions() -> Pass:
    """Inline functions without a global symbol where they are called as statements. Remove functions that are no longer
    called.

    Functions that take buffers, return values or call themselves are not inlined.
    """

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        calls: dict[GlobalVar, _Callees] = {}
        for gvar, func in mod.functions.items():
            if isinstance(func, PrimFunc):
                calls[gvar] = look = _Callees()
                look.visit(func.body)

        def reaches(start: GlobalVar) -> bool:
            seen: set[GlobalVar] = set()
            todo = list(calls[start].statements) + list(calls[start].elsewhere)
            while todo:
                g = todo.pop()
                if g == start:
                    return True
                if g not in seen and g in calls:
                    seen.add(g)
                    todo += [*calls[g].statements, *calls[g].elsewhere]
            return False

        bodies = {g: f for g, f in mod.functions.items() if _inlinable(f) and not reaches(g)}
        if not bodies:
            return mod
        walk = _Inline(bodies)  # type: ignore[arg-type]
        kept: dict[Any, Any] = {}
        in_exprs = {g for c in calls.values() for g in c.elsewhere}
        called = {g for c in calls.values() for g in c.statements}
        for gvar, func in mod.functions.items():
            if gvar in bodies and gvar in called and gvar not in in_exprs:
                continue
            kept[gvar] = func.replace(body=walk.visit(func.body)) if isinstance(func, PrimFunc) else func
        return mod.with_functions(kept)

    return Pass(PassInfo(0, "tir.InlinePrivateFunctions"), run)


# --- AnnotateIrregularLoop

IRREGULAR = "irregular_loop_mark"
_JUMPS = frozenset({"break", "continue", "break_loop", "continue_loop"})


class _Irregular(Mutator):
    """Marks loops that a statement can leave early, so that passes do not rely on their number of iterations."""

    def __init__(self) -> None:
        self.jumps = False

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(Evaluate)
    def _evaluate(self, s: Evaluate) -> Stmt:
        name = call_name(s.value)
        text = getattr(s.value.args[0], "value", "") if name in ("call_extern", "call_pure_extern") else name  # type: ignore[attr-defined]
        self.jumps |= text in _JUMPS or name == "ret"
        return s

    @on(For)
    def _for(self, s: For) -> Stmt:
        outer, self.jumps = self.jumps, False
        new = self.rebuild(s)
        if self.jumps:
            new = new.replace(annotations={**new.annotations, IRREGULAR: 1})
        self.jumps = outer
        return new

    @on(While)
    def _while(self, s: While) -> Stmt:
        outer, self.jumps = self.jumps, False
        new = self.rebuild(s)
        self.jumps = outer
        return new


def AnnotateIrregularLoop() -> Pass:
    """Annotate loops that break, continue or ret can leave with "irregular_loop_mark"."""
    made: Pass = prim_func_pass(
        lambda func, mod, ctx: func.replace(body=_Irregular().visit(func.body)), name="tir.AnnotateIrregularLoop"
    )
    return made


# --- verifiers as passes


def _checks(name: str, check: Any) -> Pass:
    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        for gvar, func in mod.functions.items():
            if isinstance(func, PrimFunc):
                check(str(func.attrs.get("global_symbol") or gvar.name_hint), func)
        return mod

    return Pass(PassInfo(0, f"tir.{name}"), run)


def VerifyMemory() -> Pass:
    """Raise TVMError if host code accesses memory of a device. Changes nothing."""

    def check(name: str, func: PrimFunc) -> None:
        if not verify_memory(func):
            raise TVMError(
                f"VerifyMemory: {name} accesses memory of its target outside of thread axes; bind its loops to threads\n{func}"
            )

    return _checks("VerifyMemory", check)


def VerifySSA() -> Pass:
    """Raise TVMError if a variable is bound twice. Changes nothing."""

    def check(name: str, func: PrimFunc) -> None:
        if not verify_ssa(func):
            raise TVMError(f"VerifySSA: {name} binds a variable twice; run ConvertSSA\n{func}")

    return _checks("VerifySSA", check)


def VerifyGPUCode(constraints: Mapping[str, int]) -> Pass:
    """Raise TVMError if a kernel exceeds the limits of tir.analysis.verify_gpu_code. Changes nothing."""

    def check(name: str, func: PrimFunc) -> None:
        errors = gpu_code_errors(func, constraints)
        if errors:
            raise TVMError(f"VerifyGPUCode: {name}: " + "; ".join(errors))

    return _checks("VerifyGPUCode", check)


def VerifyVTCMLimit(limit: int | None = None) -> Pass:
    """Raise TVMError if a function allocates more bytes of "global.vtcm" than the limit, or than the vtcm-capacity of
    its target. Changes nothing.
    """

    def check(name: str, func: PrimFunc) -> None:
        target = func.attrs.get("target")
        own = getattr(target, "attrs", {}).get("vtcm-capacity") if target is not None else None
        most = int(limit if limit is not None else own or 0)
        used = calculate_allocated_bytes(func)["main"].get("global.vtcm", 0)
        if most > 0 and used > most:
            raise TVMError(f"VerifyVTCMLimit: {name} allocates {used} bytes of VTCM, more than the {most} there are")

    return _checks("VerifyVTCMLimit", check)
