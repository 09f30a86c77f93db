"""Random schedules of tensor expressions: every primitive of stages, consumers first."""

from __future__ import annotations

import random
from typing import Any

from tests.generators.case import Case, Recipe
from tests.generators.tensors import build, parameters, reference_of
from tilewright import te, tir
from tilewright.support.errors import ScheduleError

Refusals = (ScheduleError,)


def draw(recipe: Recipe) -> Case:
    """The program of a recipe under a schedule of stages; its steps pick the stages and primitives."""
    b, outputs = build(recipe)
    args = parameters(b, outputs)
    s = te.create_schedule([t.op for t in outputs])
    done: list[str] = []
    for number in recipe.steps:
        rng = recipe.rng(f"step{number}")
        name = rng.choice(NAMES)
        stage = rng.choice([st for st in s.stages if isinstance(st.op, te.ComputeOp)])
        try:
            if STEPS[name](s, stage, rng):
                done.append(name)
        except Refusals:
            done.append(f"no {name}")
    func = s.to_prim_func(args)
    return Case("te schedule", func, b.fill, b.sizes, reference_of(b, args, outputs), b.tolerance, done)


def _leaf(stage: Any, rng: random.Random) -> Any:
    return rng.choice(list(stage.leaf_iter_vars))


def _readers(s: Any, stage: Any) -> list[Any]:
    return [st for st in s.stages if any([t.op is stage.op for t in st.op.input_tensors])]


def split(s: Any, stage: Any, rng: random.Random) -> bool:
    if rng.random() < 0.7:
        stage.split(_leaf(stage, rng), factor=rng.choice([2, 3, 4, 8]))
    else:
        stage.split(_leaf(stage, rng), nparts=rng.choice([2, 3]))
    return True


def fuse(s: Any, stage: Any, rng: random.Random) -> bool:
    leaves = list(stage.leaf_iter_vars)
    if len(leaves) < 2:
        return False
    k = rng.randrange(len(leaves) - 1)
    stage.fuse(leaves[k], leaves[k + 1])
    return True


def reorder(s: Any, stage: Any, rng: random.Random) -> bool:
    leaves = list(stage.leaf_iter_vars)
    stage.reorder(*rng.sample(leaves, rng.randint(1, len(leaves))))
    return True


def tile(s: Any, stage: Any, rng: random.Random) -> bool:
    leaves = [v for v in stage.leaf_iter_vars if v.iter_type == tir.IterVar.DataPar]
    if len(leaves) < 2:
        return False
    stage.tile(*rng.sample(leaves, 2), rng.choice([2, 4]), rng.choice([2, 3]))
    return True


def mark(kind: str) -> Any:
    def apply(s: Any, stage: Any, rng: random.Random) -> bool:
        leaves = list(stage.leaf_iter_vars)
        leaf = leaves[-1] if kind == "vectorize" else leaves[0] if kind == "parallel" else rng.choice(leaves)
        if kind in ("vectorize", "parallel") and leaf.iter_type == tir.IterVar.CommReduce:
            return False
        getattr(stage, kind)(leaf)
        return True

    return apply


def compute_at(s: Any, stage: Any, rng: random.Random) -> bool:
    readers = _readers(s, stage)
    if stage.is_output or len(readers) != 1 or not isinstance(readers[0].op, te.ComputeOp):
        return False
    stage.compute_at(readers[0], _leaf(readers[0], rng))
    return True


def compute_inline(s: Any, stage: Any, rng: random.Random) -> bool:
    attached = any([st.attach_stage is stage for st in s.stages])
    if stage.is_output or stage.op.reduce_axis or attached or stage.op.num_outputs > 1:
        return False
    stage.compute_inline()
    return True


def compute_root(s: Any, stage: Any, rng: random.Random) -> bool:
    stage.compute_root()
    return True


def cache_read(s: Any, stage: Any, rng: random.Random) -> bool:
    inputs = list(stage.op.input_tensors)
    if not inputs:
        return False
    s.cache_read(rng.choice(inputs), rng.choice(["local", "shared", "global"]), [stage.op])
    return True


def cache_write(s: Any, stage: Any, rng: random.Random) -> bool:
    tensors = [stage.op.output(k) for k in range(stage.op.num_outputs)]
    s.cache_write(tensors if len(tensors) > 1 else tensors[0], rng.choice(["local", "global"]))
    return True


def rfactor(s: Any, stage: Any, rng: random.Random) -> bool:
    over = [v for v in stage.leaf_iter_vars if v.iter_type == tir.IterVar.CommReduce]
    if not over or any([st.attach_stage is stage for st in s.stages]):
        return False
    s.rfactor(stage.op.output(0), rng.choice(over), rng.choice([0, 0, -1]))
    return True


def set_scope(s: Any, stage: Any, rng: random.Random) -> bool:
    if stage.is_output:
        return False
    stage.set_scope(rng.choice(["local", "shared", "global"]))
    return True


def storage_align(s: Any, stage: Any, rng: random.Random) -> bool:
    if stage.is_output:
        return False
    stage.storage_align(rng.choice(list(stage.op.axis)), rng.choice([4, 8]), rng.choice([0, 1]))
    return True


def double_buffer(s: Any, stage: Any, rng: random.Random) -> bool:
    if stage.is_output:
        return False
    stage.double_buffer()
    return True


def pragma(s: Any, stage: Any, rng: random.Random) -> bool:
    stage.pragma(_leaf(stage, rng), "auto_unroll_max_step", rng.choice([4, 16]))
    return True


def prefetch(s: Any, stage: Any, rng: random.Random) -> bool:
    inputs = list(stage.op.input_tensors)
    if not inputs:
        return False
    stage.prefetch(rng.choice(inputs), _leaf(stage, rng), rng.choice([1, 2]))
    return True


STEPS: dict[str, Any] = {
    "split": split, "fuse": fuse, "reorder": reorder, "tile": tile, "vectorize": mark("vectorize"),
    "unroll": mark("unroll"), "parallel": mark("parallel"), "compute_at": compute_at,
    "compute_inline": compute_inline, "compute_root": compute_root, "cache_read": cache_read,
    "cache_write": cache_write, "rfactor": rfactor, "set_scope": set_scope, "storage_align": storage_align,
    "double_buffer": double_buffer, "pragma": pragma, "prefetch": prefetch,
}  # fmt: skip
NAMES = [*STEPS, "split", "split", "split", "fuse", "reorder", "compute_at", "compute_at", "compute_at", "rfactor"]
