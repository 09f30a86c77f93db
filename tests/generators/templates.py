"""Random AutoTVM templates: schedules of random tensor expressions whose splits, orders, marks and places are knobs."""

from __future__ import annotations

import random
from random import Random
from typing import Any

from tests.generators.case import Recipe
from tests.generators.tensors import build, parameters
from tilewright import autotvm, te, tir
from tilewright.autotvm.measure.measure import MeasureInput
from tilewright.autotvm.measure.measure_methods import program_of
from tilewright.ir import IRModule
from tilewright.support.errors import TVMError
from tilewright.te.schedule_apply import apply_schedule
from tilewright.tuning.space import Space

PLACES = ("own", "inlined", "outer", "inner")
MOST_ORDERED = 4
"""Loops whose orders are all tried: 24."""


@autotvm.template("tests/random")
def template(seed: int, stages: int) -> Any:
    """The tensors of a recipe, under a schedule whose decisions are open."""
    recipe = Recipe(seed, tuple(range(stages)), ())
    rng = recipe.rng("template")
    b, outputs = build(recipe)
    s = te.create_schedule([t.op for t in outputs])
    cfg = autotvm.get_config()
    cfg.add_flop(1)
    for number, stage in enumerate(reversed([st for st in s.stages if isinstance(st.op, te.ComputeOp)])):
        _schedule(cfg, s, stage, f"s{number}", rng)
    return s, parameters(b, outputs)


def _schedule(cfg: Any, s: Any, stage: Any, name: str, rng: random.Random) -> None:
    """Knobs of a stage, whose readers are scheduled already."""
    readers = [st for st in s.stages if any([t.op is stage.op for t in st.op.input_tensors])]
    chances = [rng.random() for _ in range(5)]
    if not stage.is_output and len(readers) == 1 and isinstance(readers[0].op, te.ComputeOp) and chances[0] < 0.7:
        cfg.define_knob(f"{name}.place", [p for p in PLACES if p != "inlined" or not stage.op.reduce_axis])
        place = cfg[f"{name}.place"].val
        if place == "inlined":
            stage.compute_inline()
        elif place != "own":
            loops = list(readers[0].leaf_iter_vars)
            stage.compute_at(readers[0], loops[0 if place == "outer" else len(loops) // 2])
    loops = []
    for i, axis in enumerate([*stage.op.axis, *stage.op.reduce_axis]):
        extent, knob = int(axis.dom.extent), f"{name}.{i}"
        policy = rng.choice(["factors", "factors", "power2", "verbose"])
        if rng.random() < 0.3 or extent == 1:
            loops.append(axis)
            continue
        cfg.define_split(knob, cfg.axis(axis), policy=policy, num_outputs=rng.choice([2, 2, 3]))
        inlined = f"{name}.place" in cfg and cfg[f"{name}.place"].val == "inlined"
        loops += [axis] if inlined else list(cfg[knob].apply(s, stage.op, axis))
    if f"{name}.place" in cfg and cfg[f"{name}.place"].val == "inlined":
        loops = []
    if len(stage.op.axis) > 1 and chances[1] < 0.6:
        count = min(MOST_ORDERED, len(stage.op.axis) + len(stage.op.reduce_axis))
        cfg.define_reorder(f"{name}.order", [cfg.axis(2) for _ in range(count)], policy="all")
        if loops:
            first = loops[-count:]
            cfg[f"{name}.order"].apply(s, stage.op, first)
    cfg.define_knob(f"{name}.mark", ["none", "unroll", "vectorize", "parallel", "pragma"])
    mark = cfg[f"{name}.mark"].val
    leaves = [v for v in stage.leaf_iter_vars if loops]
    if not leaves or mark == "none":
        return
    leaf = leaves[-1] if mark in ("unroll", "vectorize") else leaves[0]
    if mark == "pragma":
        stage.pragma(leaf, "auto_unroll_max_step", 16)
    elif mark == "unroll" or leaf.iter_type != tir.IterVar.CommReduce:
        getattr(stage, mark)(leaf)


class TemplateSpace(Space[int]):
    """A template's configurations, by their indices."""

    def __init__(self, task: Any) -> None:
        self.task = task

    def untuned(self) -> IRModule:
        """The same computation without a schedule."""
        seed, stages = self.task.args
        b, outputs = build(Recipe(seed, tuple(range(stages)), ()))
        args = parameters(b, outputs)
        return IRModule.from_expr(apply_schedule(te.create_schedule([t.op for t in outputs]), args))

    def program(self, candidate: int) -> IRModule:
        return program_of(MeasureInput(self.task.target, self.task, self.task.config_space.get(candidate)))

    def draw(self, random: Random) -> int:
        return random.randrange(self.task.config_space.range_length)

    def neighbour(self, candidate: int, random: Random) -> int:
        return int(self.task.config_space.random_walk(candidate))

    def crossed(self, first: int, second: int, random: Random) -> int:
        space = self.task.config_space
        pairs = zip(space.point2knob(first), space.point2knob(second), strict=True)
        return int(space.knob2point([random.choice(pair) for pair in pairs]))

    def write(self, candidate: int) -> object:
        return self.task.config_space.get(candidate).to_json_dict()

    def read(self, data: object) -> int:
        if not isinstance(data, dict):
            raise TVMError(f"a configuration is an object, but this is {data!r}")
        return int(autotvm.task.space.ConfigEntity.from_json_dict(data).index)


def space_of(seed: int, stages: int, target: str) -> TemplateSpace:
    return TemplateSpace(autotvm.task.create("tests/random", args=(seed, stages), target=target))
