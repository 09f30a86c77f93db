"""The sweep over configurations: those within the budget, the time of a network on each, and the Pareto front."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from tilewright.support.errors import TVMError
from tilewright.vta.config_fields import of_fields
from tilewright.vta.configuration import Configuration
from tilewright.vta.explore.area import area_of
from tilewright.vta.explore.networks import Layer
from tilewright.vta.search.best import choose

ESTIMATES = 12
"""Tilings that are estimated of each layer: the bound puts the best ones first."""


@dataclass(frozen=True)
class Space:
    """What is swept: (batch, block_in, block_out) of the array, KB of memories, and the budget in gate equivalents and bytes in a cycle.
    fields: those of the JSON that all configurations have."""

    arrays: tuple[tuple[int, int, int], ...] = (
        (1, 8, 8),
        (1, 8, 16),
        (1, 16, 16),
        (1, 16, 32),
        (1, 32, 32),
        (1, 32, 64),
        (1, 64, 64),
    )
    inp: tuple[int, ...] = (16, 32, 64)
    wgt: tuple[int, ...] = (64, 128, 256)
    acc: tuple[int, ...] = (32, 64, 128)
    bandwidth: tuple[int, ...] = (8, 16)
    area: float = float("inf")
    fields: dict[str, Any] = field(default_factory=dict)

    def configurations(self) -> Iterator[tuple[dict[str, Any], Configuration]]:
        """Those within the budget, from the smallest on, each with its JSON fields; what cannot be encoded is left out."""
        found: list[tuple[float, int, int, dict[str, Any], Configuration]] = []
        for (batch, block_in, block_out), inp, wgt, acc, bandwidth in product(
            self.arrays, self.inp, self.wgt, self.acc, self.bandwidth
        ):
            fields = {
                **self.fields, "BATCH": batch, "BLOCK_IN": block_in, "BLOCK_OUT": block_out, "DRAM_BYTES": bandwidth,
                "INP_BUFF_SIZE": inp * 1024, "WGT_BUFF_SIZE": wgt * 1024, "ACC_BUFF_SIZE": acc * 1024,
            }  # fmt: skip
            try:
                config = of_fields(fields)
            except ValueError:
                continue
            area = sum(area_of(config).values())
            if area <= self.area:
                found.append((area, bandwidth, len(found), fields, config))
        yield from [(fields, config) for *_, fields, config in sorted(found, key=lambda f: f[:3])]


@dataclass(frozen=True)
class Point:
    """A configuration with its area in gate equivalents, cycles of the network for each input, and the share of its peak."""

    fields: dict[str, Any]
    area: float
    cycles: float
    share: float
    frequency: int

    @property
    def milliseconds(self) -> float:
        """Time of the network for each input."""
        return self.cycles / self.frequency / 1e3

    @property
    def bandwidth(self) -> int:
        return int(self.fields["DRAM_BYTES"])

    def row(self) -> dict[str, Any]:
        """The point as facts of a table."""
        f = self.fields
        return {
            "array": f"{f['BATCH']}x{f['BLOCK_IN']}x{f['BLOCK_OUT']}",
            **{f"{m}_kb": f[f"{m.upper()}_BUFF_SIZE"] >> 10 for m in ("inp", "wgt", "acc")},
            "bytes_per_cycle": self.bandwidth,
            "area_kge": round(self.area / 1e3, 1),
            "cycles": round(self.cycles),
            "milliseconds": round(self.milliseconds, 3),
            "share_of_peak": round(self.share, 3),
        }


def evaluate(fields: dict[str, Any], layers: Sequence[Layer]) -> Point | None:
    """The time of a network on a configuration; None where a layer fits no tiling."""
    config = of_fields(fields)
    cycles = 0.0
    try:
        for layer in layers:
            cycles += layer.times * choose(layer.problem(config), config, most=ESTIMATES).cycles
    except TVMError:
        return None
    products = sum([layer.times * layer.products for layer in layers])
    array = config.batch * config.block_in * config.block_out
    return Point(
        fields,
        sum(area_of(config).values()),
        cycles / config.batch,
        products / array / (cycles / config.batch),
        config.frequency,
    )


def least(config: Configuration, layers: Sequence[Layer]) -> float:
    """Cycles of a network for each input, at least: all steps, one in a cycle."""
    return sum([layer.times * layer.problem(config).steps for layer in layers]) / config.batch


def _dominated(area: float, bandwidth: int, cycles: float, points: Sequence[Point]) -> bool:
    return any([p.area <= area and p.bandwidth <= bandwidth and p.cycles <= cycles for p in points])


def front(points: Sequence[Point]) -> list[Point]:
    """The points that no other one equals or beats in area, bandwidth and time, from the smallest on."""
    found: list[Point] = []
    for p in sorted(points, key=lambda p: (p.area, p.bandwidth, p.cycles)):
        if not _dominated(p.area, p.bandwidth, p.cycles, found):
            found.append(p)
    return found


def explore(space: Space, layers: Sequence[Layer], report: Callable[[int, int, str], None], found: list[Point]) -> None:
    """Adds the points of a space to `found`, from the smallest area on, so that what is there when it is interrupted is right. What cannot
    beat a smaller configuration even at its peak is passed over. ValueError where nothing is within the budget."""
    todo = list(space.configurations())
    if not todo:
        least_area = min(
            [sum(area_of(c).values()) for _, c in replace(space, area=float("inf")).configurations()],
            default=0.0,
        )
        raise ValueError(
            f"no configuration of the sweep has an area of at most {space.area / 1e3:.0f} kGE"
            + (f"; the smallest has {least_area / 1e3:.0f} kGE" if least_area else ": none can be encoded")
        )
    for n, (fields, config) in enumerate(todo):
        report(n, len(todo), f"{config.batch}x{config.block_in}x{config.block_out}")
        area = sum(area_of(config).values())
        if _dominated(area, config.dram_bytes, least(config, layers), found):
            continue
        point = evaluate(fields, layers)
        if point is not None:
            found.append(point)
    report(len(todo), len(todo), "done")


__all__ = ["ESTIMATES", "Point", "Space", "evaluate", "explore", "front", "least"]
