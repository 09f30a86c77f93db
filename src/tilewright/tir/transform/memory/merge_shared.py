"""MergeSharedMemoryAllocations: makes the dynamic shared memory of a kernel one allocation, as a kernel launch
requires.
"""

from __future__ import annotations

from typing import Any

from tilewright.ir import DataType, IntImm, IRModule, PointerType, PrimExpr, PrimType
from tilewright.ir.transform import Pass, PassContext
from tilewright.node import Mutator, Visitor, mutate_tuple, on
from tilewright.script.underline import located
from tilewright.support.errors import TVMError
from tilewright.tir.arithmetic import add, const_true
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Ramp, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import Allocate, AttrStmt, BufferStore, Evaluate, Stmt
from tilewright.tir.transform.base import call_name, prim_func_pass
from tilewright.tir.transform.thread.thread_sync import scope_of

SCOPE, ALIGN = "shared.dyn", 16
SWIZZLED = 1024
"""Bytes after which the swizzles of copies of tiles and of products of warpgroups begin anew."""


class _Find(Visitor):
    def __init__(self) -> None:
        self.found: list[Allocate] = []
        self.align = ALIGN

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> None:
        pass

    @on(Evaluate)
    def _evaluate(self, s: Evaluate) -> None:
        if call_name(s.value) in ("ptx_tma_load", "ptx_wgmma", "ptx_wgmma_rs"):
            self.align = SWIZZLED

    @on(Allocate)
    def _allocate(self, s: Allocate) -> None:
        if scope_of(s.buffer_var) == SCOPE:
            self.found.append(s)
        self.visit(s.body)


_ADDRESSES = {"tvm_access_ptr": 1, "ptx_cp_async": 0, "ptx_cp_async_bulk": 0, "ptx_ldmatrix": 5}
"""Intrinsic -> which argument is an address in shared memory; the offset follows it."""


class _Move(Mutator):
    """Redirects accesses of merged storage to its part, by adding the offset."""

    def __init__(self, data: Var, offsets: dict[Var, int], total: int) -> None:
        self.data, self.offsets, self.total = data, offsets, total
        self.buffers: dict[Buffer, Buffer] = {}

    def _access(self, b: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[Buffer, tuple[PrimExpr, ...]]:
        size = b.dtype.bytes * b.dtype.lanes
        if b not in self.buffers:
            self.buffers[b] = b.replace(data=self.data, shape=(IntImm(b.shape[0].dtype, self.total // size),))
        at = mutate_tuple(self.visit, indices)[0]
        by = IntImm(at.dtype.element, self.offsets[b.data] // size)
        moved = Ramp(add(at.base, by), at.stride, at.lanes) if isinstance(at, Ramp) else add(at, by)
        return self.buffers[b], (moved,)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> PrimExpr:
        if e.buffer.data not in self.offsets:
            return self.rebuild(e)
        return BufferLoad(*self._access(e.buffer, e.indices), e.predicate, e.span)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        if s.buffer.data not in self.offsets:
            return self.rebuild(s)
        buffer, indices = self._access(s.buffer, s.indices)
        return BufferStore(buffer, self.visit(s.value), indices, s.predicate, s.span)

    @on(Call)
    def _call(self, e: Call) -> Any:
        """Calls that take an address and an offset behind it, in elements."""
        at, dtype = _ADDRESSES.get(e.intrinsic, -1), e.dtype
        data = e.args[at] if at >= 0 else None
        if not isinstance(data, Var) or data not in self.offsets:
            return self.rebuild(e)
        if e.intrinsic == "tvm_access_ptr":
            dtype = e.args[0].dtype
        size = dtype.bytes * dtype.lanes
        if not size or self.offsets[data] % size:
            return self.rebuild(e)
        args = [*mutate_tuple(self.visit, e.args[:at]), self.data, *mutate_tuple(self.visit, e.args[at + 1 :])]
        args[at + 1] = add(args[at + 1], IntImm(args[at + 1].dtype, self.offsets[data] // size))
        return Call(e.dtype, e.op, tuple(args), e.span)

    @on(Allocate)
    def _allocate(self, s: Allocate) -> Stmt:
        return self.visit(s.body) if s.buffer_var in self.offsets else self.rebuild(s)

    @on(Var)
    def _var(self, v: Var) -> Var:
        if v in self.offsets:
            raise TVMError(
                located(f"MergeSharedMemoryAllocations: the address of {v.name} is taken; use its elements instead", v)
            )
        return v


class _Kernels(Mutator):
    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        return self._merge(s) if s.attr_key == "thread_extent" else self.rebuild(s)

    @staticmethod
    def _merge(s: AttrStmt) -> Stmt:
        look = _Find()
        look.visit(s)
        if len(look.found) < 2:
            return s
        offsets: dict[Var, int] = {}
        total = 0
        for a in look.found:
            size = a.dtype.bytes * a.dtype.lanes
            for e in a.extents:
                if not isinstance(e, IntImm):
                    raise TVMError(
                        located(
                            f"MergeSharedMemoryAllocations: the size of {a.buffer_var.name} is {a.extents}; it must be constant",
                            a,
                        )
                    )
                size *= e.value
            offsets[a.buffer_var] = total
            total += -(-size // look.align) * look.align
        data = Var("buf_dyn_shmem", PointerType(PrimType(DataType("uint8")), SCOPE))
        axes: list[AttrStmt] = []
        body: Stmt = s
        while isinstance(body, AttrStmt) and body.attr_key == "thread_extent":
            axes.append(body)
            body = body.body
        out: Stmt = _Move(data, offsets, total).visit(body)
        out = Allocate(data, DataType("uint8"), (IntImm("int32", total),), const_true(), out)
        for axis in reversed(axes):
            out = axis.replace(body=out)
        return out


def MergeSharedMemoryAllocations() -> Pass:
    """Merge the allocations of scope "shared.dyn" in a kernel into one, with parts aligned to 16 bytes, to 1024 if
    tiles are swizzled in it. Needs flat buffers.
    """

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        return func.replace(body=_Kernels().visit(func.body))

    made: Pass = prim_func_pass(run, name="tir.MergeSharedMemoryAllocations", needs=("flat_buffers",))
    return made
