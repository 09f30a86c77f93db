"""Which tensor intrinsics are matrix products."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

from tilewright.scheduling.gpu.matrix_form import product_of
from tilewright.support.errors import ScheduleError
from tilewright.tir.schedule import TensorIntrin
from tilewright.tir.schedule.facts.leaves import leaves


class Unit(NamedTuple):
    """What an intrinsic computes. sizes: m, n and k. dtypes: of A, B and C. transposed: B is (n, k)."""

    sizes: tuple[int, int, int]
    dtypes: list[str]
    transposed: bool


def unit_of(name: str) -> Unit:
    """Raises ScheduleError for an intrinsic that is missing, or is no matrix product."""
    import_module("tilewright.tir.tensor_intrin.cuda")  # registers its instructions
    intrin = TensorIntrin.get(name)
    assert intrin is not None
    a, b, c = [intrin.desc.buffer_map[p] for p in intrin.desc.params]
    (leaf,) = leaves(intrin.desc.body.block.body)  # type: ignore[attr-defined]
    product = product_of(leaf.block)
    if product is None or [len(axes) for axes in product[:4]] != [0, 1, 1, 1]:
        raise ScheduleError(f"the tensor intrinsic {name!r} is no matrix product")
    m, n, k = [int(leaf.block.iter_vars[axes[0]].dom.extent) for axes in product[1:4]]
    right = leaf.block.reads[product.places[1]].region
    transposed = right[0].min is leaf.block.iter_vars[product.n[0]].var
    return Unit((m, n, k), [str(x.dtype) for x in (a, b, c)], transposed)
