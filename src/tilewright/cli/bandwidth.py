"""Read bandwidth of the machine's caches and memory, measured with generated code beside what is compared with it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from itertools import cycle

import numpy as np

from tilewright.cli.peak import slices_of, together
from tilewright.codegen.llvm import compile_object, load_objects
from tilewright.target import Target
from tilewright.target.cpu import CpuFacts

STREAMS = 16
INNER = ("first cache", "second cache")
SLICE_BYTES = 1 << 21
"""Of a slice, which is short beside the time that the system gives a thread, and long beside reading the clock."""


def read_text(target: Target, lanes: int) -> str:
    """LLVM IR of `read(ptr, vectors, total)`: as many vectors as `total` says are loaded, sixteen a step, and combined in registers. After
    the first `vectors` come the same ones again."""
    vector, every = f"<{lanes} x i32>", range(STREAMS)
    lines = [
        "define i32 @read(ptr %args, i64 %count, i64 %total) {",
        "entry:",
        "  br label %loop",
        "loop:",
        "  %k = phi i64 [ 0, %entry ], [ %k1, %loop ]",
        "  %t = phi i64 [ 0, %entry ], [ %t1, %loop ]",
    ]
    lines += [f"  %a{c} = phi {vector} [ zeroinitializer, %entry ], [ %b{c}, %loop ]" for c in every]
    for c in every:
        lines.append(f"  %i{c} = add i64 %k, {c}")
        lines.append(f"  %p{c} = getelementptr {vector}, ptr %args, i64 %i{c}")
        lines.append(f"  %v{c} = load {vector}, ptr %p{c}, align 64")
        lines.append(f"  %b{c} = or {vector} %a{c}, %v{c}")
    lines += [
        f"  %next = add i64 %k, {STREAMS}",
        "  %inside = icmp ult i64 %next, %count",
        "  %k1 = select i1 %inside, i64 %next, i64 0",
        f"  %t1 = add i64 %t, {STREAMS}",
        "  %more = icmp ult i64 %t1, %total",
        "  br i1 %more, label %loop, label %done",
        "done:",
    ]
    lines += [f"  %s{c} = or {vector} {f'%s{c - 1}' if c > 1 else '%b0'}, %b{c}" for c in every[1:]]
    lines += [f"  %x = extractelement {vector} %s{STREAMS - 1}, i32 0", "  ret i32 %x", "}"]
    return f'target triple = "{target.triple}"\n' + "\n".join(lines) + "\n"


class Bandwidth:
    """Samples in bytes a second, by level; `sizes` are the bytes that each sample reads.

    levels: which of "first cache", "second cache", "last cache" and "memory". Threads read parts of their own, at the same time.
    """

    def __init__(self, threads: int = 1, levels: Sequence[str] = ("second cache", "last cache", "memory")) -> None:
        target = Target("llvm")
        lanes = target.cpu.lanes(32)
        self.step = STREAMS * lanes * 4
        self._run = load_objects([compile_object(read_text(target, lanes), target)], ["read"]).function(
            "read", ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
        )
        self.threads, self.vector = threads, lanes * 4
        self.sizes = {level: size for level, size in sizes_of(target.cpu).items() if level in levels}
        self.samples: dict[str, list[float]] = {level: [] for level in self.sizes}
        most = max([self._part(level) for level in self.sizes], default=0) + self.step + 64
        # Pages that were never written are all the same page, which fits in the first cache.
        self._arrays = [np.ones(most, np.uint8) for _ in range(threads)]

    def _part(self, level: str) -> int:
        """Bytes that a thread reads: each has the inner caches to itself, and its part of the others."""
        size = self.sizes[level] if level in INNER else self.sizes[level] // self.threads
        return max(size // self.step, 1) * self.step

    def _work(self, level: str, thread: int) -> Callable[[], object]:
        """A slice: a function for one thread, which reads SLICE_BYTES at each call, and next what follows."""
        start, part = (self._arrays[thread].ctypes.data + 63) // 64 * 64, self._part(level)
        inside = min(part, self._slice)
        places = cycle(range(start, start + part - inside + 1, inside))
        return lambda: self._run(next(places), inside // self.vector, self._slice // self.vector)

    @property
    def _slice(self) -> int:
        return SLICE_BYTES // self.step * self.step

    def sample(self) -> None:
        """Measures every level once."""
        for level in self.sizes:
            work = [self._work(level, t) for t in range(self.threads)]
            # What a cache is to hold is read before.
            for once in [
                once for once in work for _ in range(self._part(level) // self._slice + 1) if level != "memory"
            ]:
                once()
            self.samples[level].append(together(slices_of(work)) * self._slice)


def sizes_of(cpu: CpuFacts) -> dict[str, int]:
    """Bytes to read for each level that a processor has: they fit in the cache, or are much more than the last one holds."""
    last = cpu.l3_bytes or cpu.l2_bytes
    sizes = {
        "first cache": cpu.l1_bytes // 2,
        "second cache": cpu.l2_bytes // 2,
        "last cache": cpu.l3_bytes // 4,
        "memory": last * 8,
    }
    return {level: size for level, size in sizes.items() if size}
