"""`python -m tests.fuzz.loops --count 2000`: random loop nests through LLVM's whole pipeline, for every machine.

Loops are long enough for vectors, and go forwards, backwards and in steps over buffers of every type, with guards, choices, sums,
recurrences and bounds that are data. Each is compiled for this machine and for some others; what this machine can run must
answer as the interpreter does. Batches run in processes of their own, since LLVM ends the process where it loses its way.
"""

from __future__ import annotations

import argparse
import ctypes
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tests.fuzz.native import Guarded
from tilewright.codegen import interp
from tilewright.codegen.interp.values import np_type
from tilewright.codegen.llvm import compile_object, emit_module, load_objects
from tilewright.codegen.llvm.native.effort import SHORT, WHOLE
from tilewright.driver.pipeline import host_pipeline
from tilewright.ir import DataType, IRModule, PrimExpr
from tilewright.support.errors import InternalError, TVMError
from tilewright.target import Target
from tilewright.tir import (
    Allocate,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    Let,
    LetStmt,
    Not,
    PrimFunc,
    Select,
    Stmt,
    Var,
    While,
    all,
    any,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    const,
    decl_buffer,
    floordiv,
    floormod,
    if_then_else,
    max,
    min,
    shift_left,
    shift_right,
    stmt_seq,
    truncdiv,
    truncmod,
)
from tilewright.tir import abs as magnitude
from tilewright.tir.expr import Cast

X86, ARM = "llvm -mtriple=x86_64-unknown-linux-gnu", "llvm -mtriple=aarch64-unknown-linux-gnu"
OWN = "llvm"
OTHERS = (
    *[f"{X86} -mcpu={cpu}" for cpu in ("x86-64", "haswell", "skylake-avx512", "sapphirerapids", "znver4")],
    ARM, *[f"{ARM} -mcpu={cpu}" for cpu in ("cortex-a72", "neoverse-v1", "neoverse-n2")],
    "llvm -mtriple=arm64-apple-macosx -mcpu=apple-m1",
    "llvm -mtriple=riscv64-unknown-linux-gnu -mattr=+m,+a,+f,+d,+v", "llvm -mtriple=riscv64-unknown-linux-gnu -mattr=+m,+a,+f,+d",
    "llvm -mtriple=armv7-unknown-linux-gnueabihf -mattr=+neon", "llvm -mtriple=wasm32-unknown-unknown -mattr=+simd128",
)  # fmt: skip
FLOATS = ("float32", "float32", "float32", "float64", "float16", "bfloat16")
DTYPES = (
    *FLOATS,
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "int4",
    "uint4",
)
COMMAND = [sys.executable, "-m", "tests.fuzz.loops"]
PER_PROCESS, OTHERS_EACH = 40, 3
SIZE = 200
"""Elements of every buffer."""

Loop = tuple[Var, int, int]
"""A variable, and the least and largest value that it takes."""


class Generator:
    """The program of a seed: a function on three buffers that are read, two that are written too, and a size."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"{seed}/loops")
        kinds = [self.rng.choice(DTYPES) for _ in range(5)]
        kinds[1] = self.rng.choice([kinds[0], kinds[1]])
        kinds[3] = self.rng.choice([kinds[0], kinds[3]])
        self.buffers = [decl_buffer((SIZE,), kind, name) for kind, name in zip(kinds, "ABCxy", strict=True)]
        self.written = self.buffers[3:]
        # What is only written needs no order of its rounds.
        self.read = self.buffers[: self.rng.choice([3, 3, 5])]
        self.size = Var("n", self.rng.choice(["int32", "int64"]))
        self.count = self.rng.choice([1, 7, 17, 33, 60])
        self.loops: list[Loop] = []
        self.lets: list[Var] = []
        self.names = 0

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    # ---- indices

    def index(self) -> PrimExpr:
        """A sum of loop variables, each forwards, backwards, in steps or not at all, within a buffer."""
        chosen = self.rng.random()
        if not self.loops:
            return const(self.rng.randrange(SIZE), "int32")
        if chosen < 0.1:
            kinds = [b for b in self.read if b.dtype in ("int32", "int64", "uint8", "int8")]
            if kinds:
                found = BufferLoad(self.rng.choice(kinds), (self.affine(),))
                return floormod(Cast("int32", found), const(SIZE, "int32"))
        return self.affine()

    def affine(self) -> PrimExpr:
        total: Any = None
        low = high = 0
        for var, least, most in reversed(self.loops):
            inner = var is self.loops[-1][0]
            step = self.rng.choice([1, 1, 1, -1, -1, 2, -2, 3, 0] if inner else [0, 0, 1, -1, 7])
            ends = sorted((step * least, step * most))
            if not step or high + ends[1] - low - ends[0] >= SIZE:
                continue
            low, high = low + ends[0], high + ends[1]
            wide = (
                var if str(var.dtype) == "int64" or total is None or str(total.dtype) == "int32" else Cast("int64", var)
            )
            if total is not None and str(wide.dtype) == "int64" and str(total.dtype) == "int32":
                total = Cast("int64", total)
            part = wide * const(step, str(wide.dtype))
            total = part if total is None else total + part
        place = self.rng.randint(-low, SIZE - 1 - high)
        if total is None:
            return const(place, "int32")
        found = total + const(place, str(total.dtype))
        if self.rng.random() < 0.8:
            return found
        # What the emitter of affine indices sees as one number.
        named = Var(self.name("at"), total.dtype)
        return Let(named, found, named)

    # ---- values

    def value(self, dtype: str, depth: int) -> Any:
        rng = self.rng
        if dtype == "bool":
            return self.truth(depth)
        if depth <= 0 or rng.random() < 0.2:
            return self.leaf(dtype)
        a, b = self.value(dtype, depth - 1), self.value(dtype, depth - 1)
        kind = DataType(dtype)
        shapes: list[Callable[[], Any]] = [
            lambda: a + b, lambda: a - b, lambda: a * b, lambda: min(a, b), lambda: max(a, b), lambda: a + b - b,
            lambda: Select(self.truth(1), a, b), lambda: if_then_else(self.truth(1), a, b), lambda: self.cast(dtype, depth),
        ]  # fmt: skip
        if kind.is_int or kind.is_uint:
            divisor = const(rng.choice([2, 3, 4, 7, 8 if kind.bits > 4 else 5]), dtype)
            few = const(rng.randrange(4), dtype)
            shapes += [
                lambda: floordiv(a, divisor), lambda: floormod(a, divisor), lambda: truncdiv(a, divisor), lambda: truncmod(a, divisor),
                lambda: bitwise_and(a, b), lambda: bitwise_or(a, b), lambda: bitwise_xor(a, b), lambda: shift_right(a, few),
                lambda: shift_left(bitwise_and(a, const(7, dtype)), few),
            ]  # fmt: skip
        if not kind.is_uint:
            shapes += [lambda: magnitude(a), lambda: -a]
        return rng.choice(shapes)()

    def cast(self, dtype: str, depth: int) -> Any:
        source = self.rng.choice([b.dtype for b in self.read])
        return Cast(dtype, self.value(str(source), depth - 1))

    def leaf(self, dtype: str) -> Any:
        rng = self.rng
        same = [b for b in self.read if b.dtype == dtype]
        pick = rng.random()
        if same and pick < 0.7:
            return BufferLoad(rng.choice(same), (self.index(),))
        if pick < 0.8:
            return const(rng.choice([0, 1, 2, 3]), dtype)
        if pick < 0.9 and (self.loops or self.lets):
            return Cast(dtype, rng.choice([*[v for v, _, _ in self.loops], *self.lets]))
        return Cast(dtype, BufferLoad(rng.choice(self.read), (self.index(),)))

    def truth(self, depth: int) -> Any:
        rng = self.rng
        flags = [b for b in self.read if b.dtype == "bool"]
        if flags and rng.random() < 0.25:
            return BufferLoad(rng.choice(flags), (self.index(),))
        if depth > 1 and rng.random() < 0.3:
            a, b = self.truth(depth - 1), self.truth(depth - 1)
            return rng.choice([lambda: all(a, b), lambda: any(a, b), lambda: Not(a)])()
        if self.loops and rng.random() < 0.4:
            var, least, most = rng.choice(self.loops)
            kind = str(var.dtype)
            if rng.random() < 0.5:
                return floormod(var, const(rng.choice([2, 3, 4]), kind)).equal(const(rng.choice([0, 1]), kind))
            return rng.choice(
                [lambda: var < const(rng.randint(least, most + 1), kind), lambda: var < Cast(kind, self.size)]
            )()
        dtype = str(rng.choice([b.dtype for b in self.read if b.dtype != "bool"] or ["int32"]))
        a, b = self.value(dtype, depth - 1), self.value(dtype, depth - 1)
        return rng.choice([lambda: a < b, lambda: a <= b, lambda: a.equal(b), lambda: a > b])()

    # ---- statements

    def extent(self, kind: str) -> tuple[Any, int]:
        """Of a loop: known, a parameter, or what is less by some; and how many rounds that is."""
        if self.rng.random() < 0.3:
            less = self.rng.choice([0, 0, 1, 5])
            size: Any = self.size if self.size.dtype == kind else Cast(kind, self.size)
            return (size if not less else max(size - const(less, kind), const(0, kind))), np.maximum(
                self.count - less, 0
            )
        inside = len(self.loops) > 1
        count = self.rng.choice([2, 5, 12] if inside else [3, 8, 16, 31, 32, 61])
        return const(count, kind), count

    def loop(self, body: Callable[[], Stmt]) -> Stmt:
        kind = self.rng.choice(["int32", "int32", "int64"])
        extent, count = self.extent(kind)
        first = self.rng.choice([0, 0, 0, 1, 3])
        how = self.rng.choice([ForKind.SERIAL] * 6 + [ForKind.UNROLLED, ForKind.VECTORIZED])
        if how != ForKind.SERIAL and not (isinstance(extent, PrimExpr) and hasattr(extent, "value") and count <= 16):
            how = ForKind.SERIAL
        var = Var(self.name("i"), kind)
        self.loops.append((var, first, int(first + np.maximum(count, 1) - 1)))
        inner = body()
        self.loops.pop()
        return For(var, const(first, kind), extent, how, inner)

    def store(self) -> Stmt:
        target = self.rng.choice(self.written)
        dtype = str(target.dtype)
        value, at = self.value(dtype, self.rng.choice([1, 2, 3])), self.index()
        if dtype != "bool" and self.rng.random() < 0.25:
            value = self.rng.choice([lambda a, b: a + b, max, min])(BufferLoad(target, (at,)), value)
        return BufferStore(target, value, (at,))

    def sum(self) -> Stmt:
        """A local that a loop adds to, and the place where it goes."""
        target = self.rng.choice(self.written)
        dtype = str(target.dtype)
        if dtype == "bool":
            return self.store()
        cell = decl_buffer((1,), dtype, self.name("sum"), scope="local")
        combine = self.rng.choice([lambda a, b: a + b, lambda a, b: a + b, max, min, lambda a, b: a - b])
        zero = const(0, "int32")

        def step() -> Stmt:
            done = BufferStore(cell, combine(BufferLoad(cell, (zero,)), self.value(dtype, 2)), (zero,))
            return IfThenElse(self.truth(1), done) if self.rng.random() < 0.3 else done

        body = stmt_seq(
            BufferStore(cell, const(0, dtype), (zero,)),
            self.loop(step),
            BufferStore(target, BufferLoad(cell, (zero,)), (self.index(),)),
        )
        return Allocate(cell.data, DataType(dtype), (1,), const(True), body)

    def until(self) -> Stmt:
        """A loop that goes on while a counter is below what the data say, and below a bound."""
        cell = decl_buffer((1,), "int32", self.name("k"), scope="local")
        zero, now = const(0, "int32"), BufferLoad(cell, (const(0, "int32"),))
        most = const(self.rng.choice([5, 20, 40]), "int32")
        goes_on = now < most if self.rng.random() < 0.5 else all(now < most, self.truth(1))
        body = stmt_seq(self.statement(0), BufferStore(cell, now + const(self.rng.choice([1, 3]), "int32"), (zero,)))
        whole = stmt_seq(BufferStore(cell, zero, (zero,)), While(goes_on, body))
        return Allocate(cell.data, DataType("int32"), (1,), const(True), whole)

    def statement(self, depth: int) -> Stmt:
        pick = self.rng.random()
        if depth <= 0 or pick < 0.3:
            return self.store()
        if pick < 0.5:
            other = self.statement(depth - 1) if self.rng.random() < 0.4 else None
            return IfThenElse(self.truth(2), self.statement(depth - 1), other)
        if pick < 0.6:
            var = Var(self.name("v"), "int32")
            value = floormod(self.value("int32", 1), const(50, "int32"))
            self.lets.append(var)
            body = self.statement(depth - 1)
            self.lets.pop()
            return LetStmt(var, value, body)
        if pick < 0.75:
            return stmt_seq(self.statement(depth - 1), self.statement(depth - 1))
        if pick < 0.8:
            return self.until()
        if pick < 0.9:
            return self.sum()
        return self.loop(lambda: self.statement(depth - 1)) if len(self.loops) < 3 else self.store()

    def function(self) -> PrimFunc:
        body = stmt_seq(*[self.loop(lambda: self.statement(2)) for _ in range(self.rng.choice([1, 1, 2]))])
        handles = {Var(f"{b.name}_handle", "handle"): b for b in self.buffers}
        attrs = {"global_symbol": "main", "tir.noalias": True}
        return PrimFunc([*handles, self.size], body, buffer_map=handles, attrs=attrs)

    def arrays(self) -> list[np.ndarray[Any, Any]]:
        """Small integers, so that products and sums are exact in any order of rounding."""
        rng = np.random.default_rng(self.rng.randrange(2**32))
        found = []
        for b in self.buffers:
            low = 0 if b.dtype == "bool" or str(b.dtype).startswith("uint") else -2
            found.append(rng.integers(low, 2 if b.dtype == "bool" else 4, SIZE).astype(np_type(DataType(str(b.dtype)))))
        return found


def machines(seed: int) -> list[str]:
    """This machine, and some others."""
    return [OWN, *random.Random(f"{seed}/machines").sample(OTHERS, OTHERS_EACH)]


def runs_here(target: Target) -> bool:
    own = Target(OWN)
    return target.triple == own.triple and set(target.features) <= set(own.features)


def object_of(func: PrimFunc, target: Target, level: int) -> bytes:
    """The function's object code, at a level of LLVM's effort."""
    mod = host_pipeline(target, unpacked=True)(IRModule({"main": func}))
    return compile_object(emit_module(mod, target), target, level)


def ran(code: bytes, arrays: Sequence[np.ndarray[Any, Any]], size: int, kind: str) -> list[np.ndarray[Any, Any]]:
    """The arrays after the code ran on copies of them."""
    given = [Guarded(a) for a in (*arrays, np.array(size, kind))]
    entry = load_objects([code], ["main"]).function("main", ctypes.c_void_p)
    assert entry((ctypes.c_void_p * len(given))(*[g.array.ctypes.data for g in given])) == 0
    assert np.all([g.intact for g in given]), "it wrote outside of a buffer"
    return [g.array for g in given[:-1]]


def check(seed: int, say: Callable[[str], None] = lambda text: None) -> str:
    """What is wrong with a seed's program: nothing, or a line."""
    made = Generator(seed)
    func, arrays = made.function(), made.arrays()
    want = [a.copy() for a in arrays]
    with np.errstate(all="ignore"):
        interp.run(func, [*want, made.count])
    for name in machines(seed):
        target = Target(name)
        for level in (WHOLE, SHORT) if seed % 5 == 0 else (WHOLE,):
            say(f"{seed} at {level} for {name}")
            try:
                code = object_of(func, target, level)
            except InternalError as error:
                return f"seed {seed} at {level} for {name}: {error}"
            except TVMError as error:
                say(f"refused: {error}")
                continue
            if not runs_here(target):
                continue
            got = ran(code, arrays, made.count, str(made.size.dtype))
            for b, x, y in zip(made.buffers, want, got, strict=True):
                if not equal(x, y):
                    return f"seed {seed} at {level} for {name}: {b.name} ({b.dtype}) differs"
    return ""


ROUNDING = {"float64": 1e-12, "float32": 1e-5, "float16": 1e-2, "bfloat16": 5e-2}


def equal(want: np.ndarray[Any, Any], got: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays hold the same numbers; those that have grown beyond what is exact may be rounded once or twice."""
    if want.dtype.name not in ROUNDING:
        return np.array_equal(want, got)
    x, y = want.astype("float64"), got.astype("float64")
    with np.errstate(all="ignore"):
        return np.allclose(x, y, rtol=ROUNDING[want.dtype.name], atol=1e-6, equal_nan=True)


def batch(first: int, count: int) -> None:
    """Checks seeds, and says where it is, for who watches."""
    for seed in range(first, first + count):
        try:
            found = check(seed, lambda text: print(f"now {text}", flush=True))
        except Exception as error:
            found = f"seed {seed}: {type(error).__name__}: {error}"
        if found:
            print("FOUND", found.replace("\n", " | ")[:1000], flush=True)


def findings(first: int, count: int, totals: Counter[str]) -> Iterator[str]:
    """What is found in the seeds from `first` on."""
    at, end = first, first + count
    while at < end:
        many = np.minimum(PER_PROCESS, end - at)
        try:
            done = subprocess.run([*COMMAND, "--batch", f"{at},{many}"], capture_output=True, text=True, timeout=600)
            lines, status, complaint = done.stdout.splitlines(), done.returncode, done.stderr
        except subprocess.TimeoutExpired as error:
            lines, status, complaint = (error.stdout or b"").decode().splitlines(), -1, "it hangs"
        yield from [line[6:] for line in lines if line.startswith("FOUND ")]
        told = [line[4:] for line in lines if line.startswith("now ")]
        places = [line for line in told if not line.startswith("refused")]
        totals["compiled"] += len(places)
        totals["refused"] += len(told) - len(places)
        if status == 0:
            at += many
            continue
        last = complaint.strip().splitlines()[-1] if complaint.strip() else ""
        yield f"seed {places[-1] if places else at}: the process ends with {status}: {last}"
        at = int(places[-1].split()[0]) + 1 if places else at + 1


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.loops", description=__doc__.split("`: ")[1].split("\n")[0]
    )
    parser.add_argument("--count", type=int, default=200, help="how many programs")
    parser.add_argument("--seed", type=int, default=0, help="the first program's seed")
    parser.add_argument("--show", type=int, help="print the program of this seed")
    parser.add_argument("--batch", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.show is not None:
        print(Generator(options.show).function().script())
        return 0
    if options.batch:
        batch(*map(int, options.batch.split(",")))
        return 0
    totals: Counter[str] = Counter()
    failures = 0
    for line in findings(options.seed, options.count, totals):
        failures += 1
        print(line, flush=True)
    print(f"{options.count} programs from seed {options.seed}, {dict(totals)}, {failures} failures", file=sys.stderr)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
