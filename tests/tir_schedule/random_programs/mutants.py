"""Small pipelines that primitives accept, with a number, a variable or a condition changed: nearly what they expect."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np

from tests.tir_schedule.random_programs.hostile import outcome
from tests.tir_schedule.refusals import HEAD
from tilewright.codegen.interp import InterpError
from tilewright.ir import IntImm
from tilewright.node import Mutator, on
from tilewright.script import from_source
from tilewright.support.errors import DiagnosticError
from tilewright.tir import For, ForKind, PrimFunc, Var
from tilewright.tir.stmt_functor import substitute

COPY = """
for i in range(8):
    with T.block("b"):
        v = T.axis.spatial(8, i)
        B[v] = A[v]
"""
SUM = """
for i, k in T.grid(4, 2):
    with T.block("s"):
        v, w = T.axis.remap("SR", [i, k])
        with T.init():
            C[v] = T.float32(0)
        C[v] = C[v] + B[v * 2 + w]
"""
TILES = """
for i, j in T.grid(2, 4):
    with T.block("d"):
        v = T.axis.spatial(6, i * 4 + j)
        T.where(i * 4 + j < 6)
        D[v] = B[v] + T.float32(1)
"""
PART = """
for i in range(4):
    with T.block("c"):
        v = T.axis.spatial((2, 6), i + 2)
        C[v] = B[v]
for i, j in T.grid(2, 2):
    with T.block("d"):
        v = T.axis.spatial((2, 6), i * 2 + j + 2)
        D[v] = C[v] * B[v]
"""
ENDS = """
for i, j in T.grid(4, 2):
    with T.block("d"):
        v, w = T.axis.remap("SS", [i, j])
        D[v * 2 + w] = C[v] + B[v * 2 + w]
"""
PADDED = """
for i in range(8):
    with T.block("p"):
        v = T.axis.spatial(8, i)
        B[v] = T.if_then_else(v >= 1 and v < 7, A[v - 1], T.float32(0))
for i, k in T.grid(6, 3):
    with T.block("c"):
        v, w = T.axis.remap("SR", [i, k])
        with T.init():
            C[v] = T.float32(0)
        C[v] = C[v] + B[v + w] * A[w]
for i in range(6):
    with T.block("d"):
        v = T.axis.spatial(6, i)
        D[v] = T.max(C[v], T.float32(2))
"""
ROLLED = """
for i in range(6):
    for a in range(3):
        with T.block("b"):
            v = T.axis.spatial(8, i + a)
            B[v] = A[v]
    with T.block("d"):
        v = T.axis.spatial(6, i)
        D[v] = B[v] + B[v + 2]
"""
NESTED = """
for i in range(2):
    with T.block("o"):
        u = T.axis.spatial(2, i)
        for j in range(4):
            with T.block("b"):
                v = T.axis.spatial(4, j)
                B[u * 4 + v] = A[v + u]
        for j in range(3):
            with T.block("c"):
                v = T.axis.spatial(3, j)
                D[u * 4 + v] = B[u * 4 + v] + B[u * 4 + 3]
"""
EPILOGUE = """
for i in range(4):
    for k in range(3):
        with T.block("s"):
            v, w = T.axis.remap("SR", [i, k])
            with T.init():
                B[v] = T.float32(0)
            B[v] = B[v] + A[v + w]
    with T.block("x"):
        v = T.axis.spatial(4, i)
        C[v] = B[v] + T.float32(1)
for i, j in T.grid(2, 3):
    with T.block("d"):
        v = T.axis.spatial(4, i * 3 + j)
        T.where(i * 3 + j < 4)
        D[v] = C[v] + B[v]
"""
IN_PLACE = """
for i in range(4):
    with T.block("u"):
        v = T.axis.spatial(4, i)
        B[v * 2] = B[v * 2] + T.float32(1)
for i in range(8):
    with T.block("d"):
        v = T.axis.spatial(8, i)
        D[v] = B[v]
"""
REPEATED = """
for i, r, k in T.grid(4, 2, 3):
    with T.block("s"):
        v, w = T.axis.remap("SR", [i, k])
        with T.init():
            C[v] = T.float32(0)
        C[v] = C[v] + B[v + w]
"""
SHARED = """
for o in range(2):
    for i in range(4):
        with T.block("b"):
            v = T.axis.spatial(8, o * 4 + i)
            B[v] = A[v]
    for i in range(4):
        with T.block("c"):
            v = T.axis.spatial(8, o * 4 + i)
            C[v] = B[v] + T.float32(1)
    for i in range(2):
        with T.block("d"):
            v = T.axis.spatial(4, o * 2 + i)
            D[v] = C[v * 2] + C[v * 2 + 1]
"""
DIGITS = """
for f in range(8):
    with T.block("b"):
        v = T.axis.spatial(2, f // 4)
        w = T.axis.spatial(4, f % 4)
        B[v, w] = A[v, w]
for i, j in T.grid(2, 3):
    with T.block("d"):
        v = T.axis.spatial(2, i)
        w = T.axis.spatial((1, 4), j + 1)
        D[v, w] = B[v, w] + B[v, w - 1]
"""
PRODUCT = """
for i, j, k in T.grid(8, 8, 8):
    with T.block("s"):
        v, w, r = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[v, w] = T.float32(0)
        C[v, w] = C[v, w] + A[v, r] * A[r, w]
for i, j in T.grid(8, 8):
    with T.block("d"):
        v, w = T.axis.remap("SS", [i, j])
        D[w, v] = C[v, w]
"""
PIPELINES = [
    *[(text, 1) for text in (
        COPY + SUM + ENDS, COPY + TILES, COPY + PART, PADDED, ROLLED, NESTED, EPILOGUE, COPY + IN_PLACE,
        COPY + REPEATED + ENDS.replace("C[v] + ", ""), SHARED,
    )],
    (DIGITS, 2), (PRODUCT, 2),
]  # fmt: skip


def _change(text: str, rng: random.Random) -> str:
    lines = text.split("\n")
    kind = rng.choice(["number"] * 5 + ["start", "start", "variable", "condition", "condition", "index"])
    if kind == "number":
        m = rng.choice(list(re.finditer(r"(?<![\w.])\d+(?![\w.])", text)))
        return text[: m.start()] + str(max(int(m[0]) + rng.choice([-1, 1, 1, 2, -2]), 0)) + text[m.end() :]
    if kind == "start":
        found = list(re.finditer(r"for (\w) in range\((\d+)\):", text))
        if not found:
            return text
        m, low = rng.choice(found), rng.choice([1, 1, 2])
        v, n, rest = m[1], int(m[2]), text[m.end() :]
        if rng.random() < 0.5:
            back = rf"T\.axis\.(\w+)\((\d+), {v}\)"
            rest = re.sub(back, lambda q: f"T.axis.{q[1]}(({low}, {int(q[2]) + low}), {v})", rest, count=1)
        else:
            rest = re.sub(rf"(T\.axis\.\w+\(.*?, .*?)\b{v}\b", rf"\g<1>({v} - {low})", rest, count=1)
        return text[: m.start()] + f"for {v} in range({low}, {n + low}):" + rest
    if kind == "variable":
        at = rng.randrange(len(lines))
        names = sorted(set(re.findall(r"\b[ijkvwruaof]\b", lines[at])))
        if len(names) > 1:
            old, new = rng.sample(names, 2)
            m = rng.choice(list(re.finditer(rf"\b{old}\b", lines[at])))
            lines[at] = lines[at][: m.start()] + new + lines[at][m.end() :]
        return "\n".join(lines)
    if kind == "condition":
        at = rng.choice([n for n, x in enumerate(lines) if "T.axis." in x and "T.axis." not in lines[n + 1]])
        header = [x for x in lines[:at] if x.strip().startswith("for")][-1]
        loops = re.findall(r"for ([\w, ]+) in", header)[0].split(", ")
        v = rng.choice(loops)
        test = rng.choice([f"{v} < {rng.choice([1, 2, 3, 4, 6])}", f"{v} >= 1", f"{loops[0]} + {loops[-1]} < 4"])
        lines.insert(at + 1, " " * (len(lines[at]) - len(lines[at].lstrip())) + f"T.where({test})")
        return "\n".join(lines)
    found = list(re.finditer(r"(?<=[\[ ])[vw](?=[\],])", text))
    m = rng.choice(found)
    return text[: m.end()] + rng.choice([" + 1", " // 2", " % 3", " * 2"]) + text[m.end() :]


def mutant(seed: int) -> tuple[PrimFunc, list[np.ndarray], str]:
    """A program that runs, what it computes, and its text."""
    rng = random.Random(seed)
    while True:
        text, rank = rng.choice(PIPELINES)
        text = text.strip("\n")
        for _ in range(rng.choice([0, 1, 1, 2, 3])):
            text = _change(text, rng)
        whole = (
            HEAD.format("(8,)" if rank == 1 else "(8, 8)") + "\n".join(["    " + x for x in text.split("\n")]) + "\n"
        )
        try:
            func = from_source(whole)
            return func, outcome(func), whole
        except (DiagnosticError, InterpError):
            continue


class _Backwards(Mutator):
    """Loops whose iterations may run in any order, run from the last to the first."""

    @on(For)
    def _for(self, x: For) -> Any:
        x = self.rebuild(x)
        if x.kind not in (ForKind.PARALLEL, ForKind.VECTORIZED) or not isinstance(x.extent, IntImm):
            return x
        v = Var(x.loop_var.name, x.loop_var.dtype)
        last = x.min + x.extent - 1
        return For(v, x.min, x.extent, ForKind.SERIAL, substitute(x.body, {x.loop_var: last + x.min - v}))


def backwards(func: PrimFunc) -> PrimFunc | None:
    """The program with its parallel and vector loops run backwards; None where there are none."""
    body = _Backwards().visit(func.body)
    return None if body is func.body else func.replace(body=body)
