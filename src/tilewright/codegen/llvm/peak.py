"""What the machine can do at most: multiply-adds on registers alone, measured beside the kernels that are compared with it."""

from __future__ import annotations

import ctypes
import threading
import time

from tilewright.codegen.llvm.jit import load_objects
from tilewright.codegen.llvm.machine import compile_object
from tilewright.target import Target

STEPS = 4096
LEAST_SECONDS = 2e-3


def peak_text(target: Target, lanes: int, chains: int) -> str:
    """LLVM IR of `peak(ptr, steps)`: independent chains of multiply-adds in registers, that many steps."""
    vector = f"<{lanes} x float>"
    multiply_add = f"{vector} @llvm.fma.v{lanes}f32" if target.cpu.fma else f"{vector} @llvm.fmuladd.v{lanes}f32"
    every = range(chains)
    lines = [
        f"declare {multiply_add}({vector}, {vector}, {vector})",
        "define i32 @peak(ptr %args, i64 %steps) {",
        "entry:",
        f"  %x = load {vector}, ptr %args, align 64",
        "  br label %loop",
        "loop:",
        "  %k = phi i64 [ 0, %entry ], [ %k1, %loop ]",
    ]
    lines += [f"  %a{c} = phi {vector} [ splat (float {float(c)}), %entry ], [ %b{c}, %loop ]" for c in every]
    lines += [f"  %b{c} = call {multiply_add}({vector} %a{c}, {vector} %x, {vector} %x)" for c in every]
    lines += ["  %k1 = add i64 %k, 1\n  %c = icmp ult i64 %k1, %steps\n  br i1 %c, label %loop, label %done", "done:"]
    lines += [f"  %s{c} = fadd {vector} {f'%s{c - 1}' if c > 1 else '%b0'}, %b{c}" for c in every[1:]]
    lines += [f"  store {vector} %s{chains - 1}, ptr %args, align 64", "  ret i32 0", "}"]
    return f'target triple = "{target.triple}"\n' + "\n".join(lines) + "\n"


class Peak:
    """Samples of the rate of float32 multiply-adds on a number of threads, in floating-point operations a second."""

    def __init__(self, threads: int = 1) -> None:
        target = Target("llvm")
        lanes = target.cpu.lanes(32)
        # One register holds the factor, and a few stay free; two multiply-add units of latency 4 need 8 chains.
        chains = max(8, target.cpu.vector_registers // 2 - 2)
        self.threads, self.samples = threads, list[float]()
        self._run = load_objects([compile_object(peak_text(target, lanes, chains), target)], ["peak"]).function(
            "peak", ctypes.c_void_p, ctypes.c_int64
        )
        self._flops = 2.0 * lanes * chains
        self._steps = STEPS
        self._work()
        start = time.perf_counter()
        self._work()
        # Long enough that starting threads does not count.
        self._steps = int(STEPS * max(1.0, threads * LEAST_SECONDS / max(time.perf_counter() - start, 1e-7)))

    def _work(self) -> None:
        raw = ctypes.create_string_buffer(192)
        self._run((ctypes.addressof(raw) + 63) // 64 * 64, self._steps)

    def sample(self) -> float:
        """Measures once, all threads at the same time."""
        workers = [threading.Thread(target=self._work) for _ in range(self.threads - 1)]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        self._work()
        for worker in workers:
            worker.join()
        rate = self._flops * self._steps * self.threads / (time.perf_counter() - start)
        self.samples.append(rate)
        return rate

    @property
    def rate(self) -> float:
        """The best of the samples, since others' work on the machine only takes away; measures a few when there is none."""
        while len(self.samples) < 5:
            self.sample()
        return max(self.samples)


def measure_peak(threads: int = 1) -> float:
    """GFLOP/s of float32 multiply-adds on that many threads, measured now."""
    return Peak(threads).rate / 1e9
