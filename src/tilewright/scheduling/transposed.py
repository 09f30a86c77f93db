"""Forms of transposed convolutions, and what each costs.

phases   a convolution for each phase of the stride, interleaved: computes every kernel offset at every element of the result
planes   a product by all kernel offsets, places of the data as columns; windows are added to the planes of channels, row by row
rows     the same product, places of the data as rows; windows are added to the elements of the result, all channels at once

The product computes nothing for nothing, but what it writes is as large as all windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from tilewright.scheduling.convolutions import blocked_cycles, plain_cycles
from tilewright.scheduling.products import product_costs
from tilewright.target.cpu import CpuFacts
from tilewright.topi.problems import Windows
from tilewright.topi.utils import ceil_div, get_const_int


class Transposed(NamedTuple):
    """A transposed convolution: as a convolution by phases, and as one by windows of one place, whose filters are all kernel offsets of
    all filters; the kernel, the strides, and the elements of an image of the result."""

    phases: Windows
    offsets: Windows
    kernel: Sequence[int]
    strides: Sequence[int]
    out: Sequence[int]


def transposed_costs(t: Transposed, cpu: CpuFacts) -> Mapping[str, float]:
    """Cycles of each form that is possible."""
    core, lanes = cpu.core, cpu.lanes(32)
    by_phases = _convolution(t.phases, cpu)
    if by_phases is None:
        return {"phases": 0.0}
    images, channels = get_const_int(t.offsets.data.shape[0]), t.offsets.per_group
    places, offsets = images * prod(t.offsets.extents), prod(t.kernel)
    filters = t.offsets.filters * t.offsets.groups // offsets
    results, strided = images * prod(t.out), max(t.strides) > 1
    terms = places * offsets * filters
    # What one kernel writes, and the next one reads.
    missed, phases_missed = (
        max(0, 4 * n - cpu.l2_bytes) / core.line * core.windows_missed for n in (terms, results * filters)
    )
    interleaved = results * filters * core.added + phases_missed if strided else 0.0
    found = {"phases": core.phases * by_phases + interleaved}
    product = _convolution(t.offsets, cpu)
    if product is not None:
        started = terms / t.offsets.extents[-1] * core.added_row
        each = core.added_apart if t.strides[-1] > 1 else core.added
        found["planes"] = product + started + terms * each + missed + results * filters * core.copied
        found["planes"] += core.relayout
    if t.offsets.groups == 1:
        costs = product_costs(places, filters * offsets, channels, True, True, cpu, lanes)
        packed = costs["panels"] - filters * offsets * channels * core.gathered
        tested, vectors = results * offsets * core.added_offset, places * offsets * ceil_div(filters, lanes)
        turned = results * filters * core.relaid + places * channels * core.gathered
        # Three kernels besides the product.
        found["rows"] = 3 * core.relayout + packed + tested + vectors * core.added_vector + missed + turned
    return found


def _convolution(w: Windows, cpu: CpuFacts) -> float | None:
    """Cycles of the cheaper one of the forms on plain layouts and, over two axes, on blocks of channels."""
    plain = plain_cycles(w, cpu)
    if plain is None or len(w.out) != 2:
        return plain
    lanes = cpu.lanes(32)
    return min(plain, blocked_cycles(w, lanes, lanes, cpu))


__all__ = ["Transposed", "transposed_costs"]
