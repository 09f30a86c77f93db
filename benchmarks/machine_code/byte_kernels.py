"""Matrix products and convolutions of bytes as models run them, with requantisation behind, beside the peak of their instruction.

The peak is that of the instruction that `scheduling.instructions` finds for the machine, on independent sums in registers; kernels
are those of topi and its schedules, checked against NumPy. `benchmarks/machine_code/kernels.py` prints them below its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.machine_code.kernels import Kernel, peak_chains
from tilewright import te, tir, topi
from tilewright.codegen.backend import AOT
from tilewright.driver import lower
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.scheduling.instructions import DotProduct, dot_product
from tilewright.target import Target

STEPS = 4096
GEMMS = ((128, 768, 768), (128, 3072, 768), (196, 512, 256), (114, 256, 384))
CONVOLUTIONS = ((14, 256, 256, 3), (28, 128, 128, 3), (56, 64, 64, 3), (14, 1024, 256, 1), (56, 64, 256, 1))
LOW, HIGH = 0, 255


def peak_text(lanes: int, chains: int) -> str:
    """A function of so many independent dot products of bytes in registers."""
    sums, data = f"<{lanes} x i32>", f"<{4 * lanes} x i8>"
    name, every = f"@llvm.x86.avx512.vpdpbusd.{32 * lanes}", range(chains)
    lines = [f"declare {sums} {name}({sums}, {data}, {data})", "define i32 @peak(ptr %args) {", "entry:"]
    lines += ["  %p = load ptr, ptr %args", f"  %x = load {data}, ptr %p", "  br label %loop", "loop:"]
    lines += ["  %k = phi i64 [ 0, %entry ], [ %k1, %loop ]"]
    lines += [f"  %a{c} = phi {sums} [ splat (i32 {c}), %entry ], [ %b{c}, %loop ]" for c in every]
    lines += [f"  %b{c} = call {sums} {name}({sums} %a{c}, {data} %x, {data} %x)" for c in every]
    lines += [
        "  %k1 = add i64 %k, 1",
        f"  %c = icmp ult i64 %k1, {STEPS}",
        "  br i1 %c, label %loop, label %done",
        "done:",
    ]
    lines += [f"  %s{c} = add {sums} %{f's{c - 1}' if c > 1 else 'b0'}, %b{c}" for c in every[1:]]
    lines += [f"  store {sums} %s{chains - 1}, ptr %p", "  ret i32 0", "}"]
    return "\n".join(lines)


def bytes_of(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Random bytes at a 64-byte boundary."""
    size = int(np.prod(shape))
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    held = raw[start : start + size].view(dtype).reshape(shape)
    held[...] = np.random.default_rng(size).integers(*((0, 256) if dtype == "uint8" else (-128, 128)), shape)
    return held


def requantised(sums: te.Tensor, factor: float) -> te.Tensor:
    """clip(round(sums * factor)) as uint8."""
    real = te.compute(sums.shape, lambda *i: tir.round(sums(*i).astype("float32") * factor), "real", tag="elemwise")
    return te.compute(
        sums.shape,
        lambda *i: tir.min(tir.max(real(*i), float(LOW)), float(HIGH)).astype("uint8"),
        "out",
        tag="elemwise",
    )


def compiled(name: str, macs: float, tensors: list[te.Tensor], target: Target) -> Kernel:
    """The kernel of a compute, on one thread."""
    func = schedule_kernel(te.create_prim_func(tensors), target).with_attr("global_symbol", "kernel")
    (flat,) = lower(func, name="kernel").functions.values()
    arrays = [bytes_of(tuple([int(d) for d in t.shape]), str(t.dtype)) for t in tensors]
    return Kernel(name, flat.with_attr("calling_conv", AOT), 2 * macs, arrays, target)


def gemm(m: int, n: int, k: int, dot: DotProduct, target: Target) -> Kernel:
    """uint8 (m, k) by packed int8 (k, n), requantised."""
    width = 4 * dot.lanes
    factor = 1e-3
    with target, KernelPlan(target):
        data = te.placeholder((m, k), "uint8", name="data")
        weight = te.placeholder((n // width, k // dot.group, width, dot.group), "int8", name="weight")
        out = requantised(topi.nn.dense_pack(data, weight, None, "int32"), factor)
        kernel = compiled(f"gemm {m}x{n}x{k}", m * n * k, [data, weight, out], target)
    a, b, c = kernel.arrays
    sums = a.astype(np.int64) @ b.transpose(1, 3, 0, 2).reshape(k, n).astype(np.int64)
    np.testing.assert_array_equal(c, wanted(sums, factor))
    return kernel


def wanted(sums: np.ndarray[Any, Any], factor: float) -> np.ndarray[Any, Any]:
    return np.asarray(np.clip(np.rint(sums.astype(np.float32) * np.float32(factor)), LOW, HIGH).astype(np.uint8))


def conv(size: int, channels: int, filters: int, kernel: int, dot: DotProduct, target: Target) -> Kernel:
    """A convolution on channel blocks of 16, padded to the same size, requantised."""
    block, factor, pad = 16, 1e-3, kernel // 2
    with target, KernelPlan(target):
        data = te.placeholder((1, channels // block, size, size, block), "uint8", name="data")
        shape = (filters // dot.lanes, channels // block, kernel, kernel, block // dot.group, dot.lanes, dot.group)
        weight = te.placeholder(shape, "int8", name="weight")
        out = requantised(topi.nn.conv2d_NCHWc(data, weight, 1, pad, 1, out_dtype="int32"), factor)
        name = f"conv{kernel}x{kernel} {size}x{size} {channels}->{filters}"
        made = compiled(name, size * size * channels * filters * kernel**2, [data, weight, out], target)
    x, w, y = made.arrays
    image = np.pad(
        x.transpose(0, 1, 4, 2, 3).reshape(channels, size, size).astype(np.float64), ((0, 0), (pad, pad), (pad, pad))
    )
    plain = w.transpose(0, 5, 1, 4, 6, 2, 3).reshape(filters, channels, kernel, kernel).astype(np.float64)
    sums = np.zeros((filters, size, size))
    for i in range(kernel):
        for j in range(kernel):
            sums += np.tensordot(plain[:, :, i, j], image[:, i : i + size, j : j + size], 1)
    np.testing.assert_array_equal(y.transpose(0, 1, 4, 2, 3).reshape(sums.shape), wanted(sums, factor))
    return made


def kernels(target: Target) -> tuple[Kernel, list[Kernel]] | None:
    """The peak and the kernels; None where the machine has no dot products of bytes."""
    one = (
        Target({"kind": "llvm", "mcpu": target.mcpu, "num-cores": 1, "mattr": list(target.mattr)})
        if target.mcpu
        else Target("llvm -num-cores=1")
    )
    dot = dot_product(one, "uint8", "int8", "int32")
    if dot is None or "vnni" not in dot.intrin:
        return None
    chains = peak_chains(one)
    operations = 2.0 * dot.lanes * dot.group * chains * STEPS
    text, data = peak_text(dot.lanes, chains), bytes_of((4 * dot.lanes,), "uint8")
    peak = Kernel("peak of uint8 by int8", None, operations, [data], one, text)
    found = [gemm(*shape, dot, one) for shape in GEMMS] + [conv(*shape, dot, one) for shape in CONVOLUTIONS]
    return peak, found
