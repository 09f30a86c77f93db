"""InjectWarpSpecialization: one warp copies the tiles of later steps of a product, while warpgroups multiply those of earlier ones.

A loop annotated warp_specialized = stages, in a kernel of W warpgroups (threadIdx.z), each of four warps (threadIdx.y) of 32 lanes
(threadIdx.x):

    z < W:                         -->   z < W + 1, barriers full[stages], empty[stages]
      for k:                               if z == W, one thread:
        A_shared = A[tile k]                 for k:
        B_shared = B[tile k]                   wait empty[s]; tell full[s] how many bytes come      s = k % stages
        C += A_shared * B_shared               A_shared[s] = A[tile k]; B_shared[s] = B[tile k]     by TMA
      D = C                                else:
                                             for k:
                                               wait full[s]; fence; C += A_shared[s] * B_shared[s]; commit
                                               wait for the products of step k - 1; arrive at empty[(k - 1) % stages]
                                             wait for all products
                                             D = C

Warpgroups may also lie along threadIdx.y, four warps each. Where a step has other statements besides one product (attention), each product
is waited for at once, and the place is free at the end of the step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any, NamedTuple

from tilewright.arith import Analyzer
from tilewright.ir import DataType, IntImm, PointerType, PrimExpr, PrimType
from tilewright.ir.transform import Pass
from tilewright.node import Mutator, nodes_of, on
from tilewright.support.errors import TVMError
from tilewright.tir.arithmetic import const_true, floordiv, floormod, logical_and
from tilewright.tir.builtin import (
    create_barriers,
    ptx_arrive_barrier,
    ptx_arrive_barrier_expect_tx,
    ptx_init_barrier_thread_count,
)
from tilewright.tir.expr import Call, IterVar, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import (
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
from tilewright.tir.stmt_functor import any_stmt, used_vars
from tilewright.tir.transform.base import body_pass, call_name
from tilewright.tir.transform.loop.software_pipeline import Versions
from tilewright.tir.transform.ssa import convert_ssa
from tilewright.tir.transform.thread.boxes import SWIZZLE, Copy, box_copy, inside, refused, sizes_text
from tilewright.tir.transform.thread.thread_sync import barrier
from tilewright.tir.warpgroups import (
    ptx_fence_barrier_init,
    ptx_setmaxnreg,
    ptx_tma_load,
    ptx_wait_barrier_parity,
    ptx_wgmma_commit_group,
    ptx_wgmma_fence,
    ptx_wgmma_wait_group,
    tensor_map,
)

SPECIALIZED = "warp_specialized"
"""Annotation of the loop: the number of stages."""
LANES, WARPS = 32, 4
PRODUCT_CALLS = ("ptx_wgmma", "ptx_wgmma_rs")
REGISTERS = {2: (40, 232), 3: (32, 160)}
"""Warpgroups that multiply -> registers of a thread of the warpgroup that copies, and of the others: together all that a multiprocessor
has."""


def _is_copy(s: Stmt) -> bool:
    """Whether a statement is the copy of a tile: its block says in which swizzle."""
    return any_stmt(s, lambda inner: isinstance(inner, Block) and SWIZZLE in inner.annotations)


def _all(conditions: Sequence[PrimExpr]) -> PrimExpr:
    return reduce(logical_and, conditions)


class _Kernel:
    """One kernel with a marked loop."""

    def __init__(self) -> None:
        self.axes: dict[str, AttrStmt] = {}
        self.analyzer = Analyzer()
        self.maps: dict[Var, Call] = {}

    def build(self, s: AttrStmt) -> Stmt:
        """The kernel, with the tensor maps around it."""
        attrs: list[AttrStmt] = []
        body: Any = s
        while isinstance(body, AttrStmt) and body.attr_key == "thread_extent":
            attrs.append(body)
            assert isinstance(body.node, IterVar)
            self.axes[body.node.thread_tag] = body
            body = body.body
        sizes = x, y, z = [self._extent(f"threadIdx.{a}") for a in "xyz"]
        if x != LANES or y % WARPS or not y or (y != WARPS and z):
            raise refused(
                f"a warpgroup is threadIdx.x of {LANES} and threadIdx.y of {WARPS}, but {sizes} was given; bind the warps of a warpgroup to"
                " threadIdx.y, and warpgroups to threadIdx.z",
                s,
            )
        self.threads = [axis.node.var for tag, axis in self.axes.items() if tag.startswith("threadIdx.")]
        self.lane = self.axes["threadIdx.x"].node.var
        # The axis along which there are warpgroups, and its steps from one to the next.
        along, step = ("threadIdx.z", 1) if z else ("threadIdx.y", WARPS)
        self.groups = z or y // WARPS
        self.copies_here = self.axes[along].node.var >= step * self.groups
        self.first_that_copies = [
            axis.node.var.equal(step * self.groups if tag == along else 0)
            for tag, axis in self.axes.items()
            if tag.startswith("threadIdx.")
        ]
        made = self._body(body)
        for attr in reversed(attrs):
            value = attr.value
            if attr.node.thread_tag == along:
                value = IntImm(value.dtype, step * (self.groups + 1))
            made = AttrStmt(attr.node, attr.attr_key, value, made, attr.span)
        for var, call in reversed(self.maps.items()):
            made = LetStmt(var, call, made)
        return made

    def _extent(self, tag: str) -> int:
        found = self.axes.get(tag)
        return found.value.value if found is not None and isinstance(found.value, IntImm) else 0

    def _body(self, body: Stmt) -> Stmt:
        loop = _find(body)
        self.stages = int(loop.annotations[SPECIALIZED])
        inner, _, self.buffers = inside(loop.body)
        parts = inner.seq if isinstance(inner, SeqStmt) else (inner,)
        copies, others = [s for s in parts if _is_copy(s)], [s for s in parts if not _is_copy(s)]
        if not copies or not others or self.stages < 2 or loop.kind != ForKind.SERIAL:
            raise refused(
                f"the loop {loop.loop_var.name} has {self.stages} stages, and {len(copies)} of its {len(parts)} statements are copies, but"
                " it needs two stages or more, a copy and a product, without a kind of its own; move copies to the loop (compute_at),"
                f" annotate their blocks {SWIZZLE}, and the loop {SPECIALIZED} = 2 or more",
                loop,
            )
        for store in [x for s in others for x in nodes_of(s, BufferStore)]:
            if store.buffer.scope().startswith("shared"):
                raise refused(
                    f"a step of {loop.loop_var.name} writes {store.buffer.name}, which warpgroups share, but only copies of boxes may, for"
                    f" which they wait; annotate the block of the copy {SWIZZLE}, or keep the values in registers",
                    store,
                )
        self.loop = loop
        k = loop.loop_var
        slot = self.analyzer.simplify(k - loop.min)
        made = [box_copy(c, self.analyzer) for c in copies]
        tiles = [b for b in self.buffers if any([c.shared is b for c in made])]
        versions = {b: (b.replace(shape=(IntImm("int32", self.stages), *b.shape)), self.stages) for b in tiles}
        moved = Versions(versions, slot)
        self.versions = versions
        producer = self._producer(made, slot)
        consumer = _Replace(loop, self._consumer([moved.visit(s) for s in others], slot)).visit(body)
        first = _all([thread.equal(0) for thread in self.threads])
        begin = [
            *[ptx_init_barrier_thread_count(s, 1) for s in range(self.stages)],
            *[ptx_init_barrier_thread_count(self.stages + s, WARPS * self.groups) for s in range(self.stages)],
            ptx_fence_barrier_init(),
        ]
        registers = REGISTERS.get(self.groups)
        if registers is not None:
            producer = stmt_seq(Evaluate(ptx_setmaxnreg(registers[0], False)), producer)
            consumer = stmt_seq(Evaluate(ptx_setmaxnreg(registers[1], True)), consumer)
        whole = stmt_seq(
            Evaluate(create_barriers(2 * self.stages)),
            IfThenElse(first, stmt_seq(*[Evaluate(c) for c in begin])),
            barrier("shared"),
            IfThenElse(self.copies_here, producer, consumer),
        )
        held = [*[b for b, _ in versions.values()], *[b for b in self.buffers if b not in versions]]
        block = Block((), (), (), "warp_specialized", whole, None, tuple(held))
        return BlockRealize((), const_true(), block)

    def _place(self, slot: PrimExpr) -> PrimExpr:
        return floormod(slot, self.stages)

    def _parity(self, slot: PrimExpr) -> PrimExpr:
        return floormod(floordiv(slot, self.stages), 2)

    def _producer(self, copies: list[Copy], slot: PrimExpr) -> Stmt:
        """What one thread does: wait until a place is free, say how many bytes come, copy."""
        place = self._place(slot)
        count = 0
        parts: list[Stmt] = []
        for copy in copies:
            if copy.shared not in self.versions:
                raise refused(
                    f"a copy goes to {copy.shared.name}, which lives longer than one step of {self.loop.loop_var.name}, so that it has no"
                    " place for each stage; allocate it inside of the loop",
                    self.loop,
                )
            tensor = self._map(copy)
            size = prod([n.value for n in copy.shared.shape])  # type: ignore[attr-defined]
            moved, _ = self.versions[copy.shared]
            to = moved.access_ptr("w", offset=place * size + copy.to, extent=prod(copy.box))
            s: Stmt = Evaluate(ptx_tma_load(to, tensor, place, *copy.at))
            times = 1
            for f in reversed(copy.loops):
                s = f.replace(body=s, kind=ForKind.UNROLLED)
                times *= f.extent.value  # type: ignore[attr-defined]
            parts.append(s)
            count += times * prod(copy.box) * copy.shared.dtype.bytes
        first = [
            Evaluate(ptx_wait_barrier_parity(self.stages + place, 1 - self._parity(slot))),
            Evaluate(ptx_arrive_barrier_expect_tx(place, count)),
        ]
        steps = self._steps(stmt_seq(*first, *parts))
        return IfThenElse(_all(self.first_that_copies), steps)

    def _steps(self, body: Stmt) -> For:
        return For(self.loop.loop_var, self.loop.min, self.loop.extent, ForKind.SERIAL, body)

    def _map(self, copy: Copy) -> Var:
        """The tensor map of a copy, which is made on the host."""
        foreign = [v.name for i in copy.at for v in used_vars(i) if v in self.threads]
        if foreign:
            raise refused(
                f"the tile of {copy.source.name} differs between threads ({', '.join(foreign)}), but one thread copies it for all; copy at"
                " the loop of steps, without loops over threads",
                self.loop,
            )
        shape = copy.shape
        strides = [1]
        for n in reversed(shape[1:]):
            strides.insert(0, strides[0] * n)
        size = copy.source.dtype.bytes
        row = copy.box[-1] * size
        if not 2 <= len(shape) <= 5 or any([n * size % 16 for n in strides[:-1]]):
            raise refused(
                f"{copy.source.name} {sizes_text(shape)} of {copy.source.dtype} has no tensor map, which takes two to five dimensions and"
                " rows of a multiple of 16 bytes; reshape it, or pad its rows",
                self.loop,
            )
        if row != copy.swizzle if copy.swizzle else row % 16:
            raise refused(
                f"a box {sizes_text(copy.box)} of {copy.source.name} has rows of {row} bytes, but the swizzle of {copy.swizzle} takes"
                f" {copy.swizzle or 'a multiple of 16'}; choose the tile's rows or {SWIZZLE} so that they are equal",
                self.loop,
            )
        made = tensor_map(str(copy.source.dtype), copy.source.data, copy.swizzle, shape, strides[:-1], copy.box)
        kind = PointerType(PrimType(DataType(str(copy.source.dtype))), "tensor_map")
        var = Var(f"{copy.source.name}_map", kind)
        self.maps[var] = made
        return var

    def _consumer(self, statements: list[Stmt], slot: PrimExpr) -> Stmt:
        """What the warpgroups do: wait until a tile is there, and multiply. Where this is all that a step does, its place is free when the
        products of the next step are on their way; else at its end."""
        place = self._place(slot)
        there = Evaluate(ptx_wait_barrier_parity(place, self._parity(slot)))
        if len(statements) == 1:
            (products,) = statements
            (sums, *operands) = _registers(products, self.loop)
            step = [
                there,
                *_fences(products, sums, operands),
                products,
                Evaluate(ptx_wgmma_commit_group()),
                sums.wait(1),
                IfThenElse(slot > 0, self._free(floormod(slot - 1, self.stages)), None),
            ]
            return stmt_seq(self._steps(stmt_seq(*step)), sums.wait(0))
        step = [there]
        for s in statements:
            found = _registers(s, self.loop) if _multiplies(s) else ()
            if found:
                step += [*_fences(s, found[0], found[1:]), s, Evaluate(ptx_wgmma_commit_group()), found[0].wait(0)]
            else:
                step.append(s)
        if not any([_multiplies(s) for s in statements]):
            raise _no_products(self.loop)
        return self._steps(stmt_seq(*step, self._free(place)))

    def _free(self, place: PrimExpr) -> Stmt:
        """A warp has read what is at a place."""
        return IfThenElse(self.lane.equal(0), Evaluate(ptx_arrive_barrier(self.stages + place)), None)


class _Registers(NamedTuple):
    """Registers of a thread that products use."""

    dtype: str
    data: Var
    offset: PrimExpr
    number: int

    def fence(self) -> Stmt:
        return Evaluate(ptx_wgmma_fence(*self))

    def wait(self, groups: int) -> Stmt:
        dtype, *rest = self
        return Evaluate(ptx_wgmma_wait_group(dtype, groups, *rest))


def _multiplies(s: Stmt) -> bool:
    return any([call_name(e) in PRODUCT_CALLS for e in nodes_of(s, Call)])


def _no_products(loop: For) -> TVMError:
    return refused(
        f"no statement of the loop {loop.loop_var.name} has products of warpgroups; tensorize one by a wgmma intrinsic",
        loop,
    )


def _registers(products: Stmt, loop: For) -> tuple[_Registers, ...]:
    """The registers of a thread's sums, and those of the first operand where it is in registers."""
    calls = [e for e in nodes_of(products, Call) if call_name(e) in PRODUCT_CALLS]
    if not calls:
        raise _no_products(loop)
    first = calls[0]
    _, n, k = [int(size) for size in re.findall(r"\d+", first.args[0].value)]  # type: ignore[attr-defined]
    sums = _of(first.args[-3], first.args[-2], n // 2)
    inner = {f.loop_var for f in nodes_of(products, For)}
    if len(calls) > 1 or inner & set(used_vars(sums.offset)):
        raise refused(
            f"the products of a step of {loop.loop_var.name} add to different sums, but all must add to the same; keep one wgmma as wide as"
            " the tile for each warpgroup",
            loop,
        )
    if call_name(first) == "ptx_wgmma":
        return (sums,)
    return sums, _of(first.args[4], first.args[5], k // 2)


def _of(data: Any, offset: PrimExpr, count: int) -> _Registers:
    return _Registers(str(data.type_annotation.element_type.dtype), data, offset, count)


def _fences(products: Stmt, sums: _Registers, operands: Sequence[_Registers]) -> list[Stmt]:
    """The fences before products: of their sums, and of each part of an operand in registers."""
    return [sums.fence(), *[_Instead(operand.fence()).visit(products) for operand in operands]]


class _Instead(Mutator):
    """Puts a statement in the place of products."""

    def __init__(self, by: Stmt) -> None:
        self.by = by

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(Evaluate)
    def _evaluate(self, s: Evaluate) -> Stmt:
        return self.by if call_name(s.value) in PRODUCT_CALLS else s


class _Replace(Mutator):
    """Puts a statement in the place of a loop."""

    def __init__(self, loop: For, by: Stmt) -> None:
        self.loop, self.by = loop, by

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(For)
    def _for(self, s: For) -> Stmt:
        return self.by if s is self.loop else self.rebuild(s)


def _is_marked(s: Stmt) -> bool:
    return isinstance(s, For) and SPECIALIZED in s.annotations


def _find(body: Stmt) -> For:
    found = [s for s in nodes_of(body, For) if _is_marked(s)]
    if len(found) != 1:
        raise refused(
            f"a kernel has one loop annotated {SPECIALIZED}, but this one has {len(found)}; keep the annotation of the one that copies and"
            " multiplies",
            found[0] if found else body,
        )
    return found[0]


class _Kernels(Mutator):
    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        if s.attr_key == "thread_extent" and any_stmt(s.body, _is_marked):
            return _Kernel().build(s)
        return self.rebuild(s)


def _specialized(func: PrimFunc) -> Stmt:
    if not any_stmt(func.body, _is_marked):
        return func.body
    return convert_ssa(func.replace(body=_Kernels().visit(func.body))).body


def InjectWarpSpecialization() -> Pass:
    """Divide the threads of a kernel whose loop is annotated "warp_specialized" = stages: one more warpgroup copies tiles by tensor maps,
    the others multiply. Raises TVMError for copies that are no boxes of a tensor."""
    return body_pass("InjectWarpSpecialization", _specialized)
