"""DefaultGPUSchedule: binds the blocks of unscheduled functions for a GPU to threads."""

from __future__ import annotations

from typing import Any

from tilewright.ir import GlobalVar, IRModule, PrimExpr
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.target import Target
from tilewright.tir.expr import IterVar
from tilewright.tir.function import PrimFunc
from tilewright.tir.schedule.schedule import Schedule
from tilewright.tir.stmt import For, ForKind
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


def schedule_block(sch: Schedule, block: Any, threads: int) -> None:
    """Fuses the spatial loops outside of all reductions, and splits the result over blocks and threads."""
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
    fused = sch.fuse(*spatial) if len(spatial) > 1 else spatial[0]
    bx, tx = sch.split(fused, [None, threads])
    sch.bind(bx, "blockIdx.x")
    sch.bind(tx, "threadIdx.x")


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
            sch = Schedule(IRModule({GlobalVar("main"): func}))
            for rv in sch.get_child_blocks(sch.get_block("root")):
                schedule_block(sch, rv, min(most, 1024))
            functions[gvar] = sch.mod["main"].with_attr("tir.is_scheduled", True)
        return mod.with_functions(functions)

    return Pass(PassInfo(0, "tir.DefaultGPUSchedule"), run)
