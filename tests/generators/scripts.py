"""Random programs written as TVMScript text, each line beside the line of Python that says what it must compute."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tests.generators.case import Case, Recipe
from tests.generators.script_values import HELPERS, Text, Values, limits
from tilewright.node.field_values import numpy_dtype
from tilewright.script import from_source

DTYPES = (
    ["float32"] * 4 + ["int32"] * 4 + ["int8", "int64", "uint8", "float16", "bfloat16", "float64", "int16", "uint32"]
)


class Dim(NamedTuple):
    """A dimension as it stands in the text, and its value."""

    text: str
    size: int


class Array(NamedTuple):
    """A buffer of the program; no value in it is above `bound` in size."""

    name: str
    shape: tuple[Dim, ...]
    dtype: str
    bound: float


class Writer:
    """Lines of TVMScript and of Python at the same depth."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.script: list[str] = []
        self.python: list[str] = []
        self.depth = 1
        self.arrays: list[Array] = []
        self.allocated: list[str] = []
        self.sizes: dict[str, int] = {}

    def line(self, script: str | None, python: str | None = None) -> None:
        """One line of each; None leaves one out."""
        if script is not None:
            self.script.append("    " * self.depth + script)
        if python is not None:
            self.python.append("    " * self.depth + python)

    def nested(self, script: str, python: str | None, body: Callable[[], None]) -> None:
        """Lines under a header."""
        self.line(script, python or "if True:")
        self.depth += 1
        body()
        self.depth -= 1

    def nested_python(self, header: str, body: str) -> None:
        """Two lines of Python alone."""
        self.python += ["    " * self.depth + header, "    " * (self.depth + 1) + body]

    def size(self, rng: random.Random, values: list[int]) -> int:
        return min(rng.choice(values), self.recipe.largest)

    def loops(self, rng: random.Random, names: list[str], extents: list[Dim], body: Callable[[], None]) -> None:
        """A nest over the extents: as a grid, or a loop at a time of some kind."""
        if len(names) > 1 and rng.random() < 0.4:
            grid = ", ".join([d.text for d in extents])
            self.nested(f"for {', '.join(names)} in T.grid({grid}):", f"for {', '.join(names)} in grid({grid}):", body)
            return
        kinds = ["range", "range", "range", "T.serial", "T.unroll"]
        kind = rng.choice(kinds if extents[0].size > 1 else ["range"])
        rest = (lambda: self.loops(rng, names[1:], extents[1:], body)) if len(names) > 1 else body
        self.nested(
            f"for {names[0]} in {kind}({extents[0].text}):", f"for {names[0]} in range({extents[0].text}):", rest
        )

    def new(self, name: str, shape: tuple[Dim, ...], dtype: str, bound: float) -> Array:
        """A buffer of the whole function, to be written next."""
        a = Array(name, shape, dtype, bound)
        dims = ", ".join([d.text for d in shape])
        self.allocated.append(f'{name} = T.alloc_buffer(({dims},), "{dtype}")')
        self.line(None, f'{name} = empty(({dims},), "{dtype}")')
        return a


def stage_shape(w: Writer, rng: random.Random) -> tuple[Dim, ...]:
    """The shape of an earlier buffer, or a new one."""
    if rng.random() < 0.5:
        return rng.choice(w.arrays).shape
    return tuple(
        [Dim(str(n), n) for n in [w.size(rng, [1, 2, 3, 4, 5, 6, 8]) for _ in range(rng.choice([1, 2, 2, 3]))]]
    )


def indices(values: list[str]) -> str:
    return ", ".join(values)


def _vars(name: str, shape: tuple[Dim, ...]) -> list[str]:
    return [f"{name}{'ijklm'[k]}" for k in range(len(shape))]


def remap(
    w: Writer, kinds: str, names: list[str], loops: list[str], shape: tuple[Dim, ...], rng: random.Random
) -> None:
    """Block axes bound to loops, together or one at a time."""
    if rng.random() < 0.6:
        left = f"{indices(names)}{',' if len(names) == 1 and False else ''}"
        w.line(f'{left} = T.axis.remap("{kinds}", [{indices(loops)}])', f"{left} = {indices(loops)}")
        return
    for kind, name, loop, d in zip(kinds, names, loops, shape, strict=True):
        word = "spatial" if kind == "S" else "reduce"
        w.line(f"{name} = T.axis.{word}({d.text}, {loop})", f"{name} = {loop}")


def store(w: Writer, a: Array, at: list[str], value: Text) -> None:
    place = f"{a.name}[{indices(at)}]"
    w.line(f"{place} = {value.script}", f"{place} = {value.python}")


# --- stages: each writes all of a new buffer


def elementwise(w: Writer, rng: random.Random, name: str) -> Array:
    """A block of spatial axes, its loops maybe cut in two under a predicate."""
    shape, dtype = stage_shape(w, rng), rng.choice(DTYPES)
    axes, loops = _vars(f"{name}v", shape), _vars(name, shape)
    extents, binds = list(shape), list(loops)
    predicate = None
    if rng.random() < 0.35:
        a, factor = rng.randrange(len(shape)), rng.choice([2, 3, 4])
        d = shape[a]
        outer = Dim(f"({d.text} + {factor - 1}) // {factor}", -(-d.size // factor))
        extents[a : a + 1] = [outer, Dim(str(factor), factor)]
        loops[a : a + 1] = [f"{loops[a]}o", f"{loops[a]}i"]
        binds[a] = f"{loops[a]} * {factor} + {loops[a + 1]}"
        if d.size % factor or not d.text.isdigit():
            predicate = f"{binds[a]} < {d.text}"
    values = Values(w.arrays, [(v, d) for v, d in zip(axes, shape, strict=True)])
    value = values.draw(rng, dtype, 3)
    out = w.new(name, shape, dtype, value.bound)

    def body() -> None:
        for v, d, b in zip(axes, shape, binds, strict=True):
            w.line(f"{v} = T.axis.spatial({d.text}, {b})", f"{v} = {b}")
        if predicate:
            w.line(f"T.where({predicate})")
        if rng.random() < 0.3:
            w.line(f"T.writes({name}[{indices(axes)}])")
        if rng.random() < 0.2:
            w.line('T.block_attr({"mark": 1})')
        w.depth += bool(predicate)
        if predicate:
            w.python.append("    " * (w.depth - 1) + f"if {predicate}:")
            w.depth -= 1
            place = f"{name}[{indices(axes)}]"
            w.line(f"{place} = {value.script}")
            w.python.append("    " * (w.depth + 1) + f"{place} = {value.python}")
        else:
            store(w, out, axes, value)

    w.loops(rng, loops, extents, lambda: w.nested(f'with T.block("{name}"):', None, body))
    return out


def reduction(w: Writer, rng: random.Random, name: str) -> Array:
    """A block with an init: a sum, a largest or a smallest over one or two axes."""
    shape, dtype = stage_shape(w, rng)[:2], rng.choice(DTYPES)
    over = tuple([Dim(str(n), n) for n in [w.size(rng, [1, 2, 3, 5]) for _ in range(rng.choice([1, 1, 2]))]])
    count = math.prod([d.size for d in over])
    axes, reduced = _vars(f"{name}v", shape), _vars(f"{name}r", over)
    loops = _vars(name, shape) + [f"{r}l" for r in reduced]
    values = Values(w.arrays, list(zip(axes + reduced, shape + over, strict=True)))
    value = values.small(rng, dtype, 2)
    kind = rng.choice(["+", "+", "max", "min"])
    low, high = limits(dtype)
    start = {"+": 0, "max": max(low, -100), "min": min(high, 100)}[kind]
    out = w.new(name, shape, dtype, value.bound * count if kind == "+" else max(value.bound, 100))
    kinds = "S" * len(shape) + "R" * len(over)
    order = rng.sample(range(len(loops)), len(loops)) if rng.random() < 0.4 else list(range(len(loops)))
    extents = list(shape + over)
    place = f"{name}[{indices(axes)}]"

    def body() -> None:
        remap(w, kinds, axes + reduced, loops, shape + over, rng)
        initial = values.const(start, dtype)
        w.line("with T.init():", f"if {' and '.join([f'{r} == 0' for r in reduced])}:")
        w.depth += 1
        store(w, out, axes, initial)
        w.depth -= 1
        if kind == "+":
            store(w, out, axes, Text(f"{place} + {value.script}", f"{place} + {value.python}", 0))
        else:
            store(w, out, axes, Text(f"T.{kind}({place}, {value.script})", f"{kind}_({place}, {value.python})", 0))

    w.loops(
        rng,
        [loops[k] for k in order],
        [extents[k] for k in order],
        lambda: w.nested(f'with T.block("{name}"):', None, body),
    )
    return out


def opaque(w: Writer, rng: random.Random, name: str) -> Array:
    """A block without axes around loops: recurrences, while loops, local buffers, lets, branches."""
    shape, dtype = stage_shape(w, rng), rng.choice(DTYPES)
    loops = _vars(name, shape)
    kind = rng.choice(["plain", "scan", "while", "local", "branch", "let", "scatter", "seq"])
    values = Values(w.arrays, list(zip(loops, shape, strict=True)))
    value = values.small(rng, dtype, 2)
    bound = value.bound
    last, n = loops[-1], shape[-1]
    place = f"{name}[{indices(loops)}]"
    out = w.new(name, shape, dtype, max(bound * n.size, bound + 100))

    def inner() -> None:
        if kind == "scan":
            before = f"{name}[{indices([*loops[:-1], f'{last} - 1'])}]"
            w.nested(f"if {last} == 0:", f"if {last} == 0:", lambda: store(w, out, loops, value))
            w.nested(
                "else:",
                "else:",
                lambda: store(w, out, loops, Text(f"{before} + {value.script}", f"{before} + {value.python}", 0)),
            )
        elif kind == "while":
            store(w, out, loops, values.const(0, dtype))
            w.line(f"{name}_k[0] = 0", f"{name}_k[0] = 0")

            def again() -> None:
                store(w, out, loops, Text(f"{place} + {value.script}", f"{place} + {value.python}", 0))
                w.line(f"{name}_k[0] = {name}_k[0] + 1", f"{name}_k[0] = {name}_k[0] + 1")

            # Never more turns than the last dimension has elements, which the bound of the values counts on.
            condition = f"{name}_k[0] < {last}"
            w.nested(f"while {condition}:", f"while {condition}:", again)
        elif kind == "local":
            w.line(f"{name}_t[0] = {value.script}", f"{name}_t[0] = {value.python}")
            store(w, out, loops, Text(f"{name}_t[0]", f"{name}_t[0]", bound))
        elif kind == "branch":
            condition = values.condition(rng)
            w.nested(f"if {condition.script}:", f"if {condition.python}:", lambda: store(w, out, loops, value))
            w.nested("else:", "else:", lambda: store(w, out, loops, values.const(1, dtype)))
        elif kind == "let":
            if rng.random() < 0.5:
                w.line(f"{name}_x: T.{dtype} = {value.script}", f"{name}_x = {value.python}")
            else:
                w.line(f"with T.LetStmt({value.script}) as {name}_x:", f"{name}_x = {value.python}")
                w.script.append("    " * (w.depth + 1) + f"{place} = {name}_x")
                w.python.append("    " * w.depth + f"{place} = {name}_x")
                return
            store(w, out, loops, Text(f"{name}_x", f"{name}_x", bound))
        elif kind == "scatter":
            at = [*loops[:-1], f"{n.text} - 1 - {last}"]
            store(w, out, at, value)
        elif kind == "seq":
            store(w, out, loops, value)
            store(
                w,
                out,
                loops,
                Text(f"{place} + {values.const(1, dtype).script}", f"{place} + {values.const(1, dtype).python}", 0),
            )
        else:
            store(w, out, loops, value)

    def body() -> None:
        if kind == "local":
            w.line(f'{name}_t = T.alloc_buffer((1,), "{dtype}", scope="local")', f'{name}_t = empty((1,), "{dtype}")')
        if kind == "while":
            w.line(f'{name}_k = T.alloc_buffer((1,), "int32", scope="local")', f'{name}_k = empty((1,), "int32")')
        w.loops(rng, loops, list(shape), inner)

    if kind in ("local", "while"):
        names = sorted(values.read)
        reads = [f"{x.name}[{indices([f'0:{d.text}' for d in x.shape])}]" for x in w.arrays if x.name in names]

        def declared() -> None:
            w.line(f"T.reads({indices(reads)})")
            w.line(f"T.writes({name}[{indices([f'0:{d.text}' for d in shape])}])")
            body()

        w.nested(f'with T.block("{name}"):', None, declared)
    else:
        w.nested(f'with T.block("{name}"):', None, body)
    return out


def tiled(w: Writer, rng: random.Random, name: str) -> Array:
    """A block per tile that holds a block per element; the tile maybe seen through a match_buffer."""
    size = rng.choice([2, 3, 4])
    tiles = w.size(rng, [1, 2, 3])
    n = Dim(str(size * tiles), size * tiles)
    rows = Dim(str(r := w.size(rng, [1, 2, 4])), r)
    dtype = rng.choice(DTYPES)
    shape = (rows, n)
    values = Values(w.arrays, [(f"{name}vi", rows), (f"{name}full", n)])
    value = values.draw(rng, dtype, 2)
    out = w.new(name, shape, dtype, value.bound)
    matched = rng.random() < 0.6

    def inner() -> None:
        w.line(f"{name}vj = T.axis.spatial({size}, {name}j)", f"{name}vj = {name}j")
        w.line(None, f"{name}full = {name}vo * {size} + {name}vj")
        script = value.script.replace(f"{name}full", f"({name}vo * {size} + {name}vj)")
        target = f"{name}_m[0, {name}vj]" if matched else f"{name}[{name}vi, {name}vo * {size} + {name}vj]"
        w.line(f"{target} = {script}", f"{name}[{name}vi, {name}full] = {value.python}")

    def outer() -> None:
        w.line(f'{name}vi, {name}vo = T.axis.remap("SS", [{name}i, {name}o])', f"{name}vi, {name}vo = {name}i, {name}o")
        region = f"{name}[{name}vi, {name}vo * {size}:{name}vo * {size} + {size}]"
        reads = [f"{x.name}[{indices([f'0:{d.text}' for d in x.shape])}]" for x in w.arrays if x.name in values.read]
        w.line(f"T.reads({indices(reads)})")
        w.line(f"T.writes({region})")
        if matched:
            w.line(f'{name}_m = T.match_buffer({region}, (1, {size}), "{dtype}", offset_factor=1)')
        w.nested(
            f"for {name}j in range({size}):",
            f"for {name}j in range({size}):",
            lambda: w.nested(f'with T.block("{name}_inner"):', None, inner),
        )

    w.loops(
        rng,
        [f"{name}i", f"{name}o"],
        [rows, Dim(str(tiles), tiles)],
        lambda: w.nested(f'with T.block("{name}"):', None, outer),
    )
    return out


STAGES = {"elementwise": elementwise, "reduction": reduction, "opaque": opaque, "tiled": tiled}
NAMES = ["elementwise"] * 4 + ["reduction"] * 3 + ["opaque"] * 3 + ["tiled"]


def texts(recipe: Recipe) -> tuple[str, str, Writer, list[Array]]:
    """The program as TVMScript, as Python, and its inputs."""
    w = Writer(recipe)
    rng = recipe.rng("script")
    symbolic = rng.random() < 0.25
    inputs = []
    for k in range(rng.choice([1, 2, 2, 3])):
        shape = [Dim(str(n), n) for n in [w.size(rng, [1, 2, 3, 4, 5, 6, 8]) for _ in range(rng.choice([1, 2, 2, 3]))]]
        if symbolic:
            a = rng.randrange(len(shape))
            size = w.sizes.setdefault("n", shape[a].size)
            shape[a] = Dim("n", size)
        inputs.append(Array(f"in{k}", tuple(shape), rng.choice(DTYPES), 2.0))
    w.arrays += inputs
    for number in recipe.stages:
        stage = recipe.rng(f"stage{number}")
        w.arrays.append(STAGES[stage.choice(NAMES)](w, stage, f"s{number}"))
    last = recipe.rng("outputs")
    x = w.arrays[-1]
    values = Values([x], [(f"o{'ijklm'[k]}", d) for k, d in enumerate(x.shape)])
    out = Array("out", x.shape, x.dtype, 0)
    loops, at = [f"p{'ijklm'[k]}" for k in range(len(x.shape))], [v for v, _ in values.variables]
    value = values.add(x.dtype, values.load(x, at), values.const(1, x.dtype))

    def body() -> None:
        remap(w, "S" * len(at), at, loops, x.shape, last)
        store(w, out, at, value)

    w.loops(last, loops, list(x.shape), lambda: w.nested('with T.block("out"):', None, body))
    params, matches = [], []
    given = bool(w.sizes) and last.random() < 0.5
    for a in [*inputs, out]:
        dims = f"({', '.join([d.text for d in a.shape])},)"
        if all([d.text.isdigit() for d in a.shape]):
            params.append(f'{a.name}: T.Buffer({dims}, "{a.dtype}")')
        else:
            params.append(f"{a.name}_h: T.handle")
            matches.append(f'{a.name} = T.match_buffer({a.name}_h, {dims}, "{a.dtype}")')
    if w.sizes:
        (params if given else matches).insert(0, "n: T.int32" if given else "n = T.int32()")
    head = ["@T.prim_func", f"def main({', '.join(params)}):"]
    if last.random() < 0.5:
        head.append('    T.func_attr({"tir.noalias": True})')
    script = "\n".join([*head, *["    " + m for m in matches + w.allocated], *w.script])
    arguments = ", ".join([*w.sizes, *[a.name for a in [*inputs, out]]])
    python = "\n".join([f"def main({arguments}):", *w.python])
    return script, python, w, inputs


def as_case(kind: str, script: str, python: str, w: Writer, inputs: list[Array]) -> Case:
    """The case of a program that is written in both languages."""
    try:
        func: Any = from_source(script)
    except Exception as error:
        error.args = (f"{error}\n{script}",)
        raise
    space: dict[str, Any] = dict(HELPERS)
    exec(compile(python, "<script as Python>", "exec"), space)
    fill = {a.name: _small(a.dtype) for a in inputs}
    by_name = {p.name: p for p in func.params} | {v.name: v for v in _dims(func)}
    sizes = {by_name[name]: n for name, n in w.sizes.items() if name in by_name}
    given = [p for p in func.params if p in sizes]

    def run(values: list[Any]) -> None:
        with np.errstate(all="ignore"):
            space["main"](*(list(w.sizes.values()) if not given else []), *values)

    return Case(kind, func, fill, sizes, run)


def draw(recipe: Recipe) -> Case:
    """The program of a recipe."""
    return as_case("script", *texts(recipe))


def _small(dtype: str) -> Any:
    low = 0 if dtype.startswith("uint") else -2
    return lambda rng, shape: rng.integers(low, 3, shape).astype(numpy_dtype(dtype))


def _dims(func: Any) -> list[Any]:
    from tilewright import tir

    return [d for b in func.buffer_map.values() for d in b.shape if isinstance(d, tir.Var)]
