"""ForceNarrowIndexToInt32: converts index arithmetic from 64 bits to 32 bits, without checks of sizes."""

from __future__ import annotations

from tilewright.ir import DataType, IntImm, IRModule, PrimExpr
from tilewright.ir.transform import Pass, PassContext
from tilewright.node import mutate_tuple, on
from tilewright.support.errors import TVMError
from tilewright.tir.arithmetic import cast_to
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Call, Cast, IterVar, Let, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import Allocate, AllocateConst, Block, For, LetStmt, Stmt
from tilewright.tir.substitution import BufferMutator
from tilewright.tir.transform.base import prim_func_pass

WIDE, NARROW = DataType("int64"), DataType("int32")


def _narrow(dtype: DataType) -> DataType:
    return NARROW.with_lanes(dtype.lanes) if dtype.element is WIDE else dtype


class _Force(BufferMutator):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.env: dict[Var, Var] = {}

    def rewrite_buffer(self, buffer: Buffer) -> Buffer:
        if buffer.dtype.element is WIDE:
            raise TVMError(
                f"ForceNarrowIndexToInt32: buffer {buffer.name} of {self.name} holds int64, which only its values can"
                " justify narrowing; narrow its type first"
            )
        return super().rewrite_buffer(buffer)

    @on(Var)
    def _var(self, v: Var) -> Var:
        if v.dtype.element is not WIDE:
            return v
        if v not in self.env:
            self.env[v] = type(v)(v.name, _narrow(v.dtype))
        return self.env[v]

    @on(IntImm)
    def _int(self, e: IntImm) -> IntImm:
        if e.dtype is not WIDE:
            return e
        if not -(2**31) <= e.value < 2**31:
            raise TVMError(f"ForceNarrowIndexToInt32: {self.name} uses {e.value}, which int32 does not hold")
        return IntImm(NARROW, e.value)

    @on(Cast)
    def _cast(self, e: Cast) -> PrimExpr:
        value: PrimExpr = self.visit(e.value)
        return e if value is e.value and e.dtype.element is not WIDE else cast_to(value, _narrow(e.dtype))

    @on(Call)
    def _call(self, e: Call) -> Call:
        args, dtype = mutate_tuple(self.visit, e.args), _narrow(e.dtype)
        return e if args is e.args and dtype is e.dtype else Call(dtype, e.op, args, e.span)

    @on(IterVar)
    def _axis(self, axis: IterVar) -> IterVar:
        dom = None if axis.dom is None else self.visit(axis.dom)
        var = self.visit(axis.var)
        return (
            axis
            if dom is axis.dom and var is axis.var
            else IterVar(dom, var, axis.iter_type, axis.thread_tag, axis.span)
        )

    @on(For)
    def _for(self, s: For) -> Stmt:
        thread = None if s.thread_binding is None else self.visit(s.thread_binding)
        return s.replace(
            loop_var=self.visit(s.loop_var), min=self.visit(s.min), extent=self.visit(s.extent), body=self.visit(s.body),
            thread_binding=thread,
        )  # fmt: skip

    @on(LetStmt, Let)
    def _let(self, s: LetStmt | Let) -> Stmt | PrimExpr:
        return s.replace(var=self.visit(s.var), value=self.visit(s.value), body=self.visit(s.body))

    @on(Allocate, AllocateConst)
    def _allocate(self, s: Allocate | AllocateConst) -> Stmt:
        if s.dtype.element is WIDE:
            raise TVMError(f"ForceNarrowIndexToInt32: {s.buffer_var.name} of {self.name} is allocated as {s.dtype}")
        return self.rebuild(s)

    @on(Block)
    def _block(self, block: Block) -> Block:
        axes = mutate_tuple(self.visit, block.iter_vars)
        alloc = mutate_tuple(self.visit, block.alloc_buffers)
        matches = tuple(
            [m.replace(buffer=self.visit(m.buffer), source=self.visit(m.source)) for m in block.match_buffers]
        )
        new = self.rebuild(block.replace(match_buffers=(), alloc_buffers=(), iter_vars=()))
        return new.replace(iter_vars=axes, alloc_buffers=alloc, match_buffers=matches)


def ForceNarrowIndexToInt32() -> Pass:
    """Convert loops, shapes and index arithmetic from int64 to int32. Raises TVMError for buffers of int64 and for
    large constants.
    """

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        walk = _Force(str(func.attrs.get("global_symbol", "the function")))
        buffers = {p: walk.visit(b) for p, b in func.buffer_map.items()}
        params = tuple([walk.visit(p) for p in func.params])
        return func.replace(params=params, buffer_map=buffers, body=walk.visit(func.body))

    made: Pass = prim_func_pass(run, name="tir.ForceNarrowIndexToInt32", gives=("no_int64",))
    return made
