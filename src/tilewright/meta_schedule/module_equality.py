"""When two modules are the same workload."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.ir import IRModule
from tilewright.node import Mutator, nodes_of, on, structural_equal, structural_hash
from tilewright.tir import AllocateConst, PrimFunc
from tilewright.tir.analysis import find_anchor_block

MODES = ("structural", "ignore-ndarray", "anchor-block")


class ModuleEquality:
    """mode: "structural"; "ignore-ndarray": constants inside may have other values; "anchor-block": only the computation of the block with
    the most work is compared. Raises ValueError for others."""

    def __init__(self, mode: str = "structural") -> None:
        if mode not in MODES:
            raise ValueError(f"module_equality is one of {', '.join(MODES)}, but {mode!r} was given")
        self.mode = mode

    def hash(self, mod: IRModule) -> int:
        """The same number for equal modules."""
        return structural_hash(self._compared(mod), map_free_vars=True)

    def equal(self, a: IRModule, b: IRModule) -> bool:
        """Whether two modules are the same workload."""
        return a is b or structural_equal(self._compared(a), self._compared(b), map_free_vars=True)

    def _compared(self, mod: IRModule) -> Any:
        if self.mode == "structural":
            return mod
        if self.mode == "anchor-block":
            anchor = find_anchor_block(mod)
            if anchor is not None:
                return anchor.replace(name_hint="", annotations={})
        return mod.with_functions(
            {
                g: f.replace(body=_WithoutValues().visit(f.body)) if isinstance(f, PrimFunc) and _has_values(f) else f
                for g, f in mod.functions.items()
            }
        )


def _has_values(func: PrimFunc) -> bool:
    return bool(nodes_of(func.body, AllocateConst))


class _WithoutValues(Mutator):
    """Takes the values of constants away."""

    @on(AllocateConst)
    def _constant(self, s: AllocateConst) -> Any:
        return s.replace(data=np.zeros(0, s.data.dtype), body=self.visit(s.body))
