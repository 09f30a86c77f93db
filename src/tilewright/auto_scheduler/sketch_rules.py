"""Sketches: programs whose structure is chosen, and whose sizes are not.

The derivation is that of Ansor (Zheng et al., OSDI 2020, section 4.1 and table 1): from the last stage to the first one, each rule that
fits the stage makes a branch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from tilewright.auto_scheduler.compute_dag import ComputeDAG
from tilewright.auto_scheduler.hardware import HardwareParams
from tilewright.auto_scheduler.loop_state import State
from tilewright.auto_scheduler.loops import COMPUTE, REDUCTION, SPATIAL, Iterator, StateObject
from tilewright.auto_scheduler.sketch_facts import (
    always_inlined,
    fusible_reader,
    has_data_reuse,
    is_copy,
    is_untouched,
    tiled_column_reader,
    wants_partial_reductions,
)
from tilewright.support.errors import TVMError

Branch = tuple[StateObject, int]
"""A program, and the stage at which its derivation goes on; -1 at its end."""


class Condition(IntEnum):
    """What a rule says of a stage: it does not fit, it makes a branch, or it makes the only branches."""

    PASS = 0
    APPLY = 1
    APPLY_AND_SKIP_REST = 2


@dataclass(frozen=True)
class Problem:
    """What is derived: of which computation, for which machine, with which order of the levels of tiles (S spatial, R reduction)."""

    dag: ComputeDAG
    hardware: HardwareParams
    structure: str = "SSRSRS"


class Rule(ABC):
    """A rule of the derivation."""

    @abstractmethod
    def condition(self, problem: Problem, state: StateObject, stage: int) -> Condition:
        """Whether the rule fits a stage."""

    @abstractmethod
    def apply(self, problem: Problem, state: StateObject, stage: int) -> list[Branch]:
        """The branches that the rule makes."""


class AlwaysInline(Rule):
    """Simple stages are computed where they are read."""

    def condition(self, problem: Problem, state: StateObject, stage: int) -> Condition:
        return Condition.APPLY_AND_SKIP_REST if always_inlined(state, stage) else Condition.PASS

    def apply(self, problem: Problem, state: StateObject, stage: int) -> list[Branch]:
        made = State(state, problem.dag)
        made.compute_inline(stage)
        return [(made.state_object, stage - 1)]


class PartialReductions(Rule):
    """A long reduction with few results becomes partial reductions, along the outer or the inner part of its loop."""

    def condition(self, problem: Problem, state: StateObject, stage: int) -> Condition:
        fits = wants_partial_reductions(state, stage, problem.hardware.num_cores)
        return Condition.APPLY if fits else Condition.PASS

    def apply(self, problem: Problem, state: StateObject, stage: int) -> list[Branch]:
        branches = []
        for inner in (False, True):
            made = State(state, problem.dag)
            spatial = [it for it in made[stage].iters if it.iter_kind == SPATIAL]
            reduction = [it for it in made[stage].iters if it.iter_kind == REDUCTION]
            whole = made.fuse(stage, reduction) if len(reduction) > 1 else reduction[0]
            parts = made.split(stage, whole, [None])
            made.rfactor(stage, parts[inner], len(spatial))
            if inner:
                *outer, lanes, rest = made[stage].iters
                made.reorder(stage, [*outer, rest, lanes])
            branches.append((made.state_object, stage - 1))
        return branches


class CacheStage(Rule):
    """The result of a stage that could be computed in tiles of a reader, but has none, is copied from where it is computed."""

    def condition(self, problem: Problem, state: StateObject, stage: int) -> Condition:
        fits = has_data_reuse(state, stage) and is_untouched(state, stage) and fusible_reader(state, stage) is None
        return Condition.APPLY if fits else Condition.PASS

    def apply(self, problem: Problem, state: StateObject, stage: int) -> list[Branch]:
        made = State(state, problem.dag)
        made.cache_write(stage, "local")
        # The copy takes the stage's number plus one; the computation is what comes next.
        return [(made.state_object, stage)]


class TilingWithFusion(Rule):
    """A stage in tiles, computed in the tiles of its reader: of the outermost level, or of the next one."""

    def condition(self, problem: Problem, state: StateObject, stage: int) -> Condition:
        reader = fusible_reader(state, stage)
        if reader is None or not has_data_reuse(state, stage) or not is_untouched(state, stage):
            return Condition.PASS
        # A copy was made to be fused with.
        return Condition.APPLY_AND_SKIP_REST if is_copy(state, reader) else Condition.APPLY

    def apply(self, problem: Problem, state: StateObject, stage: int) -> list[Branch]:
        reader = fusible_reader(state, stage)
        if reader is None:
            raise TVMError(f"{state.stages[stage].op.name} has no reader whose tiles could compute it")
        branches = []
        before_reduction = len(problem.structure.partition("R")[0])
        for levels in range(1, before_reduction + 1):
            made = State(state, problem.dag)
            splits = tile(made, stage, problem.structure)
            columns = [
                made.follow_split(reader, it, source, levels)
                for it, source in zip(made[reader].iters, splits, strict=True)
            ]
            rows = [list(row) for row in zip(*columns, strict=True)]
            made.reorder(reader, [it for row in rows for it in row])
            made.compute_at(stage, reader, rows[levels - 1][-1])
            branches.append((made.state_object, stage - 1))
        return branches


class Tiling(Rule):
    """A stage whose reads are reused is computed in tiles of several levels."""

    def condition(self, problem: Problem, state: StateObject, stage: int) -> Condition:
        fits = has_data_reuse(state, stage) and is_untouched(state, stage)
        return Condition.APPLY_AND_SKIP_REST if fits else Condition.PASS

    def apply(self, problem: Problem, state: StateObject, stage: int) -> list[Branch]:
        made = State(state, problem.dag)
        tile(made, stage, problem.structure)
        return [(made.state_object, stage - 1)]


class CopyColumns(Rule):
    """An input whose columns a tiled reduction reads is copied in tiles, or read where it is. Where the copy is made is drawn later."""

    def condition(self, problem: Problem, state: StateObject, stage: int) -> Condition:
        reader = tiled_column_reader(state, stage)
        if reader is None:
            return Condition.PASS
        op: Any = state.stages[reader].op
        loops = problem.structure.count("S") * len(op.axis) + problem.structure.count("R") * len(op.reduce_axis)
        return Condition.APPLY if len(state.stages[reader].iters) == loops else Condition.PASS

    def apply(self, problem: Problem, state: StateObject, stage: int) -> list[Branch]:
        reader = tiled_column_reader(state, stage)
        if reader is None:
            raise TVMError(f"{state.stages[stage].op.name} has no tiled reader that would read a copy")
        made = State(state, problem.dag)
        made.cache_read(stage, "global", [reader])
        return [(made.state_object, stage - 1)]


class Skip(Rule):
    """The stage stays as it is."""

    def condition(self, problem: Problem, state: StateObject, stage: int) -> Condition:
        return Condition.APPLY

    def apply(self, problem: Problem, state: StateObject, stage: int) -> list[Branch]:
        return [(state, stage - 1)]


RULES: Sequence[Rule] = (
    AlwaysInline(),
    PartialReductions(),
    CacheStage(),
    TilingWithFusion(),
    Tiling(),
    CopyColumns(),
    Skip(),
)


def tile(state: State, stage: int, structure: str) -> list[int]:
    """Splits all loops of a stage into the levels of a structure, and orders them by level. Returns the numbers of the steps that split
    spatial loops."""
    levels: dict[int, list[list[Iterator]]] = {SPATIAL: [], REDUCTION: []}
    sources = []
    for it in state[stage].iters:
        count = structure.count("S" if it.iter_kind == SPATIAL else "R")
        if it.iter_kind == SPATIAL:
            sources.append(len(state.transform_steps))
        levels[it.iter_kind].append(state.split(stage, it, [None] * (count - 1)))
    order: list[Iterator] = []
    seen = {"S": 0, "R": 0}
    for letter in structure:
        columns = levels[SPATIAL if letter == "S" else REDUCTION]
        order += [column[seen[letter]] for column in columns]
        seen[letter] += 1
    state.reorder(stage, order)
    return sources


def generate(problem: Problem, rules: Sequence[Rule] = RULES) -> list[StateObject]:
    """All sketches of a computation."""
    for letter in problem.structure:
        if letter not in "SR":
            raise TVMError(f"a structure of tiles has the letters S and R, but this one is {problem.structure!r}")
    waiting: list[Branch] = [(problem.dag.init_state, len(problem.dag.ops) - 1)]
    found: list[StateObject] = []
    while waiting:
        state, stage = waiting.pop(0)
        if stage < 0:
            found.append(state)
            continue
        waiting += _branches(problem, rules, state, stage)
    return found


def _branches(problem: Problem, rules: Sequence[Rule], state: StateObject, stage: int) -> list[Branch]:
    made: list[Branch] = []
    for rule in rules:
        if state.stages[stage].op_type != COMPUTE and isinstance(rule, CustomRule):
            continue
        found = rule.condition(problem, state, stage)
        if found is not Condition.PASS:
            made += rule.apply(problem, state, stage)
        if found is Condition.APPLY_AND_SKIP_REST:
            break
    return made


class CustomRule(Rule):
    """A user's rule: functions that are given `policy` first. Their results are a number of Condition, and pairs of a state and a stage."""

    def __init__(self, policy: Any, meet: Any, apply: Any) -> None:
        self.policy, self.meet, self.make = policy, meet, apply

    def condition(self, problem: Problem, state: StateObject, stage: int) -> Condition:
        return Condition(int(self.meet(self.policy, state, stage)))

    def apply(self, problem: Problem, state: StateObject, stage: int) -> list[Branch]:
        made = self.make(self.policy, state, stage)
        return [(s.state_object if isinstance(s, State) else s, int(n)) for s, n in made]
