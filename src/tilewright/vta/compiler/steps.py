"""Steps of gemm and alu as micro-ops and two loops."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tilewright.vta.isa.layout import Layout
from tilewright.vta.isa.program import Uop

Array = np.ndarray[Any, Any]


class Loops(NamedTuple):
    """Micro-ops, trips of the outer and the inner loop, and the factors of dst, src and wgt for each."""

    uops: tuple[Uop, ...]
    out: int
    inner: int
    factors_out: tuple[int, int, int]
    factors_in: tuple[int, int, int]


def _nested(deltas: Array, most: int) -> tuple[int, int, Array, Array] | None:
    """Offsets as i * a + j * b with non-negative factors: (trips of i, trips of j, a, b)."""
    count, zero = len(deltas), np.zeros(3, np.int64)
    if count == 1:
        return 1, 1, zero, zero
    b = deltas[1]
    straight = (deltas == np.arange(count)[:, None] * b).all(axis=1)
    inner = count if straight.all() else int(np.argmin(straight))
    if count % inner or max(inner, count // inner) > most:
        return None
    a = deltas[inner] if inner < count else zero
    grid = np.arange(count // inner)[:, None, None] * a + np.arange(inner)[None, :, None] * b
    if (grid.reshape(count, 3) != deltas).any() or (a < 0).any() or (b < 0).any():
        return None
    return count // inner, inner, a, b


def _fitted(steps: Array, layout: Layout, names: tuple[str, ...], kind: str) -> Loops | None:
    """All steps as one instruction with the fewest micro-ops, if there is one."""
    places = {p.field.name: p for p in layout.instructions[kind]}
    count = len(steps)
    for k in [k for k in range(1, min(count, layout.config.depth("uop")) + 1) if count % k == 0]:
        rows = steps.reshape(count // k, k, 3)
        deltas = rows - rows[0]
        if (deltas != deltas[:, :1]).any():
            continue
        found = _nested(deltas[:, 0], places["iter_in"].high)
        if found is None:
            continue
        out, inner, a, b = found
        if all(
            [
                a[n] <= places[f"{x}_factor_out"].high and b[n] <= places[f"{x}_factor_in"].high
                for n, x in enumerate(names)
            ]
        ):
            uops = tuple([Uop(*map(int, u)) for u in rows[0]])
            return Loops(uops, out, inner, (int(a[0]), int(a[1]), int(a[2])), (int(b[0]), int(b[1]), int(b[2])))
    return None


@lru_cache(maxsize=32)
def _relative(data: bytes, layout: Layout, kind: str) -> tuple[Loops, ...]:
    """Steps from the first one on, as instructions; tiles of a kernel have the same ones."""
    names = ("dst", "src", "wgt") if kind == "gemm" else ("dst", "src")
    waiting, done = [np.frombuffer(data, np.int64).reshape(-1, 3)], []
    while waiting:
        part = waiting.pop()
        found = _fitted(part, layout, names, kind)
        if found is not None:
            done.append(found)
            continue
        half = len(part) // 2
        waiting += [part[half:], part[:half]]
    return tuple(done)


class Emitted(NamedTuple):
    """An instruction: its loops, and the elements of dst, src and wgt that it goes through, each once."""

    loops: Loops
    elements: tuple[Array, Array, Array]


def as_loops(steps: Array, layout: Layout, kind: str) -> tuple[Emitted, ...]:
    """Steps, in their order, as instructions. steps: rows of (dst, src, wgt); kind: "gemm" or "alu", whose micro-ops have no wgt."""
    return _placed(steps.astype(np.int64).tobytes(), layout, kind)


@lru_cache(maxsize=32)
def _placed(data: bytes, layout: Layout, kind: str) -> tuple[Emitted, ...]:
    """Tiles of a virtual thread have the same steps at the same places."""
    steps, found, done = np.frombuffer(data, np.int64).reshape(-1, 3), [], 0
    if len(steps) == 0:
        return ()
    dst, src, wgt = map(int, steps[0])
    for loops in _relative((steps - steps[0]).tobytes(), layout, kind):
        count = loops.out * loops.inner * len(loops.uops)
        part, done = steps[done : done + count], done + count
        uops = tuple([Uop(u.dst + dst, u.src + src, u.wgt + wgt) for u in loops.uops])
        elements = np.unique(part[:, 0]), np.unique(part[:, 1]), np.unique(part[:, 2])
        found.append(Emitted(loops._replace(uops=uops), elements))
    return tuple(found)


__all__ = ["Emitted", "Loops", "as_loops"]
