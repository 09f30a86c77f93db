"""Inputs and outputs of the functions of a partitioned program, recorded as it runs on samples."""

from __future__ import annotations

from typing import Any

from tilewright.ir import GlobalVar, IRModule
from tilewright.relay.backend.debug_executor import DebugExecutor
from tilewright.relay.expr import Call, Expr, Function, Tuple
from tilewright.relay.functor import post_order


def get_calibration_data(mod: IRModule, data: Any) -> dict[GlobalVar, dict[str, list[Any]]]:
    """The inputs and outputs (NDArrays) of each function that main calls, as main runs on `data` (arrays by parameter name).
    Quantisers of other compilers' partitions calibrate with them.
    """
    main = mod["main"]
    callees = [(e, e.op) for e in post_order(main.body) if isinstance(e, Call) and isinstance(e.op, GlobalVar)]
    values: list[Expr] = []
    places: list[tuple[GlobalVar, str]] = []
    for call, gvar in callees:
        for kind, exprs in (("inputs", call.args), ("outputs", (call,))):
            for e in exprs:
                values.append(e)
                places.append((gvar, kind))
    watched = Function(main.params, Tuple(tuple(values)), None, main.type_params, main.attrs)
    module = mod.with_functions({g: watched if g.name_hint == "main" else f for g, f in mod.functions.items()})
    results = DebugExecutor(module, None, "llvm").evaluate()(**data)
    out: dict[GlobalVar, dict[str, list[Any]]] = {}
    for (gvar, kind), value in zip(places, results if isinstance(results, (list, tuple)) else [results], strict=True):
        flat = value if isinstance(value, (list, tuple)) else [value]
        out.setdefault(gvar, {"inputs": [], "outputs": []})[kind] += list(flat)
    return out
