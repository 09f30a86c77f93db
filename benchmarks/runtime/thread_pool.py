"""Latency of an empty parallel region of the pool: regions back to back, after pauses, with torch's pool in between, and in callers
of two threads at once; and what a region of a few microseconds for each thread takes beyond one of its tasks.

python -m benchmarks thread_pool [--threads 2]
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import threading
import time
from collections.abc import Callable

import torch

from benchmarks.options import takes_json, thread_count, write_json
from tilewright import runtime
from tilewright.codegen.llvm import compile_object, load_objects
from tilewright.runtime import _ffi
from tilewright.target import Target

ROUNDS, REGIONS = 41, 2000

TEXT = """
target triple = "{triple}"
define i32 @task(i32 %i, i32 %n, ptr %data) {{
  ret i32 0
}}
define i32 @busy(i32 %i, i32 %n, ptr %data) {{
entry:
  br label %loop
loop:
  %k = phi i32 [ 0, %entry ], [ %next, %loop ]
  %next = add i32 %k, 1
  call void asm sideeffect "", ""()
  %more = icmp ult i32 %next, 20000
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}}
define i32 @busy_regions(ptr %launch, i64 %count, i32 %tasks) {{
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %loop ]
  %code = call i32 %launch(ptr @busy, ptr null, i32 %tasks)
  %next = add i64 %k, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}}
define i32 @regions(ptr %launch, i64 %count, i32 %tasks) {{
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %loop ]
  %code = call i32 %launch(ptr @task, ptr null, i32 %tasks)
  %next = add i64 %k, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}}
"""


def measured(call: Callable[[], None], count: int) -> float:
    """Microseconds for each of the `count` regions of a call."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) / count * 1e6


def main(argv: list[str] | None = None) -> int:
    """Prints microseconds a region: medians, and the least and the greatest of the rounds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks thread_pool", description=__doc__)
    parser.add_argument("--threads", default="2")
    takes_json(parser)
    options = parser.parse_args(argv)
    threads = thread_count(parser, options.threads)
    runtime.set_num_threads(threads)
    torch.set_num_threads(threads)
    target = Target("llvm")
    loaded = load_objects([compile_object(TEXT.format(triple=target.triple), target)], ["regions", "busy_regions"])
    busy = loaded.function("busy_regions", ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32)
    run = loaded.function("regions", ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32)
    launch = ctypes.cast(ctypes.CDLL(_ffi.__file__).TWParallelLaunch, ctypes.c_void_p)
    matrix = torch.ones(256, 256)

    def paused(seconds: float) -> float:
        time.sleep(seconds)
        return measured(lambda: run(launch, 1, threads), 1)

    def spun(seconds: float) -> float:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            pass
        return measured(lambda: run(launch, 1, threads), 1)

    def after_torch() -> float:
        torch.mm(matrix, matrix)
        return measured(lambda: run(launch, 20, threads), 20)

    def handed_over() -> float:
        """What a region of equal tasks takes beyond one of them."""
        return measured(lambda: busy(launch, 50, threads), 50) - measured(lambda: busy(launch, 50, 1), 50)

    def two_callers() -> float:
        other = threading.Thread(target=lambda: run(launch, REGIONS, threads))
        other.start()
        found = measured(lambda: run(launch, REGIONS, threads), REGIONS)
        other.join()
        return found

    cases: dict[str, Callable[[], float]] = {
        "back to back": lambda: measured(lambda: run(launch, REGIONS, threads), REGIONS),
        "one task (no region)": lambda: measured(lambda: run(launch, REGIONS, 1), REGIONS),
        "one, after 50 us of serial work": lambda: spun(50e-6),
        "one, after 5 ms of sleep": lambda: paused(5e-3),
        "20 after a product of torch": after_torch,
        "with a second caller": two_callers,
        "hand-over to all threads": handed_over,
    }
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, case in cases.items():
            times[name].append(case())
    print(f"microseconds for an empty parallel region, {runtime.num_threads()} threads, {ROUNDS} interleaved rounds")
    print(f"{'regions':34}{'median':>10}{'least':>10}{'most':>10}")
    for name, found in times.items():
        print(f"{name:34}{statistics.median(found):10.2f}{min(found):10.2f}{max(found):10.2f}")
    write_json(options, {"threads": threads, "us": times})
    return 0
