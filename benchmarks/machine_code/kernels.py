"""Percent of peak that generated kernels reach, with the time to emit and to compile each: of the FMA peak, and, for kernels of bytes
(benchmarks/machine_code/byte_kernels.py), of the peak of dot products of bytes.

The peaks are measured in the same run, in between. Run: python -m benchmarks kernels
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import time
from typing import Any

import numpy as np

from benchmarks.options import takes_json, write_json
from tilewright.codegen.backend import AOT
from tilewright.codegen.llvm import compile_object, emit_module, load_objects
from tilewright.ir import IRModule
from tilewright.target import Target
from tilewright.tir import (
    Allocate,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    Max,
    PrimFunc,
    Ramp,
    Stmt,
    Var,
    const,
    decl_buffer,
    stmt_seq,
)

LANES = 16


def loop(name: str, extent: int, body: Any, kind: int = ForKind.SERIAL) -> Stmt:
    """`for name in extent: body(name)`."""
    var = Var(name, "int32")
    return For(var, 0, extent, kind, body(var))


def unrolled(name: str, extent: int, body: Any) -> Stmt:
    return loop(name, extent, body, ForKind.UNROLLED)


def vload(buffer: Buffer, index: Any) -> BufferLoad:
    return BufferLoad(buffer, (Ramp(index, 1, LANES),))


def vstore(buffer: Buffer, index: Any, value: Any) -> Stmt:
    return BufferStore(buffer, value, (Ramp(index, 1, LANES),))


def splat(value: Any) -> Broadcast:
    return Broadcast(value, LANES)


def local(name: str, size: int, body: Any) -> Stmt:
    """A local float32 buffer around body(buffer)."""
    buffer = decl_buffer((size,), "float32", name, scope="local")
    return Allocate(buffer.data, buffer.dtype, (size,), const(True), body(buffer))


def gemm(m: int, n: int, k: int, tile_m: int, tile_n: int, unroll: int) -> PrimFunc:
    """C[m, n] = A[m, k] @ B, B packed as [n / tile_n][k][tile_n]; A and C are row-major."""
    a = decl_buffer((m * k,), "float32", "A")
    b = decl_buffer((n * k,), "float32", "B")
    c = decl_buffer((m * n,), "float32", "C")
    vectors = tile_n // LANES

    def tile(panel: Var, row: Var, acc: Buffer) -> Stmt:
        def at(i: Any, j: Any) -> Any:
            return (i * vectors + j) * LANES

        def multiply(step: Var, inner: Var, i: Var, j: Var) -> Stmt:
            depth = step * unroll + inner
            left = BufferLoad(a, ((row * tile_m + i) * k + depth,))
            right = vload(b, (panel * k + depth) * tile_n + j * LANES)
            return vstore(acc, at(i, j), vload(acc, at(i, j)) + splat(left) * right)

        def each(body: Any) -> Stmt:
            return unrolled("i", tile_m, lambda i: unrolled("j", vectors, lambda j: body(i, j)))

        return stmt_seq(
            each(lambda i, j: vstore(acc, at(i, j), splat(const(0.0, "float32")))),
            loop("step", k // unroll, lambda step: unrolled("inner", unroll, lambda inner: each(
                lambda i, j: multiply(step, inner, i, j)))),
            each(lambda i, j: vstore(
                c, (row * tile_m + i) * n + panel * tile_n + j * LANES, vload(acc, at(i, j)))),
        )  # fmt: skip

    body = loop("panel", n // tile_n, lambda panel: loop("row", m // tile_m, lambda row: local(
        "acc", tile_m * tile_n, lambda acc: tile(panel, row, acc))))  # fmt: skip
    return PrimFunc((a, b, c), body, attrs={"global_symbol": "gemm", "calling_conv": AOT})


def conv(height: int, width: int, channels: int, filters: int, tile_w: int) -> PrimFunc:
    """3x3 convolution, NCHWc with 16 channels: [ci][h + 2][w + 2][16] and [fo / 2][ci][3][3][16][32] to [fo][h][w][16].

    Bias and ReLU in the epilogue; the register tile is `tile_w` pixels by 32 output channels.
    """
    ci, pairs = channels // 16, filters // 32
    padded = width + 2
    x = decl_buffer((ci * (height + 2) * padded * 16,), "float32", "X")
    w = decl_buffer((pairs * ci * 9 * 16 * 32,), "float32", "W")
    bias = decl_buffer((filters,), "float32", "bias")
    y = decl_buffer((filters * height * width,), "float32", "Y")

    def tile(pair: Var, row: Var, block: Var, acc: Buffer) -> Stmt:
        def at(i: Any, j: Any) -> Any:
            return (i * 2 + j) * LANES

        def each(body: Any) -> Stmt:
            return unrolled("i", tile_w, lambda i: unrolled("j", 2, lambda j: body(i, j)))

        def multiply(cb: Var, kh: Var, kw: Var, c: Var, i: Var, j: Var) -> Stmt:
            left = BufferLoad(x, (((cb * (height + 2) + row + kh) * padded + block * tile_w + i + kw) * 16 + c,))
            right = vload(w, ((((pair * ci + cb) * 3 + kh) * 3 + kw) * 16 + c) * 32 + j * LANES)
            return vstore(acc, at(i, j), vload(acc, at(i, j)) + splat(left) * right)

        def finish(i: Var, j: Var) -> Stmt:
            value = vload(acc, at(i, j))
            zero = splat(const(0.0, "float32"))
            place = (((pair * 2 + j) * height + row) * width + block * tile_w + i) * 16
            return vstore(y, place, Max(value, zero))

        return stmt_seq(
            each(lambda i, j: vstore(acc, at(i, j), vload(bias, pair * 32 + j * LANES))),
            loop("cb", ci, lambda cb: loop("kh", 3, lambda kh: loop("kw", 3, lambda kw: unrolled(
                "c", 16, lambda c: each(lambda i, j: multiply(cb, kh, kw, c, i, j)))))),
            each(finish),
        )  # fmt: skip

    body = loop("pair", pairs, lambda pair: loop("row", height, lambda row: loop(
        "block", width // tile_w, lambda block: local(
            "acc", tile_w * 32, lambda acc: tile(pair, row, block, acc)))))  # fmt: skip
    return PrimFunc((x, w, bias, y), body, attrs={"global_symbol": "conv", "calling_conv": AOT})


PEAK_STEPS = 4096


def peak_lanes(target: Target) -> int:
    """The float32 numbers in a vector of the target."""
    return target.cpu.vector_bits // 32


def peak_chains(target: Target) -> int:
    """Independent multiply-adds of the peak's loop: more than are in flight at once, few enough to stay in registers."""
    return target.cpu.core.registers * 3 // 4


def peak_text(target: Target) -> str:
    """A function of independent FMA chains in registers."""
    chains, lanes = range(peak_chains(target)), peak_lanes(target)
    vector = f"<{lanes} x float>"
    lines = [f"declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})"]
    lines += ["define i32 @peak(ptr %args) {", "entry:", "  %p = load ptr, ptr %args", f"  %x = load {vector}, ptr %p"]
    lines += ["  br label %loop", "loop:", "  %k = phi i64 [ 0, %entry ], [ %k1, %loop ]"]
    lines += [f"  %a{c} = phi {vector} [ splat (float {float(c)}), %entry ], [ %b{c}, %loop ]" for c in chains]
    lines += [
        f"  %b{c} = call {vector} @llvm.fma.v{lanes}f32({vector} %a{c}, {vector} %x, {vector} %x)" for c in chains
    ]
    lines += ["  %k1 = add i64 %k, 1", f"  %c = icmp ult i64 %k1, {PEAK_STEPS}", "  br i1 %c, label %loop, label %done"]
    lines += ["done:"]
    total = "%b0"
    for c in chains[1:]:
        lines.append(f"  %s{c} = fadd {vector} {total}, %b{c}")
        total = f"%s{c}"
    lines += [f"  store {vector} {total}, ptr %p", "  ret i32 0", "}"]
    return "\n".join(lines)


def peak_kernel(target: Target) -> Kernel:
    """The peak of multiply-adds of float32 on one core."""
    flops = 2.0 * peak_lanes(target) * peak_chains(target) * PEAK_STEPS
    return Kernel("peak", None, flops, [peak_lanes(target)], target, peak_text(target))


def aligned(size: int) -> np.ndarray[Any, Any]:
    """A float32 array at a 64-byte boundary, filled with small numbers."""
    raw = np.empty(size * 4 + 64, np.uint8)
    start = -raw.ctypes.data % 64
    array = raw[start : start + size * 4].view(np.float32)
    array[:] = np.random.default_rng(size).standard_normal(size)
    return array


class Kernel:
    """A compiled kernel on arrays of its own."""

    def __init__(
        self,
        name: str,
        func: PrimFunc | None,
        flops: float,
        sizes: list[int] | list[np.ndarray[Any, Any]],
        target: Target,
        text: str = "",
    ) -> None:
        self.name, self.flops = name, flops
        start = time.perf_counter()
        if func is not None:
            symbol = str(func.attrs["global_symbol"])
            text = emit_module(IRModule({symbol: func}), target)
        else:
            symbol = "peak"
        middle = time.perf_counter()
        self.object = compile_object(text, target)
        self.emit_ms, self.llvm_ms = (middle - start) * 1e3, (time.perf_counter() - middle) * 1e3
        loaded = load_objects([self.object], [symbol])
        self.text = text
        self.run = loaded.function(symbol, ctypes.c_void_p)
        self.arrays = [aligned(size) if isinstance(size, int) else size for size in sizes]
        self.args = (ctypes.c_void_p * len(sizes))(*[a.ctypes.data for a in self.arrays])
        self.repeat = 1
        self.samples: list[float] = []
        for _ in range(5):
            self.sample()
        # The fastest call sets the count, so that a preempted one does not leave samples of a few microseconds.
        self.repeat = max(1, int(2e-3 * max(self.samples) / flops))
        self.samples = []

    def sample(self) -> None:
        began = time.perf_counter()
        for _ in range(self.repeat):
            self.run(self.args)
        self.samples.append(self.flops * self.repeat / (time.perf_counter() - began))

    @property
    def rate(self) -> float:
        return statistics.median(self.samples)


def check_gemm(kernel: Kernel, m: int, n: int, k: int, tile_n: int) -> None:
    a, b, c = kernel.arrays
    dense = b.reshape(n // tile_n, k, tile_n).transpose(1, 0, 2).reshape(k, n)
    np.testing.assert_allclose(c.reshape(m, n), a.reshape(m, k) @ dense, rtol=1e-3, atol=1e-3)


def check_conv(kernel: Kernel, h: int, w: int, channels: int, filters: int) -> None:
    x, weight, bias, y = kernel.arrays
    image = x.reshape(channels // 16, h + 2, w + 2, 16)
    packed = weight.reshape(filters // 32, channels // 16, 3, 3, 16, 32)
    out = np.zeros((filters // 32, h, w, 32), np.float32)
    for kh in range(3):
        for kw in range(3):
            out += np.einsum("chwi,pcio->phwo", image[:, kh : kh + h, kw : kw + w], packed[:, :, kh, kw], optimize=True)
    out = np.maximum(out + bias.reshape(-1, 1, 1, 32), 0)
    got = y.reshape(filters // 32, 2, h, w, 16).transpose(0, 2, 3, 1, 4).reshape(out.shape)
    np.testing.assert_allclose(got, out, rtol=1e-3, atol=1e-3)


def main(argv: list[str] | None = None) -> None:
    from benchmarks.machine_code import byte_kernels

    parser = argparse.ArgumentParser(prog="python -m benchmarks kernels", description=__doc__)
    takes_json(parser)
    options = parser.parse_args(argv)
    target = Target("llvm")
    peak = peak_kernel(target)
    kernels = []
    for m, n, k, tm, tn, unroll in ((112, 256, 384, 14, 32, 4), (114, 256, 384, 6, 64, 4), (196, 512, 256, 14, 32, 4)):
        func = gemm(m, n, k, tm, tn, unroll)
        kernel = Kernel(f"gemm {m}x{n}x{k} tile {tm}x{tn}", func, 2.0 * m * n * k, [m * k, n * k, m * n], target)
        check_gemm(kernel, m, n, k, tn)
        kernels.append(kernel)
    for h, w, channels, filters, tw in ((14, 14, 256, 256, 14), (28, 28, 128, 128, 14), (56, 56, 64, 64, 14)):
        func = conv(h, w, channels, filters, tw)
        sizes = [channels * (h + 2) * (w + 2), channels * filters * 9, filters, filters * h * w]
        kernel = Kernel(
            f"conv3x3 {h}x{w} {channels}->{filters}", func, 2.0 * h * w * channels * filters * 9, sizes, target
        )
        check_conv(kernel, h, w, channels, filters)
        kernels.append(kernel)
    results = measure(peak, kernels)
    others = byte_kernels.kernels(target)
    if others:
        print()
        results += measure(*others)
    write_json(options, results)


def measure(peak: Kernel, kernels: list[Kernel]) -> list[dict[str, Any]]:
    """Samples the kernels and their peak in turn; prints and answers what part of it each reaches."""
    for _ in range(15):
        for kernel in (peak, *kernels):
            kernel.sample()
    # On a shared machine a median may measure the neighbours; the best sample tells what the code can do.
    print(f"{'kernel':32} {'GOP/s':>8} {'% median':>9} {'% best':>7} {'emit ms':>8} {'LLVM ms':>8} {'bytes':>7}")
    results = []
    for kernel in (peak, *kernels):
        median, best = 100 * kernel.rate / peak.rate, 100 * max(kernel.samples) / max(peak.samples)
        print(
            f"{kernel.name:32} {kernel.rate / 1e9:8.1f} {median:9.1f} {best:7.1f} {kernel.emit_ms:8.2f}"
            f" {kernel.llvm_ms:8.2f} {len(kernel.object):7d}"
        )
        results.append(
            {
                "kernel": kernel.name,
                "ops_a_second": kernel.rate,
                "of_peak_median": median / 100,
                "of_peak_best": best / 100,
                "emit_ms": kernel.emit_ms,
                "llvm_ms": kernel.llvm_ms,
                "bytes": len(kernel.object),
            }
        )
    return results


if __name__ == "__main__":
    main()
