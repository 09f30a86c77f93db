"""`relay.build`: relay passes, kernels, memory plan, entry, code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import IRModule
from tilewright.ir.transform import Sequential
from tilewright.relay import transform
from tilewright.relay.expr import Function, bind


def pipeline(target: Any = None) -> Sequential:
    """The relay passes, in order."""
    return Sequential(
        [
            transform.InferType(),
            transform.SimplifyInference(),
            transform.FoldConstant(),
            transform.CanonicalizeOps(),
            transform.SimplifyExpr(),
            transform.FoldScaleAxis(),
            transform.FoldConstant(),
            transform.SimplifyExpr(),
            transform.EliminateCommonSubexpr(),
            transform.AlterOpLayout(),
            transform.PackDense(),
            transform.SimplifyExpr(),
            transform.FoldConstant(),
            transform.FuseOps(),
        ],
        name="relay.build",
    )


def optimize(mod: IRModule, target: Any = None, params: Mapping[str, Any] | None = None) -> tuple[IRModule, dict[str, Any]]:
    """The module after all relay passes, and the parameters left (none: they are constants now)."""
    if params:
        mod = mod.with_functions(
            {g: bind(f, params) if g.name_hint == "main" and isinstance(f, Function) else f for g, f in mod.functions.items()}
        )
    return pipeline(target)(mod), {}


build = build_module = optimize
