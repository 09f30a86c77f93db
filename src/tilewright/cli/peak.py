"""What the machine can do at most: multiply-adds on registers alone, measured beside the kernels that are compared with it."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tilewright.codegen.llvm.build import unfit
from tilewright.codegen.llvm.native.jit import load_objects
from tilewright.codegen.llvm.native.target_machine import compile_object
from tilewright.support.errors import TVMError
from tilewright.support.processors import usable_processors
from tilewright.target import Target
from tilewright.target.cpu import CpuFacts
from tilewright.tir.tensor_intrin.amx import KINDS, SIDE, configuration

Types = tuple[str, str, str]
"""Element types of two factors and of their sum."""
FLOATS: Types = ("float32", "float32", "float32")
DOUBLES: Types = ("float64", "float64", "float64")
BFLOATS: Types = ("bfloat16", "bfloat16", "float32")
BYTES: Types = ("uint8", "int8", "int32")
SIGNED: Types = ("int8", "int8", "int32")

STEPS = 4096
SLICE_SECONDS, SAMPLE_SECONDS = 5e-4, 2e-3
"""A slice is long beside reading the clock, and short beside the time that the system gives a thread."""
LEAST_SLICES, MOST_SECONDS = 3, 5e-2
"""Slices of a thread at least, and how long it waits for the others."""
TILES = 8


class MultiplyAdd(NamedTuple):
    """An instruction that adds products of these types to sums: LLVM's intrinsic, how many sums it has, and how many products it adds to
    each. The intrinsics of AMX work on a whole tile register of sums; the others take vectors."""

    types: Types
    name: str
    lanes: int
    group: int = 1

    @property
    def on_tiles(self) -> bool:
        """Whether its operands are numbers of tile registers."""
        return self.name in [kind.instruction for kind in KINDS.values()]

    @property
    def operations(self) -> int:
        """Multiplications and additions that one instruction does."""
        return 2 * self.lanes * self.group


def _x86(*features: str) -> Callable[[CpuFacts], bool]:
    return lambda cpu: cpu.arch == "x86" and cpu.features.issuperset(features)


def _arm(*features: str) -> Callable[[CpuFacts], bool]:
    return lambda cpu: cpu.arch == "aarch64" and cpu.features.issuperset(features)


DOTS: tuple[tuple[MultiplyAdd, Callable[[CpuFacts], bool]], ...] = (
    *[
        (
            MultiplyAdd(k.dtypes, k.instruction, SIDE * SIDE, SIDE * k.group),
            _x86("amx-tile", "amx-bf16" if kind == "bf16" else "amx-int8"),
        )
        for kind, k in KINDS.items()
    ],
    (MultiplyAdd(BYTES, "llvm.x86.avx512.vpdpbusd.512", 16, 4), _x86("avx512vnni")),
    (MultiplyAdd(BYTES, "llvm.x86.avx512.vpdpbusd.256", 8, 4), _x86("avxvnni")),
    (MultiplyAdd(BFLOATS, "llvm.x86.avx512bf16.dpbf16ps.512", 16, 2), _x86("avx512bf16")),
    (MultiplyAdd(SIGNED, "llvm.aarch64.neon.sdot.v4i32.v16i8", 4, 4), _arm("dotprod")),
    (MultiplyAdd(BYTES, "llvm.aarch64.neon.usdot.v4i32.v16i8", 4, 4), _arm("i8mm")),
    (MultiplyAdd(BFLOATS, "llvm.aarch64.neon.bfdot.v4f32.v8bf16", 4, 2), _arm("bf16")),
)
"""Instructions that add several products to each sum, and which processors have them; the better of the same types before the worse."""


def multiply_add(target: Target, types: Types = FLOATS) -> MultiplyAdd:
    """The fastest instruction for products of these types; where they have none, that for float32."""
    for dot, available in DOTS:
        if dot.types == types and available(target.cpu):
            return dot
    types, bits = (DOUBLES, 64) if types[2] == "float64" else (FLOATS, 32)
    lanes = target.cpu.lanes(bits)
    return MultiplyAdd(types, f"llvm.{'fma' if target.cpu.fma else 'fmuladd'}.v{lanes}f{bits}", lanes)


_ELEMENTS = {"float32": "float", "float64": "double", "bfloat16": "bfloat", "int32": "i32", "int8": "i8", "uint8": "i8"}


def peak_text(target: Target, instruction: MultiplyAdd, chains: int) -> str:
    """LLVM IR of `peak(ptr, steps)`: independent chains of multiply-adds in registers, that many steps. The pointer is to 64 bytes."""
    if instruction.on_tiles:
        return _tiles_text(target, instruction)
    total, factor = _ELEMENTS[instruction.types[2]], _ELEMENTS[instruction.types[0]]
    sums, factors = f"<{instruction.lanes} x {total}>", f"<{instruction.lanes * instruction.group} x {factor}>"
    number, add = ("{}", "add") if total == "i32" else ("{}.0", "fadd")
    every = range(chains)
    lines = [
        f"declare {sums} @{instruction.name}({sums}, {factors}, {factors})",
        "define i32 @peak(ptr %args, i64 %steps) {",
        "entry:",
        f"  %x = load {factors}, ptr %args, align 64",
        "  br label %loop",
        "loop:",
        "  %k = phi i64 [ 0, %entry ], [ %k1, %loop ]",
    ]
    lines += [f"  %a{c} = phi {sums} [ splat ({total} {number.format(c)}), %entry ], [ %b{c}, %loop ]" for c in every]
    # Plain multiply-adds chain by a factor: a product of what does not change would be taken out of the loop.
    lines += [f"  %b{c} = call {sums} @{instruction.name}({sums} %a{c}, {factors} %x, {factors} %x)" for c in every]
    lines += ["  %k1 = add i64 %k, 1\n  %c = icmp ult i64 %k1, %steps\n  br i1 %c, label %loop, label %done", "done:"]
    lines += [f"  %s{c} = {add} {sums} {f'%s{c - 1}' if c > 1 else '%b0'}, %b{c}" for c in every[1:]]
    lines += [f"  store {sums} %s{chains - 1}, ptr %args, align 64", "  ret i32 0", "}"]
    return f'target triple = "{target.triple}"\n' + "\n".join(lines) + "\n"


def _tiles_text(target: Target, instruction: MultiplyAdd) -> str:
    """Four registers of sums, and two of each factor: as a matrix product uses them. To configure registers sets them to zero."""
    whole = configuration(dict.fromkeys(range(TILES), (SIDE, 64)))
    products = [
        f"  call void @{instruction.name}(i8 {2 * i + j}, i8 {4 + i}, i8 {6 + j})" for i in range(2) for j in range(2)
    ]
    return "\n".join(
        [
            f'target triple = "{target.triple}"',
            f"@tiles = internal constant [64 x i8] [{', '.join([f'i8 {b}' for b in whole])}]",
            "declare void @llvm.x86.ldtilecfg(ptr)\ndeclare void @llvm.x86.tilerelease()",
            f"declare void @{instruction.name}(i8, i8, i8)",
            "define i32 @peak(ptr %args, i64 %steps) {\nentry:\n  call void @llvm.x86.ldtilecfg(ptr @tiles)\n  br label %loop",
            "loop:\n  %k = phi i64 [ 0, %entry ], [ %k1, %loop ]",
            *products,
            "  %k1 = add i64 %k, 1\n  %c = icmp ult i64 %k1, %steps\n  br i1 %c, label %loop, label %done",
            "done:\n  call void @llvm.x86.tilerelease()\n  ret i32 0\n}\n",
        ]
    )


class Peak:
    """Samples of the rate of an instruction (of multiply-adds of float32, unless another is given) on a number of threads, in operations a
    second.

    All threads work at the same time, so that the clock is that of a machine as busy as under a kernel on as many threads, each in slices
    of half a millisecond. The rate of a sample is the sum of the threads' best slices: what others take of the machine meanwhile, and
    the starting of threads, is in no best slice, while rates of whole threads would miss it and be too low. Raises TVMError where the
    system does not let this process use the instruction.
    """

    def __init__(self, threads: int = 1, instruction: MultiplyAdd | None = None) -> None:
        target = Target("llvm")
        self.instruction = instruction = instruction or multiply_add(target)
        # Threads that share a processor have its rate together.
        self.threads, self.samples = min(threads, usable_processors()), list[float]()
        if instruction.on_tiles and unfit(target):
            raise TVMError(unfit(target))
        # One register holds the factor, and a few stay free; two multiply-add units of latency 4 need 8 chains.
        chains = TILES // 2 if instruction.on_tiles else max(8, target.cpu.vector_registers // 2 - 2)
        text = peak_text(target, instruction, chains)
        loaded = load_objects([compile_object(text, target)], ["peak"])
        self._run = loaded.function("peak", ctypes.c_void_p, ctypes.c_int64)
        self._operations = float(instruction.operations * chains)
        (alone,) = slices_of([self._work(STEPS)])
        best = min([end - begin for begin, end in alone])
        self._steps = max(STEPS, int(STEPS * SLICE_SECONDS / max(best, 1e-7)))

    def _work(self, steps: int) -> Callable[[], object]:
        """A slice: a function for one thread."""
        raw = ctypes.create_string_buffer(192)
        place = (ctypes.addressof(raw) + 63) // 64 * 64
        # The buffer lives as long as the function.
        return lambda raw=raw: self._run(place, steps)  # type: ignore[misc]

    def sample(self) -> float:
        """Measures once, all threads at the same time."""
        made = slices_of([self._work(self._steps) for _ in range(self.threads)])
        rate = together(made) * self._operations * self._steps
        self.samples.append(rate)
        return rate

    @property
    def rate(self) -> float:
        """The best of the samples, since others' work on the machine only takes away; measures a few when there is none."""
        while len(self.samples) < 5:
            self.sample()
        return max(self.samples)


def slices_of(work: Sequence[Callable[[], object]]) -> list[list[tuple[float, float]]]:
    """Begin and end of the slices of threads that work at the same time: each calls its function until all have begun, and for
    SAMPLE_SECONDS from then on."""
    made: list[list[tuple[float, float]]] = []
    begun: list[float] = []
    clock = time.perf_counter

    def run(once: Callable[[], object]) -> None:
        found: list[tuple[float, float]] = []
        first = clock()
        begun.append(first)
        while len(found) < LEAST_SLICES or clock() < (
            max(begun) + SAMPLE_SECONDS if len(begun) == len(work) else first + MOST_SECONDS
        ):
            begin = clock()
            once()
            found.append((begin, clock()))
        made.append(found)

    workers = [threading.Thread(target=run, args=(once,)) for once in work[1:]]
    for worker in workers:
        worker.start()
    run(work[0])
    for worker in workers:
        worker.join()
    return made


def together(made: list[list[tuple[float, float]]]) -> float:
    """Slices a second of all threads: the sum of each one's shortest slice, of those in the time in which all were at work. A thread that
    had none then was kept from running by others, which kept the machine as busy: the shortest of all its slices counts."""
    begin, end = max([slices[0][0] for slices in made]), min([slices[-1][1] for slices in made])
    total = 0.0
    for slices in made:
        met = [b - a for a, b in slices if a >= begin and b <= end]
        total += 1 / min(met or [b - a for a, b in slices])
    return total


def measure_peak(threads: int = 1) -> float:
    """GFLOP/s of float32 multiply-adds on that many threads, measured now."""
    return Peak(threads).rate / 1e9
