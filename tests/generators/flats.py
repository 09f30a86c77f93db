"""Random programs without blocks: allocations, declared buffers, loops of every kind, vectors, branches, asserts."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.generators.case import Case, Recipe
from tests.generators.script_values import Text, Values
from tests.generators.scripts import DTYPES, Array, Dim, Writer, as_case, indices, store

Stage = Callable[[Writer, random.Random, str], Array]


def _fresh(w: Writer, rng: random.Random, name: str, shape: tuple[Dim, ...], dtype: str, bound: float) -> Array:
    """Storage over an allocation that lasts to the end of the function."""
    count = 1
    for d in shape:
        count *= d.size
    dims = ", ".join([d.text for d in shape])
    scope = rng.choice(["global", "global", "local"])
    w.line(f'{name}_data = T.allocate([{count}], "{dtype}", "{scope}")')
    declared = f'({dims},), "{dtype}", data={name}_data, scope="{scope}"'
    how = rng.choice(["T.decl_buffer", "T.Buffer"])
    w.line(f"{name} = {how}({declared})", f'{name} = empty(({dims},), "{dtype}")')
    return Array(name, shape, dtype, bound)


def _nest(w: Writer, rng: random.Random, names: list[str], extents: list[Dim], body: Callable[[], None]) -> None:
    kinds = ["range", "range", "T.serial", "T.unroll", "T.parallel" if len(names) > 1 else "T.vectorized"]
    kind = rng.choice(kinds if extents[0].size > 1 else ["range"])
    if kind == "T.vectorized" and rng.random() < 0.5:
        kind = "range"
    rest = body if len(names) == 1 else lambda: _nest(w, rng, names[1:], extents[1:], body)
    w.nested(f"for {names[0]} in {kind}({extents[0].text}):", f"for {names[0]} in range({extents[0].text}):", rest)


def _shape(w: Writer, rng: random.Random) -> tuple[Dim, ...]:
    sizes = [w.size(rng, [1, 2, 3, 4, 5, 6, 8]) for _ in range(rng.choice([1, 1, 2, 2, 3]))]
    return tuple([Dim(str(n), n) for n in sizes])


def loops(w: Writer, rng: random.Random, name: str) -> Array:
    """A value at every place, maybe picked by a branch."""
    shape, dtype = _shape(w, rng), rng.choice(DTYPES)
    at = [f"{name}{'ijk'[k]}" for k in range(len(shape))]
    values = Values(w.arrays, list(zip(at, shape, strict=True)))
    value = values.draw(rng, dtype, 3)
    out = _fresh(w, rng, name, shape, dtype, max(value.bound, 3))
    branch = rng.random() < 0.35
    condition = values.condition(rng)

    def body() -> None:
        if branch:
            w.nested(f"if {condition.script}:", f"if {condition.python}:", lambda: store(w, out, at, value))
            w.nested("else:", "else:", lambda: store(w, out, at, values.const(2, dtype)))
        else:
            store(w, out, at, value)

    _nest(w, rng, at, list(shape), body)
    return out


def vectors(w: Writer, rng: random.Random, name: str) -> Array:
    """Vectors of four over a flat buffer that was filled by scalars."""
    dtype, lanes = rng.choice(["float32", "int32", "float64", "int64"]), rng.choice([2, 4])
    turns = w.size(rng, [1, 2, 3])
    n = Dim(str(lanes * turns), lanes * turns)
    values = Values(w.arrays, [(f"{name}i", n)])
    value = values.small(rng, dtype, 2)
    a = _fresh(w, rng, f"{name}a", (n,), dtype, 3)
    _nest(w, rng, [f"{name}i"], [n], lambda: store(w, a, [f"{name}i"], value))
    out = _fresh(w, rng, name, (n,), dtype, 12)
    k, factor = f"{name}k", values.const(3, dtype)
    op = rng.choice(["*", "+"])

    def body() -> None:
        at = f"T.Ramp({k} * {lanes}, 1, {lanes})"
        w.line(f"{name}[{at}] = {a.name}[{at}] {op} T.Broadcast({factor.script}, {lanes})")
        w.nested_python(
            f"for {name}l in range({lanes}):",
            f"{name}[{k} * {lanes} + {name}l] = {a.name}[{k} * {lanes} + {name}l] {op} {factor.python}",
        )

    w.nested(f"for {k} in range({turns}):", f"for {k} in range({turns}):", body)
    return out


def sums(w: Writer, rng: random.Random, name: str) -> Array:
    """Sums in a local variable, by a counted loop that begins anywhere or by a while loop."""
    shape, dtype = _shape(w, rng)[:2], rng.choice(DTYPES)
    begin, count = rng.choice([0, 1, 2]), rng.choice([1, 2, 4])
    at = [f"{name}{'ij'[k]}" for k in range(len(shape))]
    values = Values(w.arrays, [*zip(at, shape, strict=True), (f"{name}r", Dim(str(begin + count), begin + count))])
    value = values.small(rng, dtype, 2)
    while_loop = rng.random() < 0.4
    if while_loop:
        values = Values(w.arrays, list(zip(at, shape, strict=True)))
        value = values.small(rng, dtype, 2)
    out = _fresh(w, rng, name, shape, dtype, 3 * count + 1)
    total = _fresh(w, rng, f"{name}t", (Dim("1", 1),), dtype, 0)
    counter = _fresh(w, rng, f"{name}c", (Dim("1", 1),), "int32", 0)

    def add() -> None:
        store(w, total, ["0"], Text(f"{name}t[0] + {value.script}", f"{name}t[0] + {value.python}", 0))
        if while_loop:
            w.line(f"{name}c[0] = {name}c[0] + 1", f"{name}c[0] = {name}c[0] + 1")

    def body() -> None:
        store(w, total, ["0"], values.const(0, dtype))
        if while_loop:
            store(w, counter, ["0"], values.const(0, "int32"))
            w.nested(f"while {name}c[0] < {count}:", f"while {name}c[0] < {count}:", add)
        else:
            header = f"for {name}r in range({begin}, {begin + count}):"
            w.nested(header, header, add)
        store(w, out, at, Text(f"{name}t[0]", f"{name}t[0]", 0))

    header = [f"for {v} in range({d.text}):" for v, d in zip(at, shape, strict=True)]

    def nest(k: int) -> None:
        if k == len(header):
            body()
        else:
            w.nested(header[k], header[k], lambda: nest(k + 1))

    nest(0)
    return out


def in_place(w: Writer, rng: random.Random, name: str) -> Array:
    """A recurrence over a buffer, after an assert that holds and under an attribute that says nothing."""
    dtype = rng.choice(DTYPES)
    n = Dim(str(size := w.size(rng, [2, 3, 5, 8])), size)
    i = f"{name}i"
    values = Values(w.arrays, [(i, n)])
    value = values.small(rng, dtype, 1)
    out = _fresh(w, rng, name, (n,), dtype, 3 * n.size)
    _nest(w, rng, [i], [n], lambda: store(w, out, [i], value))
    w.line(f'assert {n.text} > 0, "never fails"')

    def body() -> None:
        x = f"{name}_x"
        w.line(f"{x}: T.{dtype} = {name}[{i} - 1]", f"{x} = {name}[{i} - 1]")
        store(w, out, [i], Text(f"{name}[{i}] + {x}", f"{name}[{i}] + {x}", 0))

    w.nested(f"for {i} in range(1, {n.text}):", f"for {i} in range(1, {n.text}):", body)
    return out


STAGES: dict[str, Stage] = {"loops": loops, "vectors": vectors, "sums": sums, "in place": in_place}
NAMES = ["loops"] * 4 + ["vectors", "sums", "sums", "in place"]


def draw(recipe: Recipe) -> Case:
    """The program of a recipe."""
    w = Writer(recipe)
    rng = recipe.rng("flat")
    inputs: list[Array] = []
    for k in range(rng.choice([1, 2, 2])):
        inputs.append(Array(f"in{k}", _shape(w, rng), rng.choice(DTYPES), 2.0))
    w.arrays += inputs
    for number in recipe.stages:
        stage = recipe.rng(f"stage{number}")
        w.arrays.append(STAGES[stage.choice(NAMES)](w, stage, f"s{number}"))
    x = w.arrays[-1]
    out = Array("out", x.shape, x.dtype, 0)
    at = [f"o{'ijk'[k]}" for k in range(len(x.shape))]
    values = Values([x], list(zip(at, x.shape, strict=True)))
    value = values.add(x.dtype, values.load(x, at), values.const(1, x.dtype))
    _nest(w, recipe.rng("outputs"), at, list(x.shape), lambda: store(w, out, at, value))
    params = [f'{a.name}: T.Buffer(({indices([d.text for d in a.shape])},), "{a.dtype}")' for a in [*inputs, out]]
    script = "\n".join(["@T.prim_func", f"def main({', '.join(params)}):", *w.script])
    python = "\n".join([f"def main({', '.join([a.name for a in [*inputs, out]])}):", *w.python])
    result: Any = as_case("flat", script, python, w, inputs)
    assert isinstance(result, Case)
    return result
