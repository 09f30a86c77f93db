"""DefaultGPUSchedule: binds the blocks of unscheduled functions for a GPU to threads."""

from __future__ import annotations

from typing import Any

from tilewright.ir import GlobalVar, IntImm, IRModule, PrimExpr
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.target import Target
from tilewright.tir.expr import IterVar
from tilewright.tir.function import PrimFunc
from tilewright.tir.schedule.schedule import Schedule
from tilewright.tir.stmt import Block, BlockRealize, For, ForKind
from tilewright.tir.stmt_functor import pre_order_visit

DEVICES = ("cuda", "rocm", "metal", "opencl", "vulkan", "webgpu", "nvptx")
MAX_THREADS = 256
"""The number of threads of a block for targets without a limit."""


def _bound(func: PrimFunc) -> bool:
    found = [False]

    def look(node: Any) -> bool:
        found[0] |= isinstance(node, For) and node.kind == ForKind.THREAD_BINDING
        return not found[0]

    pre_order_visit(func.body, look)
    return found[0]


def _with_root(func: PrimFunc) -> PrimFunc:
    """The function, whose outermost block is called "root": around a block without axes that stands alone, too."""
    body = func.body
    assert isinstance(body, BlockRealize)
    if body.block.name_hint == "root":
        return func
    return func.replace(body=BlockRealize((), IntImm("bool", 1), Block((), (), (), "root", body)))


def schedule_block(sch: Schedule, block: Any, threads: int) -> None:
    """Binds the spatial loops outside of all reductions to blocks and threads, at most so many in a block."""
    node = sch.get(block)
    loops = sch.get_loops(block)
    if not node.iter_vars:
        # A block without axes (an opaque one) is the work of one thread.
        loop = loops[0] if loops else sch.add_unit_loop(block)
        spatial = [loop] if not loops else []
        if not spatial:
            return
    else:
        reducing = set()
        realize_values = _values_of(sch, block)
        for axis, value in zip(node.iter_vars, realize_values, strict=True):
            if axis.iter_type != IterVar.DataPar:
                reducing.update(_vars(value))
        spatial = []
        for rv in loops:
            loop = sch.get(rv)
            if loop.loop_var in reducing or loop.kind != ForKind.SERIAL:
                break
            spatial.append(rv)
        if not spatial:
            spatial = [sch.add_unit_loop(loops[0] if loops else block)]
    outer, inner = _divided(sch, spatial, threads)
    sch.bind(_fused(sch, outer), "blockIdx.x")
    sch.bind(_fused(sch, inner), "threadIdx.x")


def _divided(sch: Schedule, loops: list[Any], threads: int) -> tuple[list[Any], list[Any]]:
    """(loops of blocks, loops of threads): the innermost ones go to threads as long as they fit, and the next one is split.

    All of them as one loop, split anywhere, would be simpler. But then a block's axes depend on remainders of both parts together (an image
    of 14 x 14 and 1024 threads), and that they are one to one is no longer seen.
    """
    outer, held = list(loops), 1
    inner: list[Any] = []
    while outer:
        extent = sch.get(outer[-1]).extent
        known = extent.value if isinstance(extent, IntImm) else None
        if known is None or held * known > threads:
            break
        inner.insert(0, outer.pop())
        held *= known
    if outer and threads // held > 1:
        block, thread = sch.split(outer.pop(), [None, threads // held])
        outer.append(block)
        inner.insert(0, thread)
    if not outer:
        block, thread = sch.split(_fused(sch, inner), [1, None])
        return [block], [thread]
    if not inner:
        block, thread = sch.split(outer.pop(), [None, 1])
        return [*outer, block], [thread]
    return outer, inner


def _fused(sch: Schedule, loops: list[Any]) -> Any:
    return sch.fuse(*loops) if len(loops) > 1 else loops[0]


def _values_of(sch: Schedule, block: Any) -> tuple[PrimExpr, ...]:
    wanted = sch.get(block)
    found: list[PrimExpr] = []

    def look(node: Any) -> bool:
        if getattr(node, "block", None) is wanted:
            found.extend(node.iter_values)
        return not found

    for func in sch.mod.functions.values():
        if isinstance(func, PrimFunc):
            pre_order_visit(func.body, look)
    return tuple(found)


def _vars(e: PrimExpr) -> list[PrimExpr]:
    from tilewright.tir.stmt_functor import used_vars

    return list(used_vars(e))


def DefaultGPUSchedule() -> Pass:
    """Fuse the spatial loops of blocks in functions for a GPU that have no thread axes, and bind them to blockIdx.x and
    threadIdx.x.

    The target is the function's, or the current one. Functions marked "tir.is_scheduled" stay.
    """

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        functions = dict(mod.functions)
        for gvar, func in mod.functions.items():
            if not isinstance(func, PrimFunc) or func.attrs.get("tir.is_scheduled") or _bound(func):
                continue
            target = func.attrs.get("target") or Target.current(allow_none=True)
            kind = str(getattr(getattr(target, "kind", None), "name", ""))
            if kind not in DEVICES:
                continue
            most = int(getattr(target, "max_num_threads", 0) or MAX_THREADS)
            if not isinstance(func.body, BlockRealize):
                continue
            sch = Schedule(IRModule({GlobalVar("main"): _with_root(func)}))
            for rv in sch.get_child_blocks(sch.get_block("root")):
                schedule_block(sch, rv, min(most, 1024))
            functions[gvar] = sch.mod["main"].with_attr("tir.is_scheduled", True)
        return mod.with_functions(functions)

    return Pass(PassInfo(0, "tir.DefaultGPUSchedule"), run)
