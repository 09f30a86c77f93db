"""Software prefetch of panels of weights: hints alone, within the tensor, where tiles leave the time for it."""

from __future__ import annotations

import re
from itertools import product as product_of
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.codegen.small_programs import aligned
from tilewright import te, tir, topi
from tilewright.arith import Analyzer
from tilewright.codegen import interp
from tilewright.ir import Op
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.target import Target
from tilewright.tir import BufferLoad, Call, Evaluate, For, PrimFunc
from tilewright.tir.stmt_functor import child_stmts, post_order_visit, substitute
from tilewright.tir.transform import InjectSoftwarePrefetch
from tilewright.tir.transform.memory.software_prefetch import EARLY, PANELS


def with_hints(tensors: list[te.Tensor], target: Target) -> PrimFunc:
    """A kernel by its schedule rule, with the hints that lowering inserts."""
    func = schedule_kernel(te.create_prim_func(tensors), target)
    (made,) = InjectSoftwarePrefetch()(tvm.IRModule({"main": func})).functions.values()
    return made  # type: ignore[no-any-return]


def product(rows: Any, inner: int, panels: int) -> PrimFunc:
    with Target("llvm") as chosen, KernelPlan(chosen):
        d, w = te.placeholder((1, rows, inner), name="d"), te.placeholder((panels, inner, 64), name="w")
        return with_hints([d, w, topi.nn.dense_pack(d, w)], Target("llvm"))


def check(func: PrimFunc, rows: int, inner: int, panels: int) -> None:
    """Interpreted and compiled, a kernel is the product."""
    rng = np.random.default_rng(0)
    x, w = (aligned(rng.integers(-9, 9, shape), "float32") for shape in ((1, rows, inner), (panels, inner, 64)))
    want = x @ w.transpose(1, 0, 2).reshape(inner, panels * 64)
    found = aligned(np.zeros(want.shape), "float32")
    interp.run(func, [x, w, found])
    np.testing.assert_array_equal(found, want)
    made = tvm.nd.array(np.zeros(want.shape, "float32"))
    tvm.build(func, target="llvm")(tvm.nd.array(x), tvm.nd.array(w), made)
    np.testing.assert_array_equal(made.numpy(), want)


@pytest.mark.parametrize(("rows", "inner", "panels"), [(24, 8, 2), (37, 6, 2)])
def test_results(rows: int, inner: int, panels: int) -> None:
    func = product(rows, inner, panels)
    assert "tir.prefetch" in func.script() and PANELS not in func.script()
    check(func, rows, inner, panels)


def places(func: PrimFunc) -> list[Any]:
    """The indices of each hint, as Python expressions."""
    found = re.findall(r'"tir.prefetch", T.address_of\(w\[(.*)\]\), 0, 3, 1\)', func.script())
    assert found
    return [compile(text.replace("T.min", "min"), "hint", "eval") for text in found]


@pytest.mark.parametrize(("rows", "inner", "panels"), [(48, 64, 3), (37, 16, 2), (20, 128, 2)])
def test_every_line_of_the_next_panel(rows: int, inner: int, panels: int) -> None:
    func = product(rows, inner, panels)
    (tiles,) = re.findall(r"for (\w+) in (?:T.parallel|range)\((\d+)\):\n +for \w+_init", func.script())
    (steps,) = re.findall(r"for (k_0) in range\((\d+)\)", func.script())
    each = int(tiles[1]) // panels
    for panel in range(panels):
        lines = set()
        for tile in range(panel * each, panel * each + each):
            for step in range(int(steps[1])):
                for place in places(func):
                    at = eval(place, {"min": min, tiles[0]: tile, steps[0]: step})
                    assert at[0] == min(panel + 1, panels - 1) and 0 <= at[1] < inner and 0 <= at[2] < 64
                    lines.add((at[1] * 64 + at[2]) // 16)
        assert lines == set(range(inner * 4))


def test_not_where_panels_come_faster_than_tiles() -> None:
    assert "prefetch" not in product(1, 512, 4).script()  # read once, in order
    assert "prefetch" not in product(64, 64, 1).script()  # no next one


@pytest.mark.parametrize("rows", [1, 4, 13, 37])
def test_results_of_dynamic_rows(rows: int) -> None:
    func = product(tvm.tir.SizeVar("n", "int64"), 8, 2)
    assert "tir.prefetch" in func.script() and PANELS not in func.script()
    check(func, rows, 8, 2)


@pytest.mark.parametrize(("inner", "panels"), [(64, 3), (512, 2)])
def test_dynamic_rows_fetch_every_line_of_the_next_panel(inner: int, panels: int) -> None:
    script = product(tvm.tir.SizeVar("n", "int64"), inner, panels).script()
    versions = re.sub(r"T\.int64\((\d+)\)", r"\1", script).split("else:")
    assert len(versions) == 2
    for version in versions:
        tiles, count = re.findall(r"for (\w+) in T.parallel\((\d+)\):", version)[0]
        (few,), (steps,) = re.findall(r"if i1_0 < (\d+):", version), re.findall(r"for k_0 in range\((\d+)\)", version)
        hints = re.findall(r'"tir.prefetch", T.address_of\(w\[(.*)\]\), 0, 3, 1\)', version)
        assert 1 <= len(hints) <= 4
        fetched = set()
        for part, row, step in product_of(range(int(count) // panels), range(int(few)), range(int(steps))):
            for place in hints:
                at = eval(
                    place, {"T": SimpleNamespace(min=min, Cast=lambda _, v: v), tiles: part, "i1_0": row, "k_0": step}
                )
                assert at[0] == 1 and 0 <= at[1] < inner and 0 <= at[2] < 64
                fetched.add((at[1] * 64 + at[2]) // 16)
        assert fetched == set(range(inner * 4))


def convolution(blocks: tuple[int, int], size: int, kernel: int) -> PrimFunc:
    outputs, inputs = blocks
    with Target("llvm -mcpu=skylake-avx512 -num-cores=2") as target, KernelPlan(target):
        d = te.placeholder((1, inputs, size, size, 16), name="d")
        w = te.placeholder((outputs, inputs, kernel, kernel, 16, 16), name="w")
        return with_hints([d, w, topi.nn.conv2d_NCHWc(d, w, 1, kernel // 2, 1)], target)


def hints_with_loops(func: PrimFunc) -> tuple[list[For], list[BufferLoad]]:
    """The tensors that are prefetched, and the loops around."""
    hints: list[Any] = []
    loops: list[For] = []

    def look(s: Any) -> None:
        if isinstance(s, Call) and s.op.same_as(Op.get("tir.prefetch")):
            hints.append(s.args[0].args[0])

    def around(s: Any) -> None:
        found = len(hints)
        post_order_visit(s.body, look)
        if len(hints) > found:
            loops.insert(0, s)
        del hints[found:]

    post_order_visit(func.body, lambda s: around(s) if isinstance(s, For) else None)
    post_order_visit(func.body, look)
    return loops, hints


@pytest.mark.parametrize(
    ("blocks", "size", "kernel"), [((8, 3), 7, 1), ((6, 2), 7, 1), ((4, 1), 7, 3), ((8, 2), 14, 1)]
)
def test_every_line_of_the_next_blocks_of_a_convolution(blocks: tuple[int, int], size: int, kernel: int) -> None:
    func = convolution(blocks, size, kernel)
    loops, hints = hints_with_loops(func)
    assert hints and PANELS not in func.script()
    shape = [int(d) for d in hints[0].buffer.shape]
    block = int(np.prod(shape[1:]))
    sizes = [int(loop.extent) for loop in loops]
    names = [loop.loop_var.name for loop in loops]
    places = [[compile(str(i).replace("T.", ""), "hint", "eval") for i in hint.indices] for hint in hints]
    fetched: dict[int, set[int]] = {}
    for at in np.ndindex(*sizes):
        for place in places:
            index = [eval(i, {"min": min, **dict(zip(names, map(int, at), strict=True))}) for i in place]
            assert all([0 <= i < d for i, d in zip(index, shape, strict=True)])
            fetched.setdefault(at[0], set()).add(int(np.ravel_multi_index(index, shape)) // 16)
    (parts,) = {int(n) for n in re.findall(rf"{names[0]} // (\d+) \+ 1", func.script())}
    panels = sizes[0] // parts
    lines = block * blocks[0] // panels // 16
    for panel in range(panels - 1):
        found = set.union(*[fetched[panel * parts + k] for k in range(parts)])
        assert found == set(range((panel + 1) * lines, (panel + 2) * lines))


def residual(rows: int, inner: int, panels: int, cpu: str = "") -> PrimFunc:
    """data by packed weights, and a tensor added."""
    with Target("llvm" + cpu) as target, KernelPlan(target):
        d, w = te.placeholder((rows, inner), name="d"), te.placeholder((panels, inner, 32), name="w")
        r = te.placeholder((rows, panels * 32), name="r")
        return with_hints([d, w, r, topi.add(topi.nn.dense_pack(d, w), r)], target)


@pytest.mark.parametrize("rows", [24, 37])
@pytest.mark.parametrize("cpu", [" -mcpu=x86-64-v4", " -mcpu=haswell"])
def test_residuals_come_while_sums_are_made(rows: int, cpu: str) -> None:
    """Each line of it is asked for, once a vector, before the sums of the tile that reads it, and within the tensor."""
    func = residual(rows, 256, 2, cpu)
    text = func.script()
    assert EARLY not in text
    asked = re.findall(r'"tir.prefetch", T.address_of\(r\[(.*)\]\), 0, 2, 1\)', text)
    assert asked and text.index("T.address_of(r[") < text.index("T_dense_pack_update")
    seen: set[tuple[int, int]] = set()
    hints: list[Any] = []
    post_order_visit(
        func.body,
        lambda s: (
            hints.append(s.args[0].args[0])
            if isinstance(s, Call) and s.op is Op.get("tir.prefetch") and s.args[0].args[0].buffer.name == "r"
            else None
        ),
    )
    assert all([isinstance(h, BufferLoad) for h in hints])

    def run(s: Any, env: dict[Any, int]) -> None:
        """Rounds of the loops around hints."""
        if isinstance(s, For):
            for i in range(int(s.extent)):
                run(s.body, env | {s.loop_var: i})
        elif isinstance(s, Evaluate) and s.value.args[0].args[0] in hints:
            at = [int(Analyzer().simplify(substitute(i, env))) for i in s.value.args[0].args[0].indices]
            assert 0 <= at[0] < rows and 0 <= at[1] < 64
            seen.add((at[0], at[1] // 16))
        else:
            for child in child_stmts(s):
                run(child, env)

    run(func.body, {})
    assert seen == {(i, j) for i in range(rows) for j in range(4)}
    rng = np.random.default_rng(0)
    x, w, r = (aligned(rng.integers(-9, 9, shape), "float32") for shape in ((rows, 256), (2, 256, 32), (rows, 64)))
    want = x @ w.transpose(1, 0, 2).reshape(256, 64) + r
    found = aligned(np.zeros(want.shape), "float32")
    interp.run(func, [x, w, r, found])
    np.testing.assert_array_equal(found, want)


def test_biases_of_dynamic_rows_are_not_asked_for() -> None:
    """As many elements as what is known of the result, but not one for each of its."""
    rows = tir.SizeVar("rows", "int64")
    with Target("llvm") as target, KernelPlan(target):
        d, w = te.placeholder((rows, 256), name="d"), te.placeholder((2, 256, 32), name="w")
        r, b = te.placeholder((rows, 64), name="r"), te.placeholder((64,), name="b")
        out = topi.add(topi.add(topi.nn.dense_pack(d, w), b), r)
        text = with_hints([d, w, b, r, out], target).script()
    assert "T.address_of(b[" not in text and "T.address_of(r[" in text


def test_residuals_of_short_sums_are_not_asked_for() -> None:
    assert "T.address_of(r[" not in residual(24, 8, 2).script()
