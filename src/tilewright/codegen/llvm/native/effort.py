"""Choice of LLVM's level of optimisation: low for programs whose loops are explicit vectors in registers already."""

from __future__ import annotations

from tilewright.ir import IntImm, IRModule
from tilewright.node import Visitor, any_node, on
from tilewright.tir import (
    Allocate,
    Block,
    BufferLoad,
    BufferStore,
    Call,
    For,
    ForKind,
    Let,
    LetStmt,
    PrimFunc,
    Var,
    While,
)
from tilewright.tir.stmt_functor import used_vars

PAIRED = ("llvm.arm.smlad", "llvm.arm.smlab", "llvm.arm.smlat", "llvm.arm.mve.vmldava")
"""Begins of the names of multiply-adds to general registers. Their loops are scheduled for these few registers: LLVM's whole pipeline
would merge loads of several steps, for whose values there are none."""
WHOLE, SHORT, NONE = 3, 2, 1
"""Levels of `target_machine.optimise`: LLVM's whole pipeline; the passes that move memory at constant places to registers; no pass."""


class _Loops(Visitor):
    """Looks for code that LLVM can make faster: scalar loops, which it may vectorise, and sums in memory.

    summed: local buffers that loops add to. moving: buffers that a loop accesses at a place that depends on its variable; these cannot be
    kept in registers.
    """

    def __init__(self) -> None:
        self.running: set[Var] = set()
        self.local: set[Var] = set()
        self.summed: set[Var] = set()
        self.moving: set[Var] = set()
        self.scalars = False
        self.paired = False

    @property
    def found(self) -> bool:
        return self.scalars or not self.summed.isdisjoint(self.moving)

    @on(Call)
    def _call(self, e: Call) -> None:
        if e.intrinsic == "call_llvm_pure_intrin" and str(getattr(e.args[0], "value", "")).startswith(PAIRED):
            self.paired = True
        self.visit_children(e)

    @on(For)
    def _for(self, s: For) -> None:
        single = isinstance(s.extent, IntImm) and s.extent.value == 1
        if single or s.kind == ForKind.UNROLLED:
            self.visit(s.body)
            return
        self.running.add(s.loop_var)
        self.visit(s.body)
        self.running.discard(s.loop_var)

    @on(While, Block)
    def _other(self, s: While | Block) -> None:
        self.scalars = True

    @on(LetStmt, Let)
    def _let(self, s: LetStmt | Let) -> None:
        self.visit(s.value)
        if not self.running.isdisjoint(used_vars(s.value)):
            self.running.add(s.var)
        self.visit(s.body)

    @on(Allocate)
    def _allocate(self, s: Allocate) -> None:
        self.local.add(s.buffer_var)
        self.visit(s.body)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self.visit_children(e)
        self._moves(e)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self.visit_children(s)
        if not self.running or self.scalars:
            return
        if s.value.dtype.lanes == 1:
            self.scalars = True
            return
        moves = self._moves(s)
        if any_node(s.value, lambda e: isinstance(e, BufferLoad) and e.buffer.data is s.buffer.data):
            self.summed.add(s.buffer.data)
            self.scalars = moves or s.buffer.data not in self.local

    def _moves(self, access: BufferLoad | BufferStore) -> bool:
        """Whether the place of an access depends on a loop."""
        if all([self.running.isdisjoint(used_vars(i)) for i in access.indices]):
            return False
        self.moving.add(access.buffer.data)
        return True


def effort(mod: IRModule) -> int:
    """The level at which the lowered functions of a module are worth optimising."""
    loops = _Loops()
    for func in mod.functions.values():
        if isinstance(func, PrimFunc):
            loops.visit(func.body)
    return WHOLE if loops.found and not loops.paired else SHORT
