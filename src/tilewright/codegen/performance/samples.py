"""Points at which a kernel is looked at: blocks, iterations of loops, and all threads of a block at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tilewright.codegen.performance.accesses import Program, Scope
from tilewright.codegen.performance.index_values import IndexValues, Unknown
from tilewright.ir import IntImm
from tilewright.tir import AttrStmt, For, Var

POINTS = 32
"""Points (a block and an iteration of each loop around a place); all of them where there are no more."""
AXES = ("blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z")
Draw = Callable[[int, Any], Any]


class Launch(NamedTuple):
    """Extents of blockIdx and threadIdx."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]


def launch_of(program: Program, sizes: Mapping[Var, int]) -> Launch:
    """The launch of a kernel; sizes: values of its arguments. Raises Unknown where an extent depends on one that is not given."""
    values = IndexValues(sizes)
    found = [int(values.of(program.axes[tag])) if tag in program.axes else 1 for tag in AXES]
    return Launch((found[0], found[1], found[2]), (found[3], found[4], found[5]))


class Sample(NamedTuple):
    """Values at points x threads. variables: arrays that broadcast to (points, threads); active: which threads are there; steps: how often
    each thread comes here, as a mean; known: whether the conditions are."""

    variables: dict[Var, Any]
    active: np.ndarray
    steps: float
    known: bool


class Sampler:
    """Evaluates the places of a kernel."""

    def __init__(self, program: Program, launch: Launch, sizes: Mapping[Var, int]) -> None:
        self.program, self.launch, self.sizes = program, launch, dict(sizes)
        self.width = -(-launch.threads // 32) * 32
        self._kept: dict[Scope, Sample] = {}

    def sample(self, scope: Scope, moved: Mapping[Var, Any] | None = None) -> Sample:
        """At POINTS points over the whole grid. moved: variables that have other values than those drawn."""
        if moved is None and scope in self._kept:
            return self._kept[scope]
        extents = self._extents(scope)
        total = self.launch.blocks
        for extent in extents:
            total *= max(extent, 1)
        if total <= POINTS:
            points = np.arange(total, dtype=np.int64)
        else:
            drawn = np.random.default_rng(0).integers(0, min(total, 1 << 62), POINTS - 2)
            points = np.array([0, min(total, 1 << 62) - 1, *sorted(drawn)], dtype=np.int64)
        blocks, rest = points % self.launch.blocks, points // self.launch.blocks
        digits = []
        for extent in reversed(extents):
            digits.append(rest % max(extent, 1))
            rest = rest // max(extent, 1)
        digits.reverse()
        share = (np.arange(len(points)) + 0.5) / len(points)

        def draw(loop: int, extent: Any) -> Any:
            return digits[loop][:, None] if extents[loop] else np.floor(share[:, None] * extent).astype(np.int64)

        found = self._evaluate(scope, blocks, draw, moved or {})
        if moved is None:
            self._kept[scope] = found
        return found

    def wave(self, scope: Scope, blocks: int, at: float) -> Sample:
        """The first blocks of the grid, all at the same iteration: at a share of each loop."""
        numbers = np.arange(min(blocks, self.launch.blocks), dtype=np.int64)
        return self._evaluate(
            scope, numbers, lambda loop, extent: np.asarray(np.floor(at * extent)).astype(np.int64), {}
        )

    def _extents(self, scope: Scope) -> list[int]:
        """The extents of the loops around a scope; 0 where they are not constant."""
        loops = [s.step for s in scope.path() if isinstance(s.step, For)]
        return [loop.extent.value if isinstance(loop.extent, IntImm) else 0 for loop in loops]

    def _evaluate(self, scope: Scope, blocks: np.ndarray, draw: Draw, moved: Mapping[Var, Any]) -> Sample:
        launch = self.launch
        threads = np.arange(self.width, dtype=np.int64)[None, :]
        gx, gy, _ = launch.grid
        x, y, _ = launch.block
        axes = dict(
            zip(
                AXES,
                (
                    blocks % gx,
                    blocks // gx % gy,
                    blocks // (gx * gy),
                    threads % x,
                    threads // x % y,
                    threads // (x * y),
                ),
                strict=True,
            )
        )
        active = np.broadcast_to(threads < launch.threads, (len(blocks), self.width))
        variables: dict[Var, Any] = dict(self.sizes)
        steps, known, loop = 1.0, True, 0
        for place in scope.path():
            step, values = place.step, IndexValues(variables)
            try:
                if isinstance(step, AttrStmt):
                    axis = axes[step.node.thread_tag]
                    variables[step.node.var] = axis if step.node.thread_tag[0] == "t" else axis[:, None]
                    active = active & (variables[step.node.var] < values.of(step.value))
                elif isinstance(step, For):
                    number, loop = loop, loop + 1
                    extent = values.of(step.extent)
                    steps *= float(np.mean(np.maximum(extent, 0)))
                    variables[step.loop_var] = values.of(step.min) + draw(number, extent)
                    if np.ndim(extent):
                        active = active & (extent > 0)
                elif hasattr(step, "var"):
                    variables[step.var] = values.of(step.value)
                else:
                    holds = values.of(step)
                    active = active & (holds if place.holds else np.logical_not(holds))
            except Unknown:
                known = False
            variables |= {var: value for var, value in moved.items() if var in variables}
        return Sample(variables, np.asarray(active), steps, known)


__all__ = ["Launch", "Sample", "Sampler", "launch_of"]
