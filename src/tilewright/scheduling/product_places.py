"""Places for a product over channels among the operators before it that treat all channels alike, such as resizes: what each costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tilewright.target.cpu import CpuFacts
from tilewright.topi.utils import ceil_div

MARGIN = 0.85
"""Share of the cycles of a product as the program has it that another place may take, at most. A sum of parts rounds differently."""
SUMMED = 2.0
"""Copies that cost as much as to add an element of a part to the sum of the others."""


class Step(NamedTuple):
    """An operator between the product and its data, from the product downwards. `kind`: "resize", "product" (by constants), or "other".
    `places`: elements of each channel in its result; `below`: in its data. `channels`: of its data. `copies`: the work on an element, in
    copies. `shared`: whether it is computed in any case, since others need it or a step above it."""

    kind: str
    places: int
    below: int
    channels: int
    copies: float
    shared: bool


class Place(NamedTuple):
    """A place under the first `above` steps. The data comes from under the first `source` steps: products among these join the product,
    the others work on fewer or more channels."""

    above: int
    source: int


def places(steps: Sequence[Step]) -> Iterator[Place]:
    """The places to compare, first the one that the program has. A product moves under resizes, or to join another one."""
    yield Place(0, 0)
    for source in range(1, len(steps) + 1):
        if steps[source - 1].kind == "product":
            for above in range(source):
                yield Place(above, source)
        if steps[source - 1].kind == "resize":
            yield Place(source, source)


def place_cycles(place: Place, channels: int, filters: int, size: int, steps: Sequence[Step], cpu: CpuFacts) -> float:
    """Cycles of the product, and of all steps to its data. channels, filters, size: of the product as the program has it: the channels of
    its data and its result, and the elements of each channel in its result."""
    above, source = place
    made = [channels, *[s.channels for s in steps]]
    sizes = [size, *[s.below for s in steps]]
    total = _product(sizes[above], made[source], filters, cpu)
    for i, step in enumerate(steps):
        if i < source and step.kind != "product":
            total += _step(step, filters if i < above else made[source], cpu)
        if i >= source or step.shared:
            total += _step(step, made[i], cpu)
    return total


def sum_cycles(filters: int, size: int, cpu: CpuFacts) -> float:
    """Cycles to add a part to the sum of the others."""
    return filters * size * SUMMED * cpu.core.copied


def _product(size: int, channels: int, filters: int, cpu: CpuFacts) -> float:
    core = cpu.core
    vectors = int(ceil_div(filters, max(cpu.lanes(32), 1)))
    return size * channels * vectors / core.multiply_adds / core.direct


def _step(step: Step, channels: int, cpu: CpuFacts) -> float:
    if step.kind == "product":
        return _product(step.places, step.channels, channels, cpu)
    return step.places * channels * step.copies * cpu.core.copied


__all__ = ["MARGIN", "Place", "Step", "place_cycles", "places", "sum_cycles"]
