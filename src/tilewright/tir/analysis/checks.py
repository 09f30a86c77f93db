"""Accesses that leave their buffer, functions without effects, the block that a module is about."""

from __future__ import annotations

from typing import Any

from tilewright.arith import Analyzer
from tilewright.arith.intervals import eval_set
from tilewright.ir import IRModule, PrimExpr, Range
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.node import Visitor, on
from tilewright.script.underline import located
from tilewright.support.errors import TVMError
from tilewright.tir.expr import BufferLoad, Call, Let, Select, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.op import UPDATES, call_effect
from tilewright.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    Block,
    BlockRealize,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
)


class _OutOfBounds(Visitor):
    """Indices that are out of bounds in some iteration of the loops; under conditions, only those that always are."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.domains: dict[Var, Any] = {}
        self.conditions = 0
        self.found: list[str] = []

    @on(For)
    def _for(self, s: For) -> None:
        domain = Range.from_min_extent(s.min, s.extent)
        self.domains[s.loop_var] = domain
        self.analyzer.bind(s.loop_var, domain, allow_override=True)
        self.visit(s.body)

    @on(BlockRealize)
    def _realize(self, s: BlockRealize) -> None:
        for axis, value in zip(s.block.iter_vars, s.iter_values, strict=True):
            self.domains[axis.var] = eval_set(value, self.domains, self.analyzer)
            if axis.dom is not None:
                self.analyzer.bind(axis.var, axis.dom, allow_override=True)
        limited = not (hasattr(s.predicate, "value") and s.predicate.value)
        self._under(limited, s.block)

    @on(Block)
    def _block(self, b: Block) -> None:
        if b.init is not None:
            self.visit(b.init)
        self.visit(b.body)

    @on(LetStmt, Let)
    def _let(self, s: LetStmt | Let) -> None:
        self.visit(s.value)
        if s.var.dtype.is_int:
            self.domains[s.var] = eval_set(s.value, self.domains, self.analyzer)
        self.visit(s.body)

    def _under(self, limited: bool, *parts: Any) -> None:
        self.conditions += limited
        for part in parts:
            if part is not None:
                self.visit(part)
        self.conditions -= limited

    @on(IfThenElse)
    def _if(self, s: IfThenElse) -> None:
        self.visit(s.condition)
        self._under(True, s.then_case, s.else_case)

    @on(While, AssertStmt)
    def _while(self, s: While | AssertStmt) -> None:
        self._under(True, s.body)

    @on(Call)
    def _call(self, e: Call) -> None:
        lazy = getattr(e.op, "name", "") in ("tir.if_then_else", "tir.address_of")
        self._under(lazy, *e.args)

    @on(Select)
    def _select(self, e: Select) -> None:
        self.visit(e.condition)
        self._under(True, e.true_value, e.false_value)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self._check(e, "read")
        self.visit_children(e)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self._check(s, "write")
        self.visit_children(s)

    def _check(self, a: BufferLoad | BufferStore, what: str) -> None:
        for k, (index, dim) in enumerate(zip(a.indices, a.buffer.shape, strict=True)):
            if index.dtype.lanes != 1:
                continue
            if self.conditions:
                wrong = self._proves(index < 0) or self._proves(index >= dim)
            else:
                reach = eval_set(index, self.domains, self.analyzer)
                wrong = (reach.has_lower_bound() and self._proves(reach.min_value < 0)) or (
                    reach.has_upper_bound() and self._proves(reach.max_value >= dim)
                )
            if wrong:
                text = (
                    f"{what} of {a.buffer.name}[{', '.join([str(i) for i in a.indices])}]: dimension {k} has {dim}"
                    f" elements, but the index {index} leaves 0..{self.analyzer.simplify(dim - 1)}"
                )
                self.found.append(located(text, a))

    def _proves(self, condition: PrimExpr) -> bool:
        return bool(self.analyzer.can_prove(condition))


def OOBChecker() -> Pass:
    """A pass that raises ValueError for accesses that are certainly out of bounds. It changes nothing."""

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        for gvar, func in mod.functions.items():
            if isinstance(func, PrimFunc):
                walk = _OutOfBounds()
                walk.visit(func.body)
                if walk.found:
                    raise ValueError(f"out of bounds memory access in {gvar.name_hint}:\n  " + "\n  ".join(walk.found))
        return mod

    return Pass(PassInfo(0, "tir.analysis.OOBChecker"), run)


class _Effects(Visitor):
    """Side effects of a function."""

    def __init__(self) -> None:
        self.own: set[Var] = set()
        self.found: list[str] = []

    @on(Allocate, AllocateConst)
    def _allocate(self, s: Allocate | AllocateConst) -> None:
        self.own.add(s.buffer_var)
        self.visit(s.body)

    @on(Block)
    def _block(self, b: Block) -> None:
        self.own.update([x.data for x in b.alloc_buffers])
        if b.init is not None:
            self.visit(b.init)
        self.visit(b.body)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        if e.buffer.data not in self.own:
            self.found.append(f"reads {e.buffer.name}, which others may change")
        self.visit_children(e)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        if s.buffer.data not in self.own:
            self.found.append(f"writes {s.buffer.name}")
        self.visit_children(s)

    @on(Call)
    def _call(self, e: Call) -> None:
        if call_effect(e) == UPDATES and getattr(e.op, "name", "") != "tir.ret":
            self.found.append(f"calls {getattr(e.op, 'name', e.op)}")
        self.visit_children(e)


def _effects(func: PrimFunc) -> list[str]:
    walk = _Effects()
    walk.visit(func.body)
    return walk.found


def is_pure_function(func: PrimFunc) -> bool:
    """Whether a function neither changes nor depends on anything but its scalar arguments."""
    return not _effects(func)


def assert_pure_function(func: PrimFunc) -> bool:
    """True for a pure function. Raises TVMError that names the first effect of any other."""
    found = _effects(func)
    if found:
        raise TVMError(f"{func.attrs.get('global_symbol', 'the function')} is not pure: it {found[0]}")
    return True


def find_anchor_block(mod: IRModule) -> Block | None:
    """The block that a module is about: of its reduction blocks the one with the most arithmetic; None without any."""
    from tilewright.tir.analysis.cost import estimate_tir_flops

    best: tuple[float, Block] | None = None

    class Reductions(Visitor):
        def __init__(self) -> None:
            self.loops: list[For] = []

        @on(For)
        def _for(self, s: For) -> None:
            self.loops.append(s)
            self.visit(s.body)
            self.loops.pop()

        @on(BlockRealize)
        def _realize(self, s: BlockRealize) -> None:
            nonlocal best
            if s.block.init is not None:
                nest: Stmt = s
                for f in reversed(self.loops):
                    nest = f.replace(body=nest)
                flops = estimate_tir_flops(nest)
                if best is None or flops > best[0]:
                    best = (flops, s.block)
            outer, self.loops = self.loops, [*self.loops]
            self.visit(s.block.body)
            self.loops = outer

    for func in mod.functions.values():
        if isinstance(func, PrimFunc):
            Reductions().visit(func.body)
    return None if best is None else best[1]
