"""Functions that the Python source of interpreted programs calls, by their names."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.codegen.interp import intrinsics, values
from tilewright.codegen.interp.async_copies import Copies
from tilewright.codegen.interp.direct import Cells, elements, elements_at
from tilewright.codegen.interp.fragments import Fragments
from tilewright.codegen.interp.lanes import lanes, run_grid, run_lanes, shared_storage, store_first
from tilewright.codegen.interp.phases import TensorMap, fence_of, phases_of
from tilewright.codegen.interp.tile_registers import Tiles
from tilewright.codegen.interp.values import Accessor, InterpError
from tilewright.codegen.interp.warp_registers import fill_registers, store_registers
from tilewright.codegen.interp.warpgroup_products import Products, wait_for_products

_HELPERS = {
    name: getattr(values, name)
    for name in [
        "address",
        "failure",
        "packed_array",
        "stacked",
        "struct_get",
        "struct_set",
        "truncdiv",
        "truncmod",
        "floordiv",
        "floormod",
        "lesser",
        "greater",
        "select",
        "saturate",
        "ramp",
        "broadcast",
        "allocate",
    ]
} | {
    name: getattr(intrinsics, name)
    for name in ["fma", "shift_left", "shift_right", "popcount", "clz", "q_multiply_shift", "reinterpret"]
}


def narrow(value: Any, kind: Any) -> Any:
    """A float (or a vector) rounded to `kind`. For types narrower than float32, it is rounded to float32 first."""
    array = np.asarray(value)
    if kind.itemsize < 4 and array.dtype == np.float64:
        array = array.astype(np.float32)
    result = array.astype(kind)
    return result if result.ndim else result[()]


def from_int(value: Any, kind: Any) -> Any:
    """An integer converted to a float, rounded once."""
    value = int(value)
    array = np.asarray(value, np.int64 if value < 1 << 63 else np.uint64)
    return array.astype(np.float32).astype(kind)[()] if kind.itemsize < 4 else array.astype(kind)[()]


def bind_match(
    source: Accessor, begins: tuple[int, ...], extents: tuple[int, ...], ndim: int, name: str
) -> tuple[int, tuple[int, ...]]:
    """(element offset, strides) of a view of a region; leading axes that the view drops must have extent 1."""
    for begin, extent, dim in zip(begins, extents, source.shape, strict=True):
        if begin < 0 or begin + extent > dim:
            raise InterpError(
                f"match_buffer {name}: region {begins} with extents {extents} leaves buffer {source.name}"
                f" of shape {source.shape}"
            )
    dropped = len(begins) - ndim
    if any(extent != 1 for extent in extents[:dropped]):
        raise InterpError(
            f"match_buffer {name} drops axes of extents {extents[:dropped]}; only axes of extent 1 can be dropped"
        )
    base = source.offset // source.lanes + sum(b * s for b, s in zip(begins, source.strides, strict=True))
    return base, tuple(source.strides[dropped:])


ENVIRONMENT = {
    "np": np, "Accessor": Accessor, "narrow": narrow, "from_int": from_int, "bind_match": bind_match, "Cells": Cells,
    "InterpError": InterpError, "elements": elements, "elements_at": elements_at, "lanes": lanes,
    "run_grid": run_grid, "run_lanes": run_lanes, "shared_storage": shared_storage,
    "store_first": store_first, "Tiles": Tiles, "Fragments": Fragments, "Copies": Copies, "fill_registers": fill_registers,
    "store_registers": store_registers, "TensorMap": TensorMap, "fence_of": fence_of, "phases_of": phases_of, "Products": Products,
    "wait_for_products": wait_for_products, **_HELPERS,
}  # fmt: skip
