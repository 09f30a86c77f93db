"""Random programs that read, test and overwrite the same few buffers: what a pass believes of memory must be true later."""

from __future__ import annotations

import random

Shape = tuple[int, ...]

HEAD = '@T.prim_func\ndef main(A: T.Buffer((6,), "int32"), B: T.Buffer((4, 3), "int32"), C: T.Buffer((8,), "int32")):'
SHAPES: tuple[Shape, ...] = ((6,), (4, 3), (8,))


class Writer:
    """One program: integers below 97, indices that stay inside, storage that is filled where it is made."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"{seed}/imperative")
        self.lines = [HEAD]
        self.count = 0
        self.buffers: list[tuple[str, Shape]] = list(zip("ABC", SHAPES, strict=True))
        self.variables: list[tuple[str, int, int]] = []

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    # --- expressions

    def index(self, n: int, depth: int) -> str:
        """An expression from 0 to n - 1."""
        fit = [(v, lo, hi) for v, lo, hi in self.variables if lo >= 0 and hi - lo < n]
        if fit and self.rng.random() < 0.7:
            v, lo, hi = self.rng.choice(fit)
            return f"{v} + {self.rng.randint(-lo, n - 1 - hi)}"
        return str(self.rng.randrange(n)) if self.rng.random() < 0.5 else f"({self.value(depth - 1)}) % {n}"

    def load(self, depth: int) -> str:
        buffer, shape = self.rng.choice(self.buffers)
        return f"{buffer}[{', '.join([self.index(n, depth) for n in shape])}]"

    def value(self, depth: int) -> str:
        if depth <= 0 or self.rng.random() < 0.25:
            if self.variables and self.rng.random() < 0.6:
                return self.rng.choice(self.variables)[0]
            return self.load(0) if self.rng.random() < 0.3 else str(self.rng.randint(0, 9))
        a, b = self.value(depth - 1), self.value(depth - 1)
        kind = self.rng.choice(["sum", "sum", "times", "divide", "bound", "select", "branch", "load", "load"])
        if kind == "sum":
            return f"({a} {self.rng.choice('+-')} {b})"
        if kind == "times":
            return f"({a} * {self.rng.randint(2, 5)})"
        if kind == "divide":
            return f"({a} {self.rng.choice(['//', '%'])} {self.rng.randint(2, 6)})"
        if kind == "bound":
            return f"T.{self.rng.choice(['min', 'max'])}({a}, {b})"
        if kind == "load":
            return self.load(depth - 1)
        return f"T.{'Select' if kind == 'select' else 'if_then_else'}({self.condition(depth - 1)}, {a}, {b})"

    def condition(self, depth: int) -> str:
        if depth > 0 and self.rng.random() < 0.3:
            return f"({self.condition(depth - 1)} {self.rng.choice(['and', 'or'])} {self.condition(depth - 1)})"
        return f"({self.value(depth)} {self.rng.choice(['<', '<=', '>', '==', '!='])} {self.value(depth)})"

    # --- statements

    def store(self, depth: int) -> None:
        buffer, shape = self.rng.choice(self.buffers)
        place = f"{buffer}[{', '.join([self.index(n, 1) for n in shape])}]"
        old = f"{place} + " if self.rng.random() < 0.35 else ""
        self.line(depth, f"{place} = ({old}{self.value(3)}) % 97")

    def loop(self, depth: int, left: int) -> None:
        v, n, low = self.name("i"), self.rng.choice([1, 2, 3, 4, 6, 8]), self.rng.choice([0, 0, 0, 1, 2])
        outer = [x for x in self.variables if x[0].startswith("i")]
        if outer and self.rng.random() < 0.2:
            # As long as a loop around it has come.
            o = self.rng.choice(outer)
            self.line(depth, f"for {v} in range({o[0]} + {n}):")
            self.variables.append((v, 0, o[2] + n - 1))
        else:
            self.line(depth, f"for {v} in {self.rng.choice(['range', 'range', 'T.unroll'])}({low}, {low + n}):")
            self.variables.append((v, low, low + n - 1))
        self.block(depth + 1, left - 1)
        self.variables.pop()

    def branch(self, depth: int, left: int) -> None:
        c = self.condition(1)
        self.line(depth, f"if T.likely({c}):" if self.rng.random() < 0.3 else f"if {c}:")
        self.block(depth + 1, left - 1)
        if self.rng.random() < 0.4:
            self.line(depth, "else:")
            self.block(depth + 1, left - 1)

    def storage(self, depth: int, size: int) -> str:
        t = self.name("t")
        self.line(depth, f'{t}_data = T.allocate([{size}], "int32", "global")')
        self.line(depth, f'{t} = T.Buffer(({size},), "int32", data={t}_data)')
        return t

    def scratch(self, depth: int) -> None:
        n, v = self.rng.choice([1, 2, 4, 6]), self.name("i")
        t = self.storage(depth, n)
        self.line(depth, f"for {v} in range({n}):")
        self.variables.append((v, 0, n - 1))
        self.line(depth + 1, f"{t}[{v}] = ({self.value(2)}) % 97")
        self.variables.pop()
        self.buffers.append((t, (n,)))

    def repeat(self, depth: int, left: int) -> None:
        t = self.storage(depth, 1)
        self.line(depth, f"{t}[0] = 0")
        self.line(depth, f"while {t}[0] < {self.rng.choice([1, 2, 3])}:")
        self.line(depth + 1, f"{t}[0] = {t}[0] + 1")
        self.block(depth + 1, left - 1)

    def block(self, depth: int, left: int) -> None:
        """A few statements; what they name is forgotten after them."""
        variables, buffers = list(self.variables), list(self.buffers)
        for _ in range(self.rng.choice([1, 1, 2, 2, 3])):
            kinds = ["store"] * 4 + (
                ["loop"] * 3 + ["branch"] * 2 + ["let", "scratch", "repeat", "view"] if left else []
            )
            kind = self.rng.choice(kinds)
            if kind == "let":
                x = self.name("x")
                self.line(depth, f"{x}: T.int32 = {self.value(2)}")
                self.variables.append((x, -(10**6), 10**6))
            elif kind == "view":
                v = self.name("v")
                self.line(depth, f'{v} = T.decl_buffer((2, 3), "int32", data=A.data)')
                self.buffers.append((v, (2, 3)))
            elif kind in ("store", "scratch"):
                getattr(self, kind)(depth)
            else:
                getattr(self, kind)(depth, left)
        self.store(depth)
        self.variables, self.buffers = variables, buffers


def draw(seed: int) -> str:
    """A program over A, B and C, as text."""
    w = Writer(seed)
    w.block(1, 4)
    return "\n".join(w.lines)
