"""Knobs of templates: which splits, orders and marks of axes, and which other values, there are to choose from."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tilewright import te
from tilewright.autotvm.utils import get_const_int
from tilewright.tir import IntImm, IterVar, Var

UNLIMITED = 1 << 31


def get_factors(n: int) -> list[int]:
    """The divisors of a positive number, ascending."""
    low = [i for i in range(1, math.isqrt(n) + 1) if n % i == 0]
    return low + [n // i for i in reversed(low) if i * i != n]


def get_pow2s(n: int) -> list[int]:
    """The powers of two up to a positive number, ascending."""
    return [1 << i for i in range(n.bit_length())]


class Axis(NamedTuple):
    """What a knob makes of axes: its output of a number. Further knobs of the template take it as an axis. space: None if the knob's value
    is already chosen."""

    space: Any
    index: int  # type: ignore[assignment]


class TransformSpace:
    """A knob: its entities are what can be chosen. num_output: the axes that it makes."""

    def __init__(self) -> None:
        self.entities: list[Any] = []
        self.num_output = 0

    def __len__(self) -> int:
        return len(self.entities)

    def __getitem__(self, index: int) -> Any:
        return self.entities[index]

    @staticmethod
    def get_num_output() -> int:
        """The axes that the knob makes."""
        return 0


class VirtualAxis(TransformSpace):
    """An axis that a knob begins with. length: its extent; -1 if it is not known.

    var: an extent, an IterVar, a variable, or another VirtualAxis. Raises RuntimeError for anything else.
    """

    _count = 0

    def __init__(self, var: Any, name: str | None = None) -> None:
        super().__init__()
        self.num_output = 1
        if name is None:
            name = f"axis_{VirtualAxis._count}"
            VirtualAxis._count += 1
        self.name = name
        if isinstance(var, (int, np.integer, IntImm)):
            self.length = get_const_int(var)
        elif isinstance(var, IterVar):
            self.name = var.var.name
            self.length = get_const_int(var.dom.extent) if var.dom is not None else -1
        elif isinstance(var, Var):
            self.name, self.length = var.name, -1
        elif isinstance(var, VirtualAxis):
            self.length = var.length
        else:
            raise RuntimeError(f"an axis is an extent, an IterVar or a variable, but was given {var!r}")

    @staticmethod
    def get_num_output(var: Any = None, name: str | None = None) -> int:
        return 1

    def __repr__(self) -> str:
        return f"vaxis({self.name}) {self.length}"


class Entity:
    """A choice of a knob."""

    kind: ClassVar[str]
    """How logs name it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return str(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entity) and other.kind == self.kind and bool(other.value == self.value)

    __hash__ = None  # type: ignore[assignment]


class SplitEntity(Entity):
    """size: the extents of the axes that an axis becomes, the outermost first; -1: what the others leave."""

    kind = "sp"

    def __init__(self, size: Sequence[int]) -> None:
        super().__init__(list(size))

    @property
    def size(self) -> list[int]:
        return self.value  # type: ignore[no-any-return]

    def apply(self, sch: te.Schedule, op: Any, axis: Any) -> list[Any]:
        """Splits the axis of a stage. Returns the axes that it becomes, the outermost first."""
        made = []
        for i in range(1, len(self.size)):
            inner = self.size[i:]
            if -1 in inner:
                outer, axis = sch[op].split(axis, nparts=self.size[i - 1])
            else:
                outer, axis = sch[op].split(axis, math.prod(inner))
            made.append(outer)
        return [*made, axis]


class SplitSpace(TransformSpace):
    """How an axis can be split. Policies:

    factors     the extents divide the axis
    power2      they are powers of two
    verbose     either
    candidate   those that are given as `candidate`

    num_outputs: the axes that the axis becomes. max_factor: the largest extent of an inner axis. filter: takes a SplitEntity, and tells
    whether it may be chosen. no_tail: whether the inner extents must divide the axis; so by default with the policy factors.
    """

    def __init__(self, axes: Sequence[Any], policy: str, **kwargs: Any) -> None:
        super().__init__()
        axis = axes[0]
        self.policy, self.num_output = policy, kwargs.get("num_outputs", 0)
        self.product = axis.length if isinstance(axis, VirtualAxis) else -1
        max_factor, chosen = kwargs.get("max_factor", UNLIMITED), kwargs.get("filter", lambda entity: True)
        if policy == "candidate":
            self.entities = [SplitEntity(size) for size in kwargs["candidate"]]
            wrong = [e for e in self.entities if len(e.size) != self.num_output]
            if wrong:
                raise ValueError(
                    f"a split into {self.num_output} axes has as many extents, but a candidate is {wrong[0]}"
                )
        else:
            factors = [f for f in self._factors() if f <= max_factor]
            no_tail = kwargs.get("no_tail", policy == "factors")
            self.entities = [SplitEntity([-1, *inner]) for inner in self._inner(factors, self.num_output - 1, no_tail)]
        self.entities = list(filter(chosen, self.entities))

    def _factors(self) -> list[int]:
        n = self.product
        if self.num_output < 1:
            raise ValueError("a split needs num_outputs, the axes that the axis becomes: 1 or more")
        if n < 1:
            raise ValueError(
                "the extent of the axis is not known, so its splits are not either; give policy='candidate'"
            )
        if self.policy == "factors":
            return get_factors(n)
        if self.policy == "power2":
            return get_pow2s(n)
        if self.policy == "verbose":
            return sorted({*get_factors(n), *get_pow2s(n)})
        raise ValueError(f"{self.policy!r} is no policy of splits, which are factors, power2, verbose and candidate")

    def _inner(self, factors: Sequence[int], count: int, no_tail: bool) -> Iterator[list[int]]:
        """The extents of the inner axes; those of the innermost change slowest."""
        if count == 0:
            yield []
            return
        last = self.product
        for inner in factors:
            for outer in itertools.product(factors, repeat=count - 1):
                extent = inner * math.prod(outer)
                if extent <= last and (last % extent == 0 or not no_tail and extent < last):
                    yield [*reversed(outer), inner]

    @staticmethod
    def get_num_output(axes: Sequence[Any] = (), policy: str = "", **kwargs: Any) -> int:
        return int(kwargs["num_outputs"])

    def __repr__(self) -> str:
        return f"Split(policy={self.policy}, product={self.product}, num_outputs={self.num_output}) len={len(self.entities)}"


class ReorderEntity(Entity):
    """perm: for each place of the new order, the number of the axis that comes there."""

    kind = "re"

    def __init__(self, perm: Sequence[int]) -> None:
        super().__init__(list(perm))

    @property
    def perm(self) -> list[int]:
        return self.value  # type: ignore[no-any-return]

    def apply(self, sch: te.Schedule, op: Any, axes: Sequence[Any]) -> list[Any]:
        """Reorders axes of a stage. Returns them in the new order."""
        ordered = [axes[i] for i in self.perm if i < len(axes)]
        sch[op].reorder(*ordered)
        return ordered


class ReorderSpace(TransformSpace):
    """In which orders axes can be. Policies:

    identity         as they are given
    all              any order
    interval_all     any order of the axes number begin to end - 1, with `interval` = (begin, end)
    candidate        those that are given as `candidate`, lists of axes
    interleave       `spatial` and `reduce` are chains of axes, each of which stays in its order; the innermost axes of the spatial chains
                     and all of the reduction come last, merged in any way, after the others, merged in any way
    interleave_cuda  as interleave, but after the reduction come the innermost axes of the spatial chains, in their order
    """

    def __init__(self, axes: Sequence[Any], policy: str, **kwargs: Any) -> None:
        super().__init__()
        self.num_output, self.policy = len(axes), policy
        self.entities = [ReorderEntity(perm) for perm in self._orders(list(axes), kwargs)]

    def _orders(self, axes: list[Any], kwargs: dict[str, Any]) -> Iterator[Sequence[int]]:
        places = list(range(len(axes)))
        if self.policy == "identity":
            yield places
        elif self.policy == "all":
            yield from itertools.permutations(places)
        elif self.policy == "interval_all":
            begin, end = kwargs["interval"]
            for inside in itertools.permutations(places[begin:end]):
                yield [*places[:begin], *inside, *places[end:]]
        elif self.policy == "candidate":
            for order in kwargs["candidate"]:
                yield [axes.index(axis) for axis in order]
        elif self.policy in ("interleave", "interleave_cuda"):
            spatial = [[axes.index(axis) for axis in chain] for chain in kwargs["spatial"]]
            reduce = [[axes.index(axis) for axis in chain] for chain in kwargs["reduce"]]
            last = [[chain[-1]] for chain in spatial]
            cuda = self.policy == "interleave_cuda"
            for outer in _merged([chain[:-1] for chain in spatial]):
                for inner in _merged(reduce if cuda else [*last, *reduce]):
                    yield outer + inner + ([i for chain in last for i in chain] if cuda else [])
        else:
            raise RuntimeError(
                f"{self.policy!r} is no policy of orders, which are identity, all, interval_all, candidate, interleave and"
                " interleave_cuda"
            )

    @staticmethod
    def get_num_output(axes: Sequence[Any] = (), policy: str = "", **kwargs: Any) -> int:
        return len(axes)

    def __repr__(self) -> str:
        return f"Reorder(policy={self.policy}) len={len(self.entities)}"


def _merged(chains: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """All sequences of the elements of chains in which each chain is in its order."""
    if not any(chains):
        yield []
        return
    for i, chain in enumerate(chains):
        if chain:
            for rest in _merged([*chains[:i], chain[1:], *chains[i + 1 :]]):
                yield [chain[0], *rest]
