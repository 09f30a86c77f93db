"""InjectSoftwarePipeline: overlaps the statements of different iterations of a loop."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tilewright.arith import Analyzer
from tilewright.ir import IntImm, IRModule, PrimExpr, Range
from tilewright.ir.transform import Pass, PassContext
from tilewright.node import Mutator, mutate_tuple, on
from tilewright.script.underline import located
from tilewright.support.errors import TVMError
from tilewright.tir.arithmetic import add, const_true, floordiv, floormod, logical_and, multiply, subtract
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import (
    AttrStmt,
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    SeqStmt,
    Stmt,
    stmt_seq,
)
from tilewright.tir.stmt_functor import any_stmt, substitute
from tilewright.tir.transform.base import is_true, prim_func_pass
from tilewright.tir.transform.loop.double_buffer import touches
from tilewright.tir.transform.loop.rolled import rolled
from tilewright.tir.transform.ssa import convert_ssa

STAGE, ORDER, ASYNC = "software_pipeline_stage", "software_pipeline_order", "software_pipeline_async_stages"
STEP = "software_pipeline_step"
"""Attribute around what runs in one step of a pipeline, with a number of its own. Inside, the attribute STAGE is around the statement of
each stage. Statements of different stages of a step access different versions of all buffers."""


class Versions(Mutator):
    """Redirects accesses of buffers with several versions to the version of one iteration."""

    def __init__(self, versions: dict[Buffer, tuple[Buffer, int]], iteration: PrimExpr) -> None:
        self.versions, self.iteration = versions, iteration
        self.by_data = {buffer.data: (buffer, count) for buffer, (_, count) in versions.items()}

    def _slot(self, count: int) -> PrimExpr:
        return floormod(self.iteration, IntImm(self.iteration.dtype, count))

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> PrimExpr:
        found = self.versions.get(e.buffer)
        if found is None:
            return self.rebuild(e)
        indices = mutate_tuple(self.visit, e.indices)
        return BufferLoad(found[0], (self._slot(found[1]), *indices), e.predicate, e.span)

    @on(Call)
    def _call(self, e: Call) -> PrimExpr:
        """Intrinsics get pointers to the version of the iteration."""
        data = e.args[1] if e.intrinsic == "tvm_access_ptr" else None
        if not isinstance(data, Var) or data not in self.by_data:
            return self.rebuild(e)
        buffer, count = self.by_data[data]
        size: PrimExpr = IntImm(self.iteration.dtype, 1)
        for n in buffer.shape:
            size = multiply(size, n)
        if buffer.strides:
            size = multiply(buffer.strides[0], buffer.shape[0])
        kind, _, offset, extent, mask = e.args
        offset = add(self.visit(offset), multiply(self._slot(count), floordiv(size, kind.dtype.lanes)))
        return Call(e.dtype, e.op, (kind, data, offset, self.visit(extent), mask), e.span)

    @on(Var)
    def _var(self, v: Var) -> Var:
        if v in self.by_data:
            buffer, _ = self.by_data[v]
            raise TVMError(
                f"InjectSoftwarePipeline: {buffer.name} has several versions, so that intrinsics take pointers to it by access_ptr,"
                f" but it is used as {v.name}"
            )
        return v

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        found = self.versions.get(s.buffer)
        if found is None:
            return self.rebuild(s)
        indices = mutate_tuple(self.visit, s.indices)
        return BufferStore(found[0], self.visit(s.value), (self._slot(found[1]), *indices), s.predicate, s.span)

    @on(BufferRegion)
    def _region(self, r: BufferRegion) -> BufferRegion:
        found = self.versions.get(r.buffer)
        if found is None:
            return self.rebuild(r)
        slot = self._slot(found[1])
        region = mutate_tuple(self.visit, r.region)
        return BufferRegion(found[0], (Range.from_min_extent(slot, IntImm(slot.dtype, 1)), *region))


class _Pipeline:
    """One annotated loop, converted to a pipeline."""

    def __init__(self, loop: For) -> None:
        self.loop = loop
        self.loop, self.name = loop, loop.loop_var.name
        self.predicate: PrimExpr | None = None
        self.buffers: tuple[Buffer, ...] = ()
        self.parts = self._parts(loop.body)
        self.stages, self.orders = self._numbers(STAGE), self._numbers(ORDER)
        self.asynchronous = {int(x) for x in loop.annotations.get(ASYNC, ())}
        unknown = sorted(self.asynchronous - set(self.stages))
        if unknown:
            self.fail(f"{ASYNC} names the stages {unknown}, but the stages are {sorted(set(self.stages))}")
        self._check()

    def fail(self, text: str) -> None:
        raise TVMError(located(f"InjectSoftwarePipeline: loop {self.name}: {text}", self.loop))

    def _parts(self, body: Any) -> list[Stmt]:
        """The statements of the body. A block around them contributes its buffers."""
        while isinstance(body, BlockRealize) and not body.block.iter_vars and not body.block.match_buffers:
            if not is_true(body.predicate):
                old = self.predicate
                self.predicate = body.predicate if old is None else logical_and(old, body.predicate)
            self.buffers = (*self.buffers, *body.block.alloc_buffers)
            if not isinstance(body.block.body, (SeqStmt, BlockRealize)):
                break
            body = body.block.body
        if not isinstance(body, SeqStmt):
            self.fail("its body must be several statements one after another, to be put into stages")
        return list(body.seq)

    def _numbers(self, key: str) -> list[int]:
        given = self.loop.annotations.get(key)
        if given is None:
            self.fail(f"it has {STAGE if key == ORDER else ORDER} but no {key}; give both")
        numbers = [int(x) for x in given]  # type: ignore[union-attr]
        if len(numbers) != len(self.parts):
            self.fail(f"{key} has {len(numbers)} entries, but the body {len(self.parts)} statements; give one for each")
        return numbers

    def _check(self) -> None:
        if sorted(self.orders) != list(range(len(self.parts))):
            self.fail(f"{ORDER} must be a permutation of 0..{len(self.parts) - 1}, but is {self.orders}")
        if self.loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
            self.fail(
                f"it is {ForKind.NAMES[self.loop.kind]}; only loops whose iterations run in order can be pipelined"
            )
        if min(self.stages) < 0:
            self.fail(f"{STAGE} must not be negative, but is {self.stages}")
        own = {b.data for b in self.buffers}
        uses = [touches(p) for p in self.parts]
        for a in range(len(self.parts)):
            for b in range(a + 1, len(self.parts)):
                first, then = uses[a], uses[b]
                shared = (first.writes & (then.reads | then.writes)) | (first.reads & then.writes)
                late = (self.stages[a], self.orders[a]) > (self.stages[b], self.orders[b])
                if shared and late:
                    self.fail(
                        f"statement {b} depends on statement {a} through {_names(shared)}, but stages {self.stages} and"
                        f" order {self.orders} run it earlier"
                    )
                outside = shared - own
                if outside and self.stages[a] != self.stages[b]:
                    self.fail(
                        f"statements {a} and {b} both access {_names(outside)}, which lives longer than one iteration, so"
                        f" they must have the same stage, but have {self.stages[a]} and {self.stages[b]}"
                    )

    def versions(self) -> dict[Buffer, tuple[Buffer, int]]:
        """Buffer -> (buffer with versions, their number), for buffers that one stage writes and another one uses."""
        out: dict[Buffer, tuple[Buffer, int]] = {}
        for buffer in self.buffers:
            using = [
                stage
                for part, stage in zip(self.parts, self.stages, strict=True)
                if buffer.data in touches(part).reads | touches(part).writes
            ]
            count = max(using) - min(using) + 1 if using else 1
            if count > 1:
                leading = IntImm(buffer.shape[0].dtype if buffer.shape else "int32", count)
                strides = buffer.strides and (buffer.strides[0] * buffer.shape[0], *buffer.strides)
                out[buffer] = (buffer.replace(shape=(leading, *buffer.shape), strides=strides), count)
        return out

    def _waits(self) -> dict[int, dict[int, int]]:
        """Statement -> asynchronous stage that it reads -> the number of the stage's commits that may be unfinished at the begin of a
        step, before its own."""
        out: dict[int, dict[int, int]] = {}
        uses = [touches(p) for p in self.parts] if self.asynchronous else []
        for b, use in enumerate(uses):
            for a, source in enumerate(uses):
                stage = self.stages[a]
                if a == b or stage not in self.asynchronous or stage == self.stages[b] or not source.writes & use.reads:
                    continue
                # Each statement of the stage commits once per iteration.
                commits = [k for k, s in enumerate(self.stages) if s == stage]
                between = self.stages[b] - stage - 1
                rest = len([k for k in commits if self.orders[k] > self.orders[a]])
                late = between * len(commits) + rest if between >= 0 else 0
                found = out.setdefault(b, {})
                found[stage] = min(found.get(stage, late), late)
        return out

    def build(self, numbers: Iterator[int]) -> Stmt:
        """The pipeline. numbers: of its steps."""
        loop = self.loop
        versions = self.versions()
        depth = max(self.stages)
        dtype = loop.loop_var.dtype
        analyzer = Analyzer()
        ordered = sorted(range(len(self.parts)), key=lambda number: self.orders[number])
        end = analyzer.simplify(add(loop.min, loop.extent))

        waits = self._waits()

        def iteration(at: PrimExpr, guarded: bool) -> Stmt:
            """All stages at one step of the pipeline. `guarded`: only those with an iteration inside the loop's range."""
            out: list[Stmt] = []
            late: dict[int, int] = {}
            for number in ordered:
                stage, part = self.stages[number], self.parts[number]
                of = analyzer.simplify(subtract(at, IntImm(dtype, stage)))
                slot = analyzer.simplify(subtract(of, loop.min))
                s: Stmt = substitute(Versions(versions, slot).visit(part), {loop.loop_var: of})
                if self.predicate is not None:
                    s = IfThenElse(substitute(self.predicate, {loop.loop_var: of}), s)
                if stage in self.asynchronous:
                    inner = AttrStmt(None, "async_scope", IntImm("int32", 1), s)
                    s = AttrStmt(None, "async_commit_queue_scope", IntImm("int32", stage), inner)
                s = AttrStmt(None, STAGE, IntImm("int32", stage), s)
                if guarded:
                    inside = analyzer.simplify(logical_and(of >= loop.min, of < end))
                    if isinstance(inside, IntImm):
                        if not inside.value:
                            continue
                    else:
                        s = IfThenElse(inside, s)
                for queue, count in waits.get(number, {}).items():
                    # The prologue and the epilogue have fewer iterations in flight, so they wait for all.
                    late[queue] = min(late.get(queue, count), 0 if guarded else count)
                out.append(s)
            step: Stmt = AttrStmt(None, STEP, IntImm("int32", next(numbers)), stmt_seq(*out))
            # The wait comes first: one barrier then also stands between what the last step read and what this one overwrites.
            for queue, count in late.items():
                inner = AttrStmt(None, "async_wait_inflight_count", IntImm("int32", count), step)
                step = AttrStmt(None, "async_wait_queue_scope", IntImm("int32", queue), inner)
            return step if out else stmt_seq()

        kept = {k: v for k, v in loop.annotations.items() if k not in (STAGE, ORDER, ASYNC)}
        begin = analyzer.simplify(add(loop.min, IntImm(dtype, depth)))

        def steps(first: PrimExpr) -> list[Stmt]:
            """`depth` steps from the first one, before or after all stages run. A loop, where each step is of the same stages."""
            ats = [analyzer.simplify(add(first, IntImm(dtype, k))) for k in range(depth)]
            if depth < 2 or not set(self.stages) <= {0, depth}:
                return [iteration(at, True) for at in ats]
            at = Var(loop.loop_var.name, dtype)
            analyzer.bind(at, Range.from_min_extent(first, IntImm(dtype, depth)))
            return [For(at, first, IntImm(dtype, depth), ForKind.SERIAL, iteration(at, True), None, kept, loop.span)]

        parts: list[Stmt] = steps(loop.min)
        length = analyzer.simplify(subtract(end, begin))
        if not (isinstance(length, IntImm) and length.value <= 0):
            var = Var(loop.loop_var.name, dtype)
            parts.append(
                For(var, begin, length, loop.kind, iteration(var, False), loop.thread_binding, kept, loop.span)
            )
        # If the loop is shorter than the pipeline, the prologue already ran some iterations.
        first = analyzer.simplify(end) if isinstance(length, IntImm) and length.value >= 0 else None
        if first is not None:
            # It runs once, and would be as long as the loop itself for each of its steps.
            parts += [rolled(step) for step in steps(first)]
        else:
            for k in range(depth):
                at = analyzer.simplify(add(end, IntImm(dtype, k)))
                parts.append(_only_if(analyzer.simplify(at >= begin), iteration(at, True)))
        allocated = tuple([versions[b][0] if b in versions else b for b in self.buffers])
        block = Block((), (), (), f"{self.name}_pipeline", stmt_seq(*parts), None, allocated)
        return BlockRealize((), const_true(), block)


def _only_if(condition: PrimExpr, s: Stmt) -> Stmt:
    if isinstance(condition, IntImm):
        return s if condition.value else stmt_seq()
    return IfThenElse(condition, s)


def _names(data: set[Var]) -> str:
    return ", ".join(sorted(v.name for v in data))


class _Inject(Mutator):
    def __init__(self) -> None:
        self.numbers = itertools.count()

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(For)
    def _for(self, s: For) -> Stmt:
        new = self.rebuild(s)
        return _Pipeline(new).build(self.numbers) if _is_marked(s) else new


def _is_marked(s: Stmt) -> bool:
    return isinstance(s, For) and (STAGE in s.annotations or ORDER in s.annotations)


def InjectSoftwarePipeline() -> Pass:
    """Turn loops that are annotated software_pipeline_stage and software_pipeline_order into prologue, pipelined loop
    and epilogue.

    Statement k of the body runs `stage[k]` iterations late, at place `order[k]`. Buffers that live from one stage to
    another get one version for each iteration that they span. Raises TVMError if the results would change.
    """

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        marked = any_stmt(func.body, _is_marked)
        return convert_ssa(func.replace(body=_Inject().visit(func.body))) if marked else func

    made: Pass = prim_func_pass(run, name="tir.InjectSoftwarePipeline", gives=("no_pipelines",))
    return made
