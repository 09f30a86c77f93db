"""Steps as loops over micro-ops, and copies as matrices: what they make is what they were given."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tilewright import tir
from tilewright.vta.compiler.elements import inner_loops
from tilewright.vta.compiler.steps import Loops, as_loops
from tilewright.vta.compiler.transfers import Transfer, transfers
from tilewright.vta.configuration import Configuration
from tilewright.vta.isa.layout import layout_of

LAYOUT = layout_of(Configuration())


def steps_of(loops: Loops) -> list[tuple[int, ...]]:
    found = []
    for i in range(loops.out):
        for j in range(loops.inner):
            for u in loops.uops:
                found.append(
                    tuple([v + i * a + j * b for v, a, b in zip(u, loops.factors_out, loops.factors_in, strict=True)])
                )
    return found


def made(steps: np.ndarray, kind: str = "gemm") -> list[Loops]:
    return [e.loops for e in as_loops(steps, LAYOUT, kind)]


def test_a_nest_is_one_instruction() -> None:
    i, j, k = np.meshgrid(np.arange(5), np.arange(7), np.arange(3), indexing="ij")
    steps = np.stack([(7 * i + j).ravel(), (10 * i + 3 * j + k).ravel(), (k * 4).ravel()], axis=1)
    [loops] = made(steps)
    assert (len(loops.uops), loops.out, loops.inner) == (3, 5, 7)
    assert steps_of(loops) == [tuple(s) for s in steps]


def test_a_row_needs_one_micro_op() -> None:
    [loops] = made(np.stack([np.arange(100), np.zeros(100, int), np.arange(100) * 2], axis=1))
    assert (len(loops.uops), loops.out, loops.inner, loops.factors_in) == (1, 1, 100, (1, 0, 2))


@pytest.mark.parametrize("seed", range(60))
def test_random_steps_come_back(seed: int) -> None:
    rng = random.Random(seed)
    parts = []
    for _ in range(rng.randint(1, 3)):
        if rng.random() < 0.4:
            parts.append(
                np.array(
                    [[rng.randrange(2000), rng.randrange(2000), rng.randrange(1000)] for _ in range(rng.randint(1, 20))]
                )
            )
            continue
        extents = [rng.randint(1, 6) for _ in range(4)]
        points = np.stack(np.meshgrid(*map(np.arange, extents), indexing="ij"), axis=-1).reshape(-1, 4)
        parts.append(points @ np.array([[rng.randint(0, 9) for _ in range(3)] for _ in range(4)]) + rng.randint(0, 50))
    steps = np.concatenate(parts)
    assert [s for loops in made(steps) for s in steps_of(loops)] == [tuple(s) for s in steps]


def test_steps_that_go_down_or_far() -> None:
    down = np.stack([np.arange(50)[::-1], np.zeros(50, int), np.zeros(50, int)], axis=1)
    assert [s for loops in made(down) for s in steps_of(loops)] == [tuple(s) for s in down]
    many = np.stack([np.arange(20000) % 2000, np.zeros(20000, int), np.arange(20000) // 2000], axis=1)
    [loops] = made(many)
    assert (loops.out, loops.inner, len(loops.uops)) == (10, 2000, 1)


def moved(found: list[Transfer], size: int) -> dict[int, int]:
    """By element on the chip, its address, or -1 for padding; an element that is written twice is an error."""
    out: dict[int, int] = {}
    for t in found:
        top, bottom, left, right = t.padding
        assert max(t.padding) < 16
        at = t.sram
        for y in range(-top, t.rows + bottom):
            for x in range(-left, t.columns + right):
                assert at not in out
                inside = 0 <= y < t.rows and 0 <= x < t.columns
                out[at] = t.dram + (y * t.stride + x) * size if inside else -1
                at += 1
        assert at == t.sram + t.elements
    return out


def test_a_padded_image_is_one_instruction() -> None:
    rows, columns, size = 14, 14, 16
    dram = np.full((rows + 2, columns + 3), -1)
    dram[1:-1, 1:-2] = 4096 + (np.arange(rows)[:, None] * 56 + np.arange(columns)) * size
    [t] = transfers(np.arange(dram.size) + 7, dram.ravel(), size, LAYOUT)
    assert t == Transfer(7, 4096, 14, 14, 56, (1, 1, 1, 2))


def test_the_edges_of_an_image() -> None:
    """Tiles at the top, at the bottom and in the middle of an image have padding on some sides."""
    for top, bottom, left, right in ((2, 0, 2, 0), (0, 2, 0, 2), (0, 0, 2, 2), (0, 0, 0, 0), (3, 3, 0, 0)):
        dram = np.full((5 + top + bottom, 6 + left + right), -1)
        dram[top : top + 5, left : left + 6] = (np.arange(5)[:, None] * 20 + np.arange(6)) * 16
        found = list(transfers(np.arange(dram.size), dram.ravel(), 16, LAYOUT))
        assert [t.padding for t in found] == [(top, bottom, left, right)]


@pytest.mark.parametrize("seed", range(120))
def test_random_copies_come_back(seed: int) -> None:
    rng = random.Random(seed)
    size = rng.choice([4, 15, 16, 64])
    sram, dram, at = [], [], rng.randint(0, 5)
    for _ in range(rng.randint(1, 6)):
        at += rng.choice([0, 0, 1, 9])
        kind = rng.random()
        if kind < 0.2:
            count = rng.choice([1, 3, 40, 1000])
            sram += range(at, at + count)
            dram += [-1] * count
            at += count
            continue
        rows, columns, stride = rng.randint(1, 5), rng.randint(1, 6), rng.randint(1, 9)
        pads = [rng.choice([0, 0, 1, 2, 20]) if kind < 0.7 else 0 for _ in range(4)]
        base = rng.randint(0, 99) * size + rng.choice([0, 0, 0, 1])
        for y in range(-pads[0], rows + pads[1]):
            for x in range(-pads[2], columns + pads[3]):
                inside = 0 <= y < rows and 0 <= x < columns
                sram.append(at)
                dram.append(base + (y * stride + x) * size if inside else -1)
                at += 1
    order = list(range(len(sram)))
    rng.shuffle(order)
    found = list(transfers(np.array(sram)[order], np.array(dram)[order], size, LAYOUT))
    assert moved(found, size) == dict(zip(sram, dram, strict=True))


def test_loops_over_the_numbers_of_an_element() -> None:
    """They are left out where all indices go through them in their order, and nothing else depends on them."""
    i, y, x = (tir.Var(name, "int32") for name in "iyx")
    source, to = (tir.decl_buffer((64,), "int32", name) for name in ("source", "to"))
    loops = [(i, 0, 4), (y, 0, 2), (x, 0, 8)]

    def left_out(index: Any, loops: Any = loops, conditions: Any = (), value: Any = lambda load: load) -> int:
        store = tir.BufferStore(to, value(tir.BufferLoad(source, [index])), [i * 16 + y * 8 + x])
        return inner_loops(loops, conditions, store, 16)

    assert left_out((i + 3) * 16 + (y * 8 + x)) == 2
    assert left_out(i * 16 + x * 2 + y) == 0
    assert left_out(i * 16 + tir.floordiv(y * 8 + x, 3)) == 0
    assert (
        left_out(i * 16 + y * 8 + x, conditions=[i < 3]) == 2 and left_out(i * 16 + y * 8 + x, conditions=[x < 7]) == 0
    )
    assert left_out(i * 16 + y * 8 + x, value=lambda load: load + x) == 0
    assert left_out(i * 16 + y * 8 + x, loops[1:]) == 2 and left_out(i * 16 + y * 8 + x, [(x, 0, 8), (y, 0, 2)]) == 0
    assert left_out(i * 16 + y * 8 + x, [(i, 0, 4), (y, 0, 3), (x, 0, 8)]) == 0
