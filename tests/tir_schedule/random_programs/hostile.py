"""Random programs that strain what primitives assume: several writers, updates in place, predicates, odd bindings, views."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np

from tilewright.codegen.interp import InterpError, run
from tilewright.script import from_source
from tilewright.tir import PrimFunc

SIZE = 7
"""Elements in each dimension of every buffer, unless blocks are to fill them."""


class _Writer:
    """The text of one program."""

    def __init__(self, rng: random.Random, symbolic: bool) -> None:
        self.rng, self.symbolic = rng, symbolic
        self.lines: list[str] = []
        # Half of the programs have nests that run over whole buffers.
        self.size = rng.choice([SIZE, SIZE, 3, 4])
        self.ranks = {name: rng.choice([1, 1, 2]) for name in ("A", "B", "C", "D")}
        self.blocks = self.names = 0
        # Mild programs are mostly what primitives accept; one thing or another in them is odd.
        self.mild = rng.random() < 0.6
        self.last = "A"
        self.driven: set[str] = set()
        """Loops of `n` iterations."""
        self.sizes = (3, 1, 0) if symbolic else (0,)

    def odd(self, chance: float) -> bool:
        return self.rng.random() < (chance * 0.25 if self.mild else chance)

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def text(self) -> str:
        self.put(0, "@T.prim_func")
        if self.symbolic:
            self.put(0, "def main(a: T.handle, d: T.handle, n: T.int32):")
        else:
            self.put(0, "def main(a: T.handle, d: T.handle):")
        for name in ("A", "D"):
            self.put(1, f"{name} = T.match_buffer({name.lower()}, {self.shape(name)})")
        self.put(1, 'with T.block("root"):')
        for name in ("B", "C"):
            self.put(2, f"{name} = T.alloc_buffer({self.shape(name)})")
        for _ in range(self.rng.choice([1, 2, 2, 3, 3, 4])):
            self.nest(2, [], self.rng.choice([1, 1, 2, 2, 3]))
        return "\n".join(self.lines) + "\n"

    def shape(self, name: str) -> str:
        return f"({', '.join([str(self.size)] * self.ranks[name])},)"

    def fresh(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def nest(self, depth: int, loops: list[tuple[str, int]], levels: int) -> None:
        rng = self.rng
        if levels == 0:
            self.block(depth, loops)
            return
        var = self.fresh("i")
        extent = rng.choice([1, 2, 2, 3, 3, 4, 5])
        if self.size < SIZE and rng.random() < 0.75:
            extent = self.size
        if self.odd(0.02):
            extent = 0
        if self.symbolic and rng.random() < 0.4:
            header, extent = f"for {var} in range(n):", 3
            self.driven.add(var)
        elif self.odd(0.06):
            low = rng.choice([1, 2, -1])
            header = f"for {var} in range({low}, {extent + low}):"
        elif loops and self.odd(0.04):
            header = f"for {var} in range({loops[-1][0]} + 1):"
            extent = loops[-1][1]
        else:
            kind = rng.choice(["range"] * 12 + ["T.unroll"])
            header = f"for {var} in {kind}({extent}):"
        self.put(depth, header)
        inner = [*loops, (var, extent)]
        if self.odd(0.04):
            depth += 1
            self.put(depth, f"if {var} > 0:")
        for _ in range(2 if self.odd(0.25) else 1):
            self.nest(depth + 1, inner, 0 if self.odd(0.1) else levels - 1)

    def binding(self, loops: list[tuple[str, int]]) -> tuple[str, int]:
        """A value for an iteration variable, and its greatest value plus one."""
        rng = self.rng
        if not loops or rng.random() < 0.05:
            return rng.choice([("0", 1), ("1", 2)])
        (i, n), (j, m) = rng.choice(loops), rng.choice(loops)
        roll = rng.random()
        if roll < 0.72:
            return i, n
        return rng.choice(
            [
                (f"{i} + {j}", n + m - 1),
                (f"{i} * {m} + {j}", n * m),
                (f"{i} // 2", (n + 1) // 2),
                (f"{i} % 2", min(n, 2)),
                (f"{i} * 2", 2 * n - 1),
                (f"{n - 1} - {i}", n),
                (f"{i} + 1", n + 1),
                (f"T.min({i}, {j})", min(n, m)),
            ]
        )

    def index(self, vars_: list[tuple[str, int]]) -> str:
        rng = self.rng
        if not vars_ or self.odd(0.06):
            return str(rng.choice([0, 0, 1, 2]))
        v, n = rng.choice(vars_)
        if not self.odd(0.4):
            return v
        u, _ = rng.choice(vars_)
        return rng.choice(
            [f"{v} + 1", f"{v} + 2", f"{v} * 2", f"{v} // 2", f"{v} % 3", f"{max(n, 1) - 1} - {v}", f"{v} + {u}"]
        )

    def access(self, name: str, vars_: list[tuple[str, int]]) -> str:
        if self.ranks[name] == 2 and len(vars_) > 1 and not self.odd(0.3):
            first, second = self.rng.sample(vars_, 2)
            return f"{name}[{first[0]}, {second[0]}]"
        return f"{name}[{', '.join([self.index(vars_) for _ in range(self.ranks[name])])}]"

    def block(self, depth: int, loops: list[tuple[str, int]]) -> None:
        rng = self.rng
        self.blocks += 1
        self.put(depth, f'with T.block("b{self.blocks}"):')
        depth += 1
        spatial: list[tuple[str, int]] = []
        reduced: list[tuple[str, int]] = []
        update = rng.random() < 0.35
        direct = not self.odd(0.6)
        short: list[str] = []
        for number in range(max(len(loops), 1) if direct else rng.choice([1, 2, 2, 3])):
            value, extent = self.binding(loops)
            if loops and (direct or rng.random() < 0.6):
                value, extent = loops[min(number, len(loops) - 1)]
            kind = "S"
            if update and rng.random() < 0.5:
                kind = "R"
            elif self.odd(0.02):
                kind = "O"
            var = self.fresh("v")
            names = {"S": "spatial", "R": "reduce", "O": "opaque"}
            domain, first = str(max(extent, 1) + (1 if self.odd(0.05) else 0)), 0
            if rng.random() < 0.06:
                first = rng.choice([1, 1, 2, -1])
                domain, value = f"({first}, {int(domain) + first})", f"{value} + {first}"
            elif extent > 1 and rng.random() < 0.06:
                # The loops go further than the domain.
                extent -= 1
                domain = str(extent)
                short.append(f"{value} < {extent}")
            if self.symbolic and rng.random() < 0.3 and any(value == i for i, _ in loops):
                domain = "n" if extent == 3 else domain
            self.put(depth, f"{var} = T.axis.{names[kind]}({domain}, {value})")
            (reduced if kind == "R" else spatial).append((var, extent + max(first, 0)))
            if kind == "R" and self.driven.intersection(re.findall(r"\w+", value)):
                self.sizes = (3, 1)  # what is reduced over nothing is undefined
        if loops and self.odd(0.15):
            i, n = rng.choice(loops)
            j, m = rng.choice(loops)
            short.append(
                rng.choice([f"{i} < {max(n - 1, 1)}", f"{i} * {m} + {j} < {n * m - 1}", f"{i} + {j} < 3", f"{i} >= 1"])
            )
        if short:
            self.put(depth, f"T.where({' and '.join(short)})")
        self.body(depth, spatial, reduced, update)

    def body(self, depth: int, spatial: list[tuple[str, int]], reduced: list[tuple[str, int]], update: bool) -> None:
        rng = self.rng
        both = spatial + reduced
        target = rng.choice(["B", "B", "C", "C", "D"])
        source = rng.choice(["A", "A", "B", "C", "D"])
        if self.mild:
            target = {"A": "B", "B": "C", "C": "D", "D": "D"}[self.last] if rng.random() < 0.7 else target
            source = self.last if rng.random() < 0.8 else source
        self.last = target
        out, load = self.access(target, spatial), self.access(source, both)
        if self.odd(0.05) and self.ranks[source] == 1:
            view = self.fresh("M")
            self.put(
                depth,
                f"{view} = T.match_buffer({source}[{self.index(spatial)} : 7], ({rng.choice([1, 2])},), offset_factor=1)",
            )
            self.lines.pop()
            at = self.index(spatial)
            self.put(depth, f"{view} = T.match_buffer({source}[{at} : {at} + 2], (2,), offset_factor=1)")
            load = f"{view}[{rng.choice([0, 1])}]"
        if update:
            if rng.random() < 0.7:
                self.put(depth, "with T.init():")
                self.put(depth + 1, f"{out} = T.float32(0)")
            op = rng.choice(["+", "+", "+", "*", "max", "-"])
            value = f"T.max({out}, {load})" if op == "max" else f"{out} {op} {load}"
            self.put(depth, f"{out} = {value}")
            return
        if self.odd(0.06):
            inner = self.fresh("k")
            self.put(depth, f"for {inner} in range({rng.choice([1, 2])}):")
            depth += 1
            load = self.access(source, [*both, (inner, 2)])
        if self.odd(0.05):
            self.put(depth, f"if {self.index(both)} < 2:")
            depth += 1
        value = rng.choice([load, f"{load} + T.float32(1)", f"{load} * T.float32(2)", "T.float32(3)"])
        if rng.random() < 0.3:
            value = f"{value} + {self.access(rng.choice(['A', 'B', 'C']), both)}"
        if rng.random() < 0.06:
            value = f"T.if_then_else({self.index(both)} < 2, {load}, T.float32(0))"
        self.put(depth, f"{out} = {value}")
        if self.odd(0.05):
            self.put(depth, f"{self.access(rng.choice(['B', 'C', 'D']), spatial)} = T.float32(5)")


def arguments(func: PrimFunc, n: int) -> list[Any]:
    """Small integers in A, a mark in D: what is not written must stay."""
    rng = np.random.default_rng(5)
    a, d = [func.buffer_map[p] for p in func.params[:2]]
    arrays: list[Any] = [
        rng.integers(1, 4, [int(x) for x in a.shape]).astype("float32"),
        np.arange(np.prod([int(x) for x in d.shape]), dtype="float32").reshape([int(x) for x in d.shape]) + 50,
    ]
    return [*arrays, n] if len(func.params) > 2 else arrays


def outcome(func: Any, sizes: tuple[int, ...] = (0,)) -> list[np.ndarray]:
    """The output for each size that is tried. InterpError where the program is wrong."""
    out = []
    main = func if isinstance(func, PrimFunc) else func["main"]
    for n in sizes:
        args = arguments(main, n)
        run(main, args)
        out.append(args[1])
    return out


def hostile_program(seed: int) -> tuple[PrimFunc, list[np.ndarray], str, tuple[int, ...]]:
    """A program that runs, what it computes, its text, and the values of its symbolic size that are tried."""
    rng = random.Random(seed)
    while True:
        writer = _Writer(rng, rng.random() < 0.15)
        text = writer.text()
        func = from_source(text)
        try:
            return func, outcome(func, writer.sizes), text, writer.sizes
        except InterpError:
            continue
