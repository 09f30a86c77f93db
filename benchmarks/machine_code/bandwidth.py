"""Read bandwidth of the machine's caches and memory, measured with generated code beside what is compared with it."""

from __future__ import annotations

import ctypes
import threading
import time

import numpy as np

from tilewright.codegen.llvm import compile_object, load_objects
from tilewright.target import Target

STREAMS = 16
LEAST_SECONDS = 1e-3


def read_text(target: Target, lanes: int) -> str:
    """LLVM IR of `read(ptr, vectors)`: every vector loaded once, sixteen a step, combined in registers."""
    vector, every = f"<{lanes} x i32>", range(STREAMS)
    lines = [
        "define i32 @read(ptr %args, i64 %count) {",
        "entry:",
        "  br label %loop",
        "loop:",
        "  %k = phi i64 [ 0, %entry ], [ %k1, %loop ]",
    ]
    lines += [f"  %a{c} = phi {vector} [ zeroinitializer, %entry ], [ %b{c}, %loop ]" for c in every]
    for c in every:
        lines.append(f"  %i{c} = add i64 %k, {c}")
        lines.append(f"  %p{c} = getelementptr {vector}, ptr %args, i64 %i{c}")
        lines.append(f"  %v{c} = load {vector}, ptr %p{c}, align 64")
        lines.append(f"  %b{c} = or {vector} %a{c}, %v{c}")
    lines += [
        f"  %k1 = add i64 %k, {STREAMS}",
        "  %more = icmp ult i64 %k1, %count",
        "  br i1 %more, label %loop, label %done",
        "done:",
    ]
    lines += [f"  %s{c} = or {vector} {f'%s{c - 1}' if c > 1 else '%b0'}, %b{c}" for c in every[1:]]
    lines += [f"  %x = extractelement {vector} %s{STREAMS - 1}, i32 0", "  ret i32 %x", "}"]
    return f'target triple = "{target.triple}"\n' + "\n".join(lines) + "\n"


class Bandwidth:
    """Samples in bytes a second, by level: "second cache", "last cache" and "memory"; `sizes` are the bytes that each sample reads.

    Threads read parts of their own, at the same time.
    """

    def __init__(self, threads: int = 1) -> None:
        target = Target("llvm")
        cpu, lanes = target.cpu, target.cpu.lanes(32)
        self.step = STREAMS * lanes * 4
        self._run = load_objects([compile_object(read_text(target, lanes), target)], ["read"]).function(
            "read", ctypes.c_void_p, ctypes.c_int64
        )
        self.threads, self.vector = threads, lanes * 4
        self.sizes = {"second cache": cpu.l2_bytes // 2, "last cache": cpu.l3_bytes // 4, "memory": cpu.l3_bytes * 8}
        self.samples: dict[str, list[float]] = {level: [] for level in self.sizes}
        most = max(self.sizes.values()) + self.step + 64
        # Pages that were never written are all the same page, which fits in the first cache.
        self._arrays = [np.ones(most, np.uint8) for _ in range(threads)]

    def _read(self, thread: int, size: int, times: int) -> None:
        start = (self._arrays[thread].ctypes.data + 63) // 64 * 64
        for _ in range(times):
            self._run(start, size // self.vector)

    def sample(self) -> None:
        """Measures every level once."""
        for level, size in self.sizes.items():
            part = size if level == "second cache" else size // self.threads
            part = part // self.step * self.step
            self._read(0, part, 1)
            start = time.perf_counter()
            self._read(0, part, 1)
            times = 1 + int(LEAST_SECONDS / max(time.perf_counter() - start, 1e-7))
            workers = [threading.Thread(target=self._read, args=(t, part, times)) for t in range(1, self.threads)]
            start = time.perf_counter()
            for worker in workers:
                worker.start()
            self._read(0, part, times)
            for worker in workers:
                worker.join()
            self.samples[level].append(part * times * self.threads / (time.perf_counter() - start))
