"""Arithmetic as micro-ops, and loops as those of an instruction."""

from __future__ import annotations

from tilewright.ir import PrimExpr
from tilewright.ir.transform import Pass
from tilewright.node import Mutator, Visitor, on, structural_equal
from tilewright.support.errors import TVMError
from tilewright.tir import AttrStmt, BufferLoad, BufferStore, Call, Evaluate, For, IntImm, SeqStmt, Stmt, StringImm
from tilewright.tir.stmt import stmt_seq
from tilewright.tir.substitution import substitute
from tilewright.tir.transform.base import body_pass
from tilewright.vta.compiler.arithmetic import plan
from tilewright.vta.compiler.elements import inner_loops, pointed
from tilewright.vta.compiler.grids import coefficient
from tilewright.vta.compiler.nests import Nest, nest_of
from tilewright.vta.environment import get_env
from tilewright.vta.isa.tables import ALU_OPS
from tilewright.vta.names import ACC_SCOPE, LOOP_BEGIN, LOOP_END, PUSH, UOP_SCOPE
from tilewright.vta.transform.calls import address, around, called, has_pragma, in_unit, lanes_of, name_called


class _AluScopes(Mutator):
    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        if has_pragma(s, "skip_alu"):
            return Evaluate(IntImm("int32", 0))
        if not has_pragma(s, "alu"):
            return self.rebuild(s)
        dev = get_env().dev
        inner = AttrStmt(dev.vta_axis, UOP_SCOPE, StringImm("VTAPushALUOp"), s)
        return in_unit(dev.QID_COMPUTE, inner)


def AnnotateALUCoProcScope() -> Pass:
    """Put arithmetic under the pragma `Environment.alu` into the scope of the compute unit and of micro-ops, and leave out what is under
    "skip_alu"."""
    return body_pass("vta.AnnotateALUCoProcScope", lambda f: _AluScopes().visit(f.body))


class _Arithmetic(Mutator):
    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        return self._micro_ops(s.body) if has_pragma(s, "alu") else self.rebuild(s)

    def _micro_ops(self, body: Stmt) -> Stmt:
        nest = nest_of(body, {})
        s = None if nest is None else nest.inside
        if nest is None or not isinstance(s, BufferStore) or s.buffer.scope() != ACC_SCOPE:
            raise TVMError(
                f"InjectALUIntrin: under the pragma alu there are loops around a store to accumulators, but here is\n{body}"
            )
        dropped = inner_loops(nest.loops, nest.conditions, s, lanes_of("acc"))
        if not dropped and lanes_of("acc") > 1:
            raise TVMError(
                f"InjectALUIntrin: a step is of whole elements, their numbers innermost, but not this one:\n{s}"
            )
        return _steps(nest, dropped, s)


def _steps(nest: Nest, dropped: int, s: BufferStore) -> Stmt:
    """A nest of micro-ops for each operation of a store."""
    dst = address(s.buffer, s.indices[0], "rw")

    def push(name: str, operand: BufferLoad | int) -> Stmt:
        constant = isinstance(operand, int)
        if constant and not -(1 << 15) <= operand < 1 << 15:
            raise TVMError(f"InjectALUIntrin: constants have 16 bits, but this is to {name} {operand}")
        src = dst if isinstance(operand, int) else address(operand.buffer, operand.indices[0], "r")
        code = (ALU_OPS.index(name), int(constant), operand if constant else 0)
        return around(nest, dropped, called(PUSH, 1, 0, dst, src, 0, *code))

    def own(load: BufferLoad) -> bool:
        return load.buffer.data is s.buffer.data and structural_equal(load.indices, s.indices)

    todo = plan(s.value, own)
    parts = []
    if isinstance(todo.base, int) or not own(todo.base):
        parts.append(around(nest, dropped, called(PUSH, 0, 1, dst, 0, 0, 0, 0, 0)))
        if todo.base != 0:
            parts.append(push("add", todo.base))
    parts += [push(name, operand) for name, operand in todo.operations]
    return stmt_seq(*parts) if parts else Evaluate(IntImm("int32", 0))


def InjectALUIntrin() -> Pass:
    """Replace arithmetic of accumulators under the pragma `Environment.alu` by calls of VTAUopPush(mode, reset, dst, src, wgt, opcode,
    use_imm, imm). TVMError for what the ALU cannot compute."""
    return body_pass("vta.InjectALUIntrin", lambda f: _Arithmetic().visit(f.body))


class _Pushes(Visitor):
    """The micro-ops of a statement; None where there is something else."""

    def __init__(self) -> None:
        self.found: list[Call] | None = []

    @on(For)
    def _for(self, s: For) -> None:
        self.visit(s.body)

    @on(SeqStmt)
    def _seq(self, s: SeqStmt) -> None:
        for part in s.seq:
            self.visit(part)

    @on(Stmt)
    def _other(self, s: Stmt) -> None:
        if name_called(s) == PUSH and self.found is not None:
            self.found.append(s.value)  # type: ignore[attr-defined]
        else:
            self.found = None


def _factors(calls: list[Call], s: For) -> list[int] | None:
    """What each trip of a loop adds to dst, src and wgt of micro-ops, in elements; None where that is not the same for all."""
    found = set()
    for call in calls:
        product = isinstance(call.args[1], IntImm) and call.args[1].value == 0
        steps = []
        for pointer, memory in zip(call.args[3:6], ("acc", "inp" if product else "acc", "wgt"), strict=True):
            by = coefficient(pointed(pointer)[1], s.loop_var) if isinstance(pointer, Call) else 0
            if by is None or by < 0 or by % lanes_of(memory):
                return None
            steps.append(by // lanes_of(memory))
        found.add(tuple(steps))
    return list(found.pop()) if len(found) == 1 else None


class _Fold(Mutator):
    def __init__(self) -> None:
        self.left = 0

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        if s.attr_key != UOP_SCOPE:
            return self.rebuild(s)
        self.left = 2
        made = self.rebuild(s)
        self.left = 0
        return made

    @on(SeqStmt)
    def _seq(self, s: SeqStmt) -> Stmt:
        left, parts = self.left, []
        for part in s.seq:
            self.left = left
            parts.append(self.visit(part))
        self.left = left
        return stmt_seq(*parts)

    @on(For)
    def _for(self, s: For) -> Stmt:
        look = _Pushes()
        look.visit(s.body)
        if not self.left or not look.found or not isinstance(s.extent, IntImm):
            return self.rebuild(s)
        factors = _factors(look.found, s)
        if factors is None:
            return s
        self.left -= 1
        body = self.visit(substitute(s.body, {s.loop_var: s.min}))
        self.left += 1
        return stmt_seq(called(LOOP_BEGIN, s.extent, *factors), body, called(LOOP_END))


def FoldUopLoop() -> Pass:
    """Make the two outer loops around the micro-ops of an instruction ("coproc_uop_scope") its own: VTAUopLoopBegin(extent, and what a
    trip adds to dst, src and wgt) and VTAUopLoopEnd()."""
    return body_pass("vta.FoldUopLoop", lambda f: _Fold().visit(f.body))


__all__ = ["AnnotateALUCoProcScope", "FoldUopLoop", "InjectALUIntrin"]
