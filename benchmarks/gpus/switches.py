"""Parts of schedules on and off, each with its gain: the same program with one decision changed, side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from benchmarks.gpus.cases import Case, convolution, product

GROUP = "switches"


class Switch(NamedTuple):
    """What is measured with and without a part. kind: of the cases; on, off: decisions about the kernel, without the name of its block."""

    kind: str
    on: Mapping[str, Any]
    off: Mapping[str, Any]


SWITCHES = {
    "warpgroups": Switch("gemm", {"warpgroups": [128, 256, 64, 4, 128]}, {"warpgroups": []}),
    "swizzle of tiles": Switch("gemm", {"warpgroups": [128, 256, 64, 4, 128]}, {"warpgroups": [128, 256, 64, 4, 0]}),
    "strips of blocks": Switch("gemm", {"strip": 8}, {"strip": 1}),
    "optimised iterators": Switch("conv2d", {"iterators": "optimized"}, {"iterators": "analytic"}),
    "optimised iterators, matrices": Switch(
        "gemm", {"warpgroups": [], "iterators": "optimized"}, {"warpgroups": [], "iterators": "analytic"}
    ),
}
"""Label of a case -> its switch."""
_BLOCKS = {"gemm": "C", "conv2d": "conv2d_nhwc"}
_SIZES = {
    "gemm": [product(GROUP, "float16", n, n, n) for n in (4096, 8192)],
    "conv2d": [convolution(128, 28, 128, 3, 1), convolution(256, 14, 256, 3, 1)],
}


def switches() -> list[Case]:
    """The cases; `ratio` of a result is the gain of the part."""
    return [
        case._replace(group=GROUP, label=label) for label, switch in SWITCHES.items() for case in _SIZES[switch.kind]
    ]


def program(case: Case) -> Any:
    """The program of a case as a PrimFunc of (operands.., result)."""
    from tilewright import te, topi

    s = case.sizes
    if case.kind == "gemm":
        a = te.placeholder((s["m"], s["k"]), case.dtype, name="a")
        b = te.placeholder((s["k"], s["n"]), case.dtype, name="b")
        r = te.reduce_axis((0, s["k"]), "r")
        term = lambda i, j: te.sum(a[i, r].astype("float32") * b[r, j].astype("float32"), axis=r)  # noqa: E731
        c = te.compute((s["m"], s["n"]), term, name="C")
        return te.create_prim_func([a, b, topi.cast(c, case.dtype)])
    x = te.placeholder((s["batch"], s["height"], s["height"], s["channels"]), case.dtype, name="x")
    w = te.placeholder((s["kernel"], s["kernel"], s["channels"], s["filters"]), case.dtype, name="w")
    y = topi.nn.conv2d(x, w, s["stride"], s["kernel"] // 2, 1, "NHWC", "HWIO", "float32")
    return te.create_prim_func([x, w, topi.cast(y, case.dtype)])


def build(case: Case, target: str, on: bool) -> Any:
    """The compiled program with the part on or off. Raises TVMError where the kernel does not take the decision."""
    import tilewright as tvm
    from tilewright.scheduling.kernel_plan import KernelPlan
    from tilewright.scheduling.whole_kernel import scheduled
    from tilewright.support.errors import TVMError
    from tilewright.target import Target

    switch = SWITCHES[case.label]
    given = {f"{_BLOCKS[case.kind]}.{name}": value for name, value in (switch.on if on else switch.off).items()}
    plan = KernelPlan(target, given)
    made = scheduled(program(case), Target(target), plan)
    if plan.unfit():
        raise TVMError("; ".join([f"{name}: {why}" for name, why in plan.unfit().items()]))
    return tvm.build(made.mod, target=target)


def sides(case: Case, gpu: Any) -> tuple[Callable[[], Any], Callable[[], Any], str]:
    """(the run with the part, the run without, what is wrong with one of the results)."""
    import torch

    from benchmarks.gpus import references
    from tilewright import nd

    runs, found = [], []
    given = [nd.from_dlpack(t) for t in references.tensors(case, gpu.place).values()]
    for on in (True, False):
        func = build(case, gpu.target, on)
        out = torch.empty(_shape(case), dtype=getattr(torch, case.dtype), device=gpu.place)
        entry, args = func["main"], [*given, nd.from_dlpack(out)]
        runs.append(lambda entry=entry, args=args: entry(*args))
        runs[-1]()
        found.append(out)
    gpu.wait()
    return runs[0], runs[1], references.difference(case, *found)


def _shape(case: Case) -> tuple[int, ...]:
    s = case.sizes
    if case.kind == "gemm":
        return s["m"], s["n"]
    side = -(-s["height"] // s["stride"])
    return s["batch"], side, side, s["filters"]


def compiled_ahead(case: Case, target: str) -> str:
    """Compiles both forms; returns what went wrong, or ""."""
    try:
        for on in (True, False):
            build(case, target, on)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return ""
