"""LowerWarpMemory: distributes storage of a warp over the registers of its threads. Threads read them by
shuffles.
"""

from __future__ import annotations

from typing import Any

from tilewright.arith import Analyzer, detect_linear_equation
from tilewright.ir import IntImm, IRModule, PointerType, PrimExpr, Range
from tilewright.ir.transform import Pass, PassContext
from tilewright.node import Mutator, Visitor, on
from tilewright.script.underline import located
from tilewright.support.errors import TVMError
from tilewright.tir.arithmetic import floordiv, floormod
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, IterVar, Ramp, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.op import call_intrin
from tilewright.tir.stmt import Allocate, AttrStmt, BufferStore, Evaluate, For, Stmt
from tilewright.tir.transform.base import call_name, prim_func_pass
from tilewright.tir.transform.thread.thread_sync import scope_of

_REGISTERS = {
    "ptx_ldmatrix": (3,), "mma_fill": (1,), "mma_store": (3,), "ptx_mma": (6, 8, 10), "ptx_wgmma": (14,),
    "ptx_wgmma_rs": (4, 11), "ptx_wgmma_fence": (0,), "ptx_wgmma_wait_group": (1,),
}  # fmt: skip
"""Instruction on the registers of a warp -> which arguments are storage; the offset of the thread's elements follows each of them."""


class _Stores(Visitor):
    """The number of consecutive elements that each thread writes: the factor of the thread's number in stores."""

    def __init__(self, data: Var, lane: Var) -> None:
        self.data, self.lane = data, lane
        self.strides: set[int] = set()
        self.wrong: str | None = None

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self.visit(s.value)
        if s.buffer.data is not self.data:
            return
        index = s.indices[0]
        self._at(index.base if isinstance(index, Ramp) else index)

    def _at(self, index: PrimExpr) -> None:
        form = detect_linear_equation(index, [self.lane]) if index.dtype.lanes == 1 else []
        if form and isinstance(form[0], IntImm) and form[0].value > 0:
            self.strides.add(form[0].value)
        else:
            self.wrong = f"a store's index {index} is not linear in {self.lane.name}"

    @on(Call)
    def _call(self, e: Call) -> None:
        for at in _REGISTERS.get(e.intrinsic, ()):
            if e.args[at] is self.data:
                self._at(e.args[at + 1])
        self.visit_children(e)


class _Registers(Mutator):
    """Maps accesses of one warp's storage to registers: element (y * width + lane) * part + x is register y * part + x of that lane."""

    def __init__(self, data: Var, new: Var, lane: Var, width: int, part: int, warp: int, analyzer: Analyzer) -> None:
        self.data, self.new, self.lane = data, new, lane
        self.width, self.part, self.warp, self.analyzer = width, part, warp, analyzer
        self.buffers: dict[Buffer, Buffer] = {}

    @on(For)
    def _for(self, s: For) -> Stmt:
        if isinstance(s.extent, IntImm):
            self.analyzer.bind(s.loop_var, Range.from_min_extent(s.min, s.extent), allow_override=True)
        return self.rebuild(s)

    def _buffer(self, b: Buffer) -> Buffer:
        if b not in self.buffers:
            size = floordiv(b.shape[0], IntImm(b.shape[0].dtype, self.width))
            self.buffers[b] = b.replace(data=self.new, shape=(size,))
        return self.buffers[b]

    def _split(self, index: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        """(register, lane) of an element."""

        def number(value: int) -> IntImm:
            return IntImm(index.dtype, value)

        simplify = self.analyzer.simplify
        lane = simplify(floormod(floordiv(index, number(self.part)), number(self.width)))
        high = floordiv(index, number(self.part * self.width))
        register = simplify(high * self.part + floormod(index, number(self.part)))
        return register, lane

    def _vector(self, index: PrimExpr, s: BufferLoad | BufferStore) -> tuple[PrimExpr, PrimExpr]:
        """(registers, lane) of the elements of a scalar or of a vector, which must be neighbours within one lane's part."""
        if not isinstance(index, Ramp):
            return self._split(index)
        register, lane = self._split(index.base)
        inside = self.analyzer.simplify(floormod(index.base, IntImm(index.base.dtype, self.part)))
        known = self.analyzer.const_int_bound(inside)
        run = isinstance(index.stride, IntImm) and index.stride.value == 1
        if not run or known.max_value + index.lanes > self.part:
            raise TVMError(
                located(
                    f"LowerWarpMemory: the vector {s.buffer.name}[{index}] is not within the {self.part} elements of a thread",
                    s,
                )
            )
        return Ramp(register, index.stride, index.lanes), lane

    def _own(self) -> PrimExpr:
        return self.analyzer.simplify(floormod(self.lane, IntImm(self.lane.dtype, self.width)))

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        if s.buffer.data is not self.data:
            return self.rebuild(s)
        register, lane = self._vector(s.indices[0], s)
        if not self.analyzer.can_prove_equal(lane, self._own()):
            raise TVMError(
                located(
                    f"LowerWarpMemory: {s.buffer.name}[{s.indices[0]}] is written by a thread that does not own it;"
                    f" thread {self.lane.name} of a warp must write elements {self.part} * {self.lane.name} + x",
                    s,
                )
            )
        return BufferStore(self._buffer(s.buffer), self.visit(s.value), (register,), s.predicate, s.span)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> PrimExpr:
        if e.buffer.data is not self.data:
            return self.rebuild(e)
        register, lane = self._vector(self.visit(e.indices[0]), e)
        mine = BufferLoad(self._buffer(e.buffer), (register,))
        if self.analyzer.can_prove_equal(lane, self._own()):
            return mine
        if e.indices[0].dtype.lanes != 1:
            raise TVMError(
                located(
                    f"LowerWarpMemory: {e.buffer.name} is read as a vector of another thread; read its elements one by one",
                    e,
                )
            )
        form = detect_linear_equation(register, [self.lane])
        if not form or not isinstance(form[0], IntImm) or form[0].value:
            raise TVMError(
                located(
                    f"LowerWarpMemory: {e.buffer.name}[{e.indices[0]}] lies in register {register}, which differs between"
                    " threads; a shuffle reads the same register of another thread",
                    e,
                )
            )
        mask = call_intrin("uint32", "tir.tvm_warp_activemask")
        lane32 = lane.astype("int32")
        return call_intrin(
            e.dtype, "tir.tvm_warp_shuffle", mask, mine, lane32, IntImm("int32", self.width), IntImm("int32", self.warp)
        )

    @on(Call)
    def _call(self, e: Call) -> PrimExpr:
        """Instructions on registers take the thread's own elements."""
        places = [at for at in _REGISTERS.get(e.intrinsic, ()) if e.args[at] is self.data]
        if not places:
            return self.rebuild(e)
        args = list(e.args)
        for at in places:
            register, lane = self._split(args[at + 1])
            if not self.analyzer.can_prove_equal(lane, self._own()):
                raise TVMError(
                    located(
                        f"LowerWarpMemory: {e.intrinsic} is given element {args[at + 1]} of {self.data.name}, which thread"
                        f" {self.lane.name} of the warp does not own",
                        e,
                    )
                )
            args[at], args[at + 1] = self.new, register
        return Call(e.dtype, e.op, tuple([a if a is self.new else self.visit(a) for a in args]), e.span)

    @on(Var)
    def _var(self, v: Var) -> Var:
        if v is self.data:
            raise TVMError(located(f"LowerWarpMemory: the address of {v.name} is taken, but registers have none", v))
        return v


class _Lower(Mutator):
    def __init__(self, warp: int) -> None:
        self.warp = warp
        self.lane: tuple[Var, int] | None = None
        self.analyzer = Analyzer()

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        axis = s.node
        if s.attr_key == "thread_extent" and isinstance(axis, IterVar) and isinstance(s.value, IntImm):
            whole = Range.from_min_extent(IntImm(axis.var.dtype, 0), s.value)
            self.analyzer.bind(axis.var, whole, allow_override=True)
            if axis.thread_tag == "threadIdx.x":
                self.lane = (axis.var, s.value.value)
        return self.rebuild(s)

    @on(Evaluate)
    def _evaluate(self, s: Evaluate) -> Stmt:
        # Shuffles synchronise by themselves.
        warp_barrier = call_name(s.value) == "tvm_storage_sync" and getattr(s.value.args[0], "value", "") == "warp"  # type: ignore[attr-defined]
        return Evaluate(IntImm("int32", 0)) if warp_barrier else s

    @on(Allocate)
    def _allocate(self, s: Allocate) -> Stmt:
        if scope_of(s.buffer_var) != "warp":
            return self.rebuild(s)
        body = self.visit(s.body)
        name = s.buffer_var.name
        if self.lane is None:
            raise TVMError(
                located(
                    f"LowerWarpMemory: {name} is storage of a warp, but no threadIdx.x of constant extent is around it",
                    s,
                )
            )
        lane, extent = self.lane
        width = min(extent, self.warp)
        if self.warp % width or extent % width:
            raise TVMError(
                located(
                    f"LowerWarpMemory: the extent {extent} of threadIdx.x and the warp's {self.warp} threads must divide one another",
                    s,
                )
            )
        look = _Stores(s.buffer_var, lane)
        look.visit(body)
        if look.wrong or len(look.strides) != 1:
            found = look.wrong or f"its stores give each thread {sorted(look.strides)} elements in a row"
            raise TVMError(
                located(
                    f"LowerWarpMemory: {name} must be written in one pattern, elements part * thread + x, but {found}",
                    s,
                )
            )
        part = look.strides.pop()
        size = s.extents[0] if len(s.extents) == 1 else None
        if not isinstance(size, IntImm) or size.value % (width * part):
            raise TVMError(
                located(
                    f"LowerWarpMemory: the size of {name} must be a multiple of {width * part}, but is {s.extents}", s
                )
            )
        kind: Any = s.buffer_var.type_annotation
        new = Var(name, PointerType(kind.element_type, "local"))
        walk = _Registers(s.buffer_var, new, lane, width, part, self.warp, self.analyzer)
        return s.replace(buffer_var=new, extents=(IntImm(size.dtype, size.value // width),), body=walk.visit(body))


def LowerWarpMemory() -> Pass:
    """Replace storage of scope "warp" by registers, and by shuffles if a thread reads another thread's part. Needs flat
    buffers.

    The target's attribute `thread_warp_size` gives the size of a warp (32 without a target). Barriers of the warp are
    removed.
    """

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        target = func.attrs.get("target")
        warp = int(getattr(target, "attrs", {}).get("thread_warp_size", 32)) if target is not None else 32
        return func.replace(body=_Lower(warp).visit(func.body))

    made: Pass = prim_func_pass(run, name="tir.LowerWarpMemory", needs=("flat_buffers",), gives=("no_warp_memory",))
    return made
