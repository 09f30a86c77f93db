"""Configurations of templates: the space of all, and a single one."""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tilewright.autotvm.task.space.annotations import (
    ALL_MARKS,
    AnnotateEntity,
    AnnotateSpace,
    OtherOptionEntity,
    OtherOptionSpace,
)
from tilewright.autotvm.task.space.transforms import (
    Axis,
    Entity,
    ReorderEntity,
    ReorderSpace,
    SplitEntity,
    SplitSpace,
    TransformSpace,
    VirtualAxis,
)
from tilewright.support.errors import TVMError

ENTITIES: dict[str, Callable[[Any], Entity]] = {
    c.kind: c for c in (SplitEntity, ReorderEntity, AnnotateEntity, OtherOptionEntity)
}


class InstantiationError(ValueError):
    """A configuration that its template refuses (`raise_error`)."""


class ConfigSpace:
    """What a template's knobs can be. The template defines them when it is called with a space; then, and when it is called with a
    configuration, `cfg[name]` is what a knob is.

    space_map: the knobs by name. errors: what the template found wrong. flop: operations of a call, that the template added. code_hash:
    identifies the template's program (`attach_code_hash`).

    A configuration has a number, its index. The choice of the first knob changes fastest with it.
    """

    is_fallback = False

    def __init__(self) -> None:
        self.space_map: dict[str, TransformSpace] = {}
        self.errors: list[str] = []
        self.code_hash: str | None = None
        self.flop: float = 0
        self.cost: float | None = None
        self._collect = True
        self._entity_map: dict[str, Any] = {}
        self._constraints: list[str] = []
        self._filters: list[Callable[[ConfigEntity], bool]] = []
        self._known: dict[int, bool] = {}
        self._length: int | None = None
        self._dims: list[int] = []

    @staticmethod
    def axis(var: Any) -> VirtualAxis:
        """An axis of the template: an extent, an IterVar or a variable."""
        return VirtualAxis(var)

    reduce_axis = axis

    def define_split(self, name: str, axis: Any, policy: str = "factors", **kwargs: Any) -> list[Axis]:
        """Defines how an axis can be split: see `SplitSpace`. Returns the axes that it becomes."""
        return self._define(SplitSpace, name, [axis], policy, **kwargs)

    def define_reorder(self, name: str, axes: Sequence[Any], policy: str, **kwargs: Any) -> list[Axis]:
        """Defines in which orders axes can be: see `ReorderSpace`. Returns the axes."""
        return self._define(ReorderSpace, name, axes, policy, **kwargs)

    def define_annotate(self, name: str, axes: Sequence[Any], policy: str, **kwargs: Any) -> list[Axis]:
        """Defines how axes can be marked: see `AnnotateSpace`. Returns the axes."""
        return self._define(AnnotateSpace, name, axes, policy, **kwargs)

    def define_knob(self, name: str, candidate: Sequence[Any]) -> list[Axis]:
        """Defines values to choose from; `cfg[name].val` is the one that is chosen."""
        return self._define(OtherOptionSpace, name, [], "", candidate=candidate)

    def _define(self, kind: Any, name: str, axes: Sequence[Any], policy: str, **kwargs: Any) -> list[Axis]:
        if not self._collect:
            return [Axis(None, i) for i in range(kind.get_num_output(axes, policy, **kwargs))]
        axes = [a if isinstance(a, (VirtualAxis, Axis)) else self.axis(a) for a in axes]
        try:
            space = kind(axes, policy, **kwargs)
        except ValueError as error:
            raise ValueError(f"the knob {name!r}: {error}") from None
        if not len(space):
            raise TVMError(
                f"the knob {name!r} has nothing to choose from: its filter or max_factor leaves no candidate"
            )
        self.space_map[name], self._entity_map[name] = space, space[0]
        self.clear_cache()
        return [Axis(space, i) for i in range(space.num_output)]

    def multi_filter(self, filter: Callable[[ConfigEntity], bool]) -> None:
        """Leaves out configurations: the function takes one, and tells whether it may be chosen. Their indices stay what they are; then
        `range_length` is how many indices there are, and `len` how many of them are valid."""
        if self._collect:
            self._filters.append(filter)
            self.clear_cache()

    def clear_cache(self) -> None:
        """Forgets which indices are valid; after the knobs or filters have changed."""
        self._known.clear()
        self._length, self._dims = None, []

    def add_flop(self, flop: float) -> None:
        """Adds operations of a call, for templates whose operations cannot be counted from the compute."""
        self.flop += float(flop)

    def raise_error(self, msg: str) -> None:
        """Says that the configuration is none for which there is a program."""
        self.errors.append(msg)

    def valid(self) -> bool:
        """Whether the template has found nothing wrong."""
        return not self.errors

    # ---- indices

    @property
    def dims(self) -> list[int]:
        """How many choices each knob has."""
        if len(self._dims) != len(self.space_map):
            self._dims = [len(space) for space in self.space_map.values()]
        return self._dims

    @property
    def range_length(self) -> int:
        """How many indices there are."""
        return math.prod(self.dims)

    def __len__(self) -> int:
        if self._length is None:
            self._length = self.subrange_length(0, self.range_length)
        return self._length

    def subrange_length(self, start: int, end: int) -> int:
        """How many indices from start to end - 1 are valid."""
        if not 0 <= start <= end <= self.range_length:
            raise ValueError(f"{start} to {end} is no range of indices, which are 0 to {self.range_length}")
        return sum(map(self.is_index_valid, range(start, end))) if self._filters else end - start

    def is_index_valid(self, index: int) -> bool:
        """Whether there is a configuration of the index, which the filters let through."""
        if not 0 <= index < self.range_length:
            return False
        if not self._filters:
            return True
        if index not in self._known:
            entity = self._entity(index)
            self._known[index] = all([chosen(entity) for chosen in self._filters])
        return self._known[index]

    def get(self, index: int) -> ConfigEntity:
        """The configuration of an index. Raises IndexError if there is none, or the filters leave it out."""
        if not 0 <= index < self.range_length:
            raise IndexError(f"the space has {self.range_length} configurations, and none has the index {index}")
        if not self.is_index_valid(index):
            raise IndexError(f"the configuration {index} is left out by a filter of the template (multi_filter)")
        return self._entity(index)

    def _entity(self, index: int) -> ConfigEntity:
        places = self.point2knob(index)
        chosen = {n: space[place] for (n, space), place in zip(self.space_map.items(), places, strict=True)}
        return ConfigEntity(index, self.code_hash, chosen, self._constraints)

    def knob2point(self, knob: Sequence[int]) -> int:
        """The index of the places of all knobs."""
        point, stride = 0, 1
        for place, size in zip(knob, self.dims, strict=True):
            point, stride = point + int(place) * stride, stride * size
        return point

    def point2knob(self, point: int) -> list[int]:
        """The places of all knobs of an index."""
        knob = []
        for size in self.dims:
            point, place = divmod(point, size)
            knob.append(place)
        return knob

    def get_rand_index(
        self, start: int | None = None, end: int | None = None, to_exclude: Iterable[int] | None = None
    ) -> int:
        """A valid index of start to end - 1, drawn at random, that is none of the excluded ones. Raises ValueError if there is none."""
        low, high = start or 0, self.range_length if end is None else end
        excluded = set(to_exclude or ())
        for _ in range(100):
            index = random.randrange(low, high) if low < high else low
            if index not in excluded and self.is_index_valid(index):
                return index
        left = [i for i in range(low, high) if i not in excluded and self.is_index_valid(i)]
        if not left:
            raise ValueError(f"all valid configurations of {low} to {high} are excluded")
        return random.choice(left)

    def get_next_index(self, index: int, n: int = 1, start: int | None = None, end: int | None = None) -> int | None:
        """The n-th valid index after one, before it where n is negative; None if there is none from start to end - 1."""
        low, high = start or 0, self.range_length if end is None else end
        step = 1 if n > 0 else -1
        for _ in range(abs(n)):
            index += step
            while low <= index < high and not self.is_index_valid(index):
                index += step
            if not low <= index < high:
                return None
        return index

    def sample_ints(self, m: int) -> np.ndarray[Any, Any]:
        """So many different valid indices, drawn at random; all, if there are not more."""
        if self.range_length <= 2 * m or self._filters and len(self) <= 2 * m:
            valid = [i for i in range(self.range_length) if self.is_index_valid(i)]
            return np.array(random.sample(valid, min(m, len(valid))), dtype=np.int64)
        found: dict[int, None] = {}
        while len(found) < m:
            found[self.get_rand_index(to_exclude=found)] = None
        return np.array(list(found), dtype=np.int64)

    def random_walk(self, point: int) -> int:
        """An index that differs in the place of one knob; the same, if there is no other that is valid."""
        knob, dims = self.point2knob(point), self.dims
        free = [i for i, size in enumerate(dims) if size > 1]
        for chosen in random.sample(free, len(free)):
            own = knob[chosen]
            # The first one is nearly always valid.
            first = random.randrange(dims[chosen] - 1)
            for place in (first + (first >= own), *range(dims[chosen])):
                if place == own:
                    continue
                index = self.knob2point([*knob[:chosen], place, *knob[chosen + 1 :]])
                if self.is_index_valid(index):
                    return index
        return point

    # ---- as a mapping from names to what the knobs are

    def __getitem__(self, name: str) -> Any:
        try:
            return self._entity_map[name]
        except KeyError:
            known = ", ".join(self._entity_map) or "none"
            raise KeyError(f"the configuration has no knob {name!r}; its knobs are {known}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._entity_map

    def __setitem__(self, name: str, entity: Entity) -> None:
        self._entity_map[name] = entity

    def __repr__(self) -> str:
        knobs = "".join([f"  {i:2d} {name}: {space}\n" for i, (name, space) in enumerate(self.space_map.items())])
        return f"ConfigSpace (len={len(self)}, range_length={self.range_length}, space_map=\n{knobs})"


class ConfigEntity(ConfigSpace):
    """A configuration: what each knob is.

    index: its number in the space. code_hash: that of the program that the space is of. entity_map: by name, what the knobs are.
    """

    def __init__(
        self, index: int, code_hash: str | None, entity_map: dict[str, Any], constraints: Sequence[str] = ()
    ) -> None:
        super().__init__()
        self.index, self.code_hash = index, code_hash
        self._collect = False
        self._entity_map, self._constraints = dict(entity_map), list(constraints)

    def get_flatten_feature(self) -> np.ndarray[Any, Any]:
        """The configuration as float32 numbers, as many for all configurations of a space."""
        return np.array([n for entity in self._entity_map.values() for n in _numbers(entity)], dtype=np.float32)

    def get_other_option(self) -> dict[str, Any]:
        """The values of the knobs that `define_knob` defined."""
        return {name: e.val for name, e in self._entity_map.items() if isinstance(e, OtherOptionEntity)}

    def to_json_dict(self) -> dict[str, Any]:
        """The configuration as a line of a log holds it."""
        entities = [[name, e.kind, e.value] for name, e in self._entity_map.items()]
        return {"index": int(self.index), "code_hash": self.code_hash, "entity": entities}

    @staticmethod
    def from_json_dict(json_dict: dict[str, Any]) -> ConfigEntity:
        """The configuration that `to_json_dict` wrote. Raises TVMError for anything else."""
        try:
            entities = {name: _entity_of(kind, value) for name, kind, value in json_dict["entity"]}
            return ConfigEntity(int(json_dict["index"]), json_dict.get("code_hash"), entities)
        except (KeyError, TypeError, ValueError) as error:
            raise TVMError(f"this is no configuration of a template: {json_dict}") from error

    def __repr__(self) -> str:
        return f"{list(self._entity_map.items())},{self.code_hash},{self.index}"


def _entity_of(kind: str, value: Any) -> Entity:
    if kind not in ENTITIES:
        raise ValueError(f"{kind!r} is no kind of knob")
    return ENTITIES[kind](value)


def _numbers(entity: Entity) -> list[float]:
    if isinstance(entity, (SplitEntity, ReorderEntity)):
        return [float(n) for n in entity.value]
    if isinstance(entity, AnnotateEntity):
        if all([isinstance(mark, int) for mark in entity.anns]):
            return [float(place) for place in entity.anns]
        return [float(mark == known) for mark in entity.anns for known in ALL_MARKS]
    value = entity.value
    if value is None or isinstance(value, (bool, int, float)):
        return [float(value or 0)]
    # Which of several words it is: any number of its own tells.
    return [zlib.crc32(str(value).encode()) / 2**32]
