"""Machine code of kernels: schedule, lower, emit, compile, on all cores. Results are kept in the on-disk cache."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from tilewright.codegen.backend import AOT, IS_SCHEDULED, NO_RULES, Code, back_end_of
from tilewright.codegen.device import is_launched
from tilewright.driver import lower_for
from tilewright.ir import GlobalVar, IRModule
from tilewright.ir.steps import step
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.node import deep_recursion
from tilewright.relay.backend.kernels.kernel import Kernel, Remarks
from tilewright.relay.backend.keys import adds_lowering_passes, compiler_digest, options_key
from tilewright.relay.backend.keys import target_key as target_key
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.scheduling.database import PlanWarning
from tilewright.support import cache as disk
from tilewright.support.processors import usable_processors
from tilewright.target import Target
from tilewright.tir import PrimFunc

Progress = Callable[[int, int, str], None]


def scheduled(func: PrimFunc, target: Target, plan: KernelPlan | None = None) -> PrimFunc:
    """The kernel's PrimFunc, scheduled by the plan (by default: by the cost model), if the target's back end has rules for it. It runs as
    a pass, which instruments see."""
    if func.attrs.get(IS_SCHEDULED) or back_end_of(target).rules == NO_RULES:
        return func
    gvar = GlobalVar(str(func.attrs["global_symbol"]))

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        return mod.with_functions(
            {g: schedule_kernel(f, target, plan) if isinstance(f, PrimFunc) else f for g, f in mod.functions.items()}
        )

    with deep_recursion():
        made = Pass(PassInfo(0, "schedule_kernel"), run)(IRModule({gvar: func}))[gvar]
    assert isinstance(made, PrimFunc)
    return made


def lowered(func: PrimFunc, target: Target) -> IRModule:
    """A scheduled kernel, lowered for the target's code generator."""
    name = str(func.attrs["global_symbol"])
    with deep_recursion():
        mod = lower_for(IRModule({GlobalVar(name): func.with_attr("target", target)}), target)
    named = {"calling_conv": AOT, "global_symbol": name}
    return mod.with_functions(
        # Device kernels that it launches already have names and a convention.
        {g: f if is_launched(f) else f.with_attr(named) for g, f in mod.functions.items()}
    )


def kernel_code(kernel: Kernel, target: Target) -> Code:
    """The code of one kernel."""
    with deep_recursion():
        with step("kernels as tensor programs"):
            func = kernel.func
        with step("scheduling and lowering, beside their passes"):
            mod = lowered(scheduled(func, target, kernel.plan), target)
        with step("code generation"):
            return back_end_of(target).emit(mod, target)


def remark(kernel: Kernel, remarks: Remarks) -> None:
    """Stores the remarks from scheduling a kernel, and warns of decisions that do not fit."""
    kernel.remarks = remarks
    for decision, why in remarks.unfit.items():
        warnings.warn(f"the plan of {kernel.name} does not fit: {decision}: {why}", PlanWarning, stacklevel=3)


def kept_remarks(key: str) -> Remarks:
    """The remarks that the cache holds beside a kernel's object; empty ones are not stored."""
    found = disk.get(disk.key("remarks", key))
    return Remarks({}, []) if found is None else Remarks(*json.loads(found))


def compile_code(code: Code, target: Target) -> bytes:
    """The object of code."""
    return back_end_of(target).compile(code, target)


def cache_key(kernel: Kernel, target: Target) -> str:
    """The cache key of a kernel's object."""
    return disk.key(
        "kernel",
        compiler_digest(),
        target_key(target),
        kernel.name,
        kernel.digest,
        options_key(),
    )


def cached_object(code: Code, target: Target) -> bytes:
    """The object of code, from the cache or compiled."""
    key = disk.key("code", compiler_digest(), target_key(target), str(code.effort), code.text)
    found = disk.get(key)
    if found is None:
        found = compile_code(code, target)
        disk.put(key, found)
    return found


def compile_kernels(kernels: Sequence[Kernel], target: Target, progress: Progress | None = None) -> list[bytes]:
    """The objects of the kernels, in order. progress(done, total, what): called as kernels are finished."""
    total, done = len(kernels), 0
    objects: list[bytes | Future[bytes]] = []
    with step("the kernels' keys in the compile cache"):
        keys = [cache_key(k, target) for k in kernels]
    workers = usable_processors()
    # Instruments see every pass, so with them passes run for kernels from the cache too.
    watched = bool(PassContext.current().instruments)
    kept = not adds_lowering_passes()

    def report(what: str) -> None:
        if progress is not None:
            progress(done, total, what)

    report("compiling kernels")
    with ThreadPoolExecutor(workers) as pool:
        for kernel, key in zip(kernels, keys, strict=True):
            found = disk.get(key) if kept else None
            if found is not None:
                if watched:
                    lowered(scheduled(kernel.func, target, kernel.plan), target)
                remark(kernel, kept_remarks(key))
                objects.append(found)
                done += 1
                report("compiling kernels")
                continue
            future = pool.submit(compile_code, kernel_code(kernel, target), target)
            objects.append(future)
            if kernel.plan is not None:
                remark(kernel, Remarks(kernel.plan.unfit(), [str(f) for f in kernel.plan.fallbacks]))
            # Counts what other threads have compiled in the meantime.
            done = sum([not isinstance(o, Future) or o.done() for o in objects])
            report(kernel.name)
        finished: list[bytes] = []
        for kernel, key, item in zip(kernels, keys, objects, strict=True):
            if isinstance(item, Future):
                with step("machine code, while the compiler waits for it"):
                    item = item.result()
                if kept:
                    # Before the object, so that its remarks are there when another process finds the object.
                    if any(kernel.remarks):
                        disk.put(disk.key("remarks", key), json.dumps(kernel.remarks).encode())
                    disk.put(key, item)
                done = min(total, done + 1)
                report(kernel.name)
            finished.append(item)
    done = total
    report("linking")
    return finished
