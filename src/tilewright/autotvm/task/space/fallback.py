"""The configuration of a program that was not tuned."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tilewright.autotvm.task.space.annotations import AnnotateEntity
from tilewright.autotvm.task.space.config import ConfigEntity, ConfigSpace
from tilewright.autotvm.task.space.transforms import SplitEntity, SplitSpace, get_factors


class FallbackConfigEntity(ConfigSpace):
    """What a template is given if no record fits (`cfg.is_fallback`). A knob is the first of its choices, until the template sets it:
    `cfg["tile"] = SplitEntity([-1, 8])`, or by one of the methods."""

    is_fallback = True

    def multi_filter(self, filter: Callable[[ConfigEntity], bool]) -> None:
        """Nothing: the knobs are what the template sets. A template may be called with the same fallback many times."""

    def fallback_split(self, name: str, constraints: Sequence[int]) -> None:
        """Splits so that each extent divides the axis, and is as large as its constraint lets it be, the innermost first.

        constraints: the largest extent of each axis; -1: any. Raises RuntimeError where the knob is no split of so many axes.
        """
        space = self.space_map.get(name)
        if not isinstance(space, SplitSpace) or len(constraints) != space.num_output:
            raise RuntimeError(f"the knob {name!r} is no split into {len(constraints)} axes")
        sizes, left = [], space.product
        for limit in reversed(constraints):
            factors = [f for f in get_factors(left) if limit == -1 or f <= limit]
            if not factors:
                raise RuntimeError(f"the split {name!r} cannot be within {list(constraints)}: an extent is 1 or more")
            sizes.append(factors[-1])
            left //= factors[-1]
        self._entity_map[name] = SplitEntity(sizes[::-1])

    def fallback_with_reference_log(self, ref_log: Iterable[tuple[Any, Any]]) -> None:
        """Sets the knobs after the record whose configuration fits best: that has the same knobs, and whose splits divide the axes here.
        Splits become the nearest that divide the axis. Nothing is changed if no record has the knobs.

        ref_log: records, as `record.load_from_file` gives them.
        """
        best, most = None, -1.0
        for given, _ in ref_log:
            score = self._likeness(given.config)
            if score > most:
                best, most = given.config, score
        if best is None:
            return
        for name, space in self.space_map.items():
            entity = best[name]
            if isinstance(space, SplitSpace):
                # What the outermost axis has is left to it: it is often not in the record.
                self.fallback_split(name, [-1, *entity.size[1:]])
            elif isinstance(entity, AnnotateEntity) or entity in space.entities:
                self._entity_map[name] = entity

    def _likeness(self, config: ConfigSpace) -> float:
        """How well a configuration fits; -1 if it has other knobs."""
        score = 0.0
        for name, space in self.space_map.items():
            if name not in config:
                return -1.0
            entity = config[name]
            if isinstance(space, SplitSpace):
                if not isinstance(entity, SplitEntity) or len(entity.size) != space.num_output:
                    return -1.0
                inner = math.prod(entity.size[1:])
                score += math.gcd(inner, space.product) / inner
            elif not isinstance(entity, type(space[0])):
                return -1.0
            elif entity in space.entities:
                score += 1.0
        return score

    def __repr__(self) -> str:
        return f"{list(self._entity_map.items())},{self.code_hash}"
