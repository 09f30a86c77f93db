"""Templates, tasks and a runner for tests of tuners (classic)."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

from tilewright import te
from tilewright.autotvm.measure.measure import MeasureInput, MeasureResult, Runner
from tilewright.autotvm.task.task import create, get_config, template
from tilewright.target import Target


class DummyRunner(Runner):
    """Measures nothing: the seconds of what was built are drawn at random."""

    def __init__(self) -> None:
        super().__init__(1, 1)

    def run(self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]) -> list[MeasureResult]:
        return [
            built if isinstance(built, MeasureResult) else MeasureResult((random.random(),), 0, 0.2, time.time())
            for built in build_results
        ]


@template("testing/matmul")
def matmul(N: int, L: int, M: int, dtype: str) -> Any:
    """A matrix product with a tile in each direction."""
    return _scheduled(N, L, M, dtype)


@template("testing/bad_matmul")
def bad_matmul(N: int, L: int, M: int, dtype: str) -> Any:
    """As matmul, but targets with the key bad_device have each configuration refused."""
    target = Target.current()
    return _scheduled(N, L, M, dtype, refused=target is not None and "bad_device" in target.keys)


def _scheduled(N: int, L: int, M: int, dtype: str, refused: bool = False) -> Any:
    A, B = te.placeholder((N, L), name="A", dtype=dtype), te.placeholder((L, M), name="B", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    y, x, k = s[C].leaf_iter_vars
    cfg = get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    if refused:
        cfg.raise_error("this template is for tests of failures")
    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    s[C].reorder(yo, xo, k, yi, xi)
    return s, [A, B, C]


def get_sample_task(n: int = 128) -> tuple[Any, Target]:
    """A task of matmul, and its target."""
    target = Target("llvm")
    return create("testing/matmul", args=(n, n, n, "float32"), target=target), target


def get_sample_records(n: int) -> list[tuple[MeasureInput, MeasureResult]]:
    """So many records of that task; the seconds are 1, 2, ..."""
    task, target = get_sample_task()
    return [
        (MeasureInput(target, task, task.config_space.get(i)), MeasureResult((i + 1,), 0, i, time.time()))
        for i in range(n)
    ]
