"""A packed call with three tensors, ours beside tvm-ffi's: the same compiled function, calls interleaved, medians."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import torch
import tvm_ffi

from benchmarks.options import takes_json, write_json
from tilewright import runtime
from tilewright.runtime import _ffi
from tilewright.support.linker import link_shared

CALLS, ROUNDS = 20000, 31
NOP = "define i32 @__tvm_ffi_nop(ptr %self, ptr %args, i32 %n, ptr %ret) {\n  ret i32 0\n}\n"


def nanoseconds(call: Callable[..., Any], args: tuple[Any, ...]) -> float:
    """Time of one call in a batch."""
    a, b, c = args
    start = time.perf_counter_ns()
    for _ in range(CALLS):
        call(a, b, c)
    return (time.perf_counter_ns() - start) / CALLS


def library(folder: Path) -> Path:
    """A library with one function that does nothing."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic")
    (folder / "nop.o").write_bytes(machine.emit_object(llvm.parse_assembly(NOP)))
    link_shared([folder / "nop.o"], folder / "nop.so")
    return folder / "nop.so"


def main(argv: list[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks packed_call", description=__doc__)
    takes_json(parser)
    options = parser.parse_args(argv)
    results = []
    with tempfile.TemporaryDirectory() as name:
        path = library(Path(name))
        ours = runtime.load_module(path)["nop"]
        theirs = tvm_ffi.load_module(str(path)).get_function("nop")
    torch_args = tuple(torch.zeros(4) for _ in range(3))
    our_args = tuple(runtime.empty((4,)) for _ in range(3))
    their_args = tuple(tvm_ffi.from_dlpack(t) for t in torch_args)
    cases = {
        "own tensors": ((ours, our_args), (theirs, their_args)),
        "torch tensors": ((ours, torch_args), (theirs, torch_args)),
    }
    print(f"{'arguments':<16}{'ours ns':>10}{'tvm-ffi ns':>12}{'ratio':>8}")
    for label, (mine, other) in cases.items():
        pairs = [(nanoseconds(*mine), nanoseconds(*other)) for _ in range(ROUNDS)]
        ratio = statistics.median(a / b for a, b in pairs)
        a, b = (statistics.median(column) for column in zip(*pairs, strict=True))
        results.append({"arguments": label, "ns": a, "tvm_ffi_ns": b, "ratio": ratio})
        print(f"{label:<16}{a:>10.0f}{b:>12.0f}{ratio:>8.2f}")
    _ffi.empty_regions(1000, 2)
    regions = []
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        _ffi.empty_regions(CALLS, 2)
        regions.append((time.perf_counter_ns() - start) / CALLS)
    print(f"empty parallel region of 2 tasks at {runtime.num_threads()} threads: {statistics.median(regions):.0f} ns")
    write_json(options, {"calls": results, "empty_region_ns": statistics.median(regions)})


if __name__ == "__main__":
    main()
