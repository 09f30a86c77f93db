"""Classic interface of the graph executor's code generator: graph, PrimFuncs of the kernels, and parameters, without machine code."""

from __future__ import annotations

import numpy as np

from tilewright.ir import GlobalVar, IRModule
from tilewright.node import deep_recursion
from tilewright.relay.backend.kernels.devices import DeviceCompilers
from tilewright.relay.backend.planning.entry import output_names
from tilewright.relay.backend.planning.graph_json import graph_json, param_names
from tilewright.relay.backend.planning.plan import make_plan
from tilewright.relay.backend.targets import config_of
from tilewright.relay.expr import Call, Function
from tilewright.relay.functor import post_order
from tilewright.relay.transform import FuseOps
from tilewright.relay.typing.infer_type import infer_module
from tilewright.runtime import NDArray, array
from tilewright.target import Target
from tilewright.target.virtual_device import Targets
from tilewright.tir import PrimFunc


class GraphExecutorCodegen:
    """Makes graphs for one target, or for targets by device. mod: accepted for compatibility, may be None."""

    def __init__(self, mod: object, target: Targets) -> None:
        self.mod, self.target = mod, target

    def codegen(self, ir_module: IRModule, func: Function) -> tuple[str, dict[Target, IRModule], dict[str, NDArray]]:
        """(graph JSON, modules of the kernels' unscheduled PrimFuncs by target, parameters by their names in the graph) of a function of a
        module. A function without calls of primitive functions gets a kernel for each operator."""
        config = config_of(self.target)
        mod = infer_module(ir_module.with_functions({**ir_module.functions, GlobalVar("main"): func}))
        if not any(
            [type(e) is Call and isinstance(e.op, Function) and e.op.is_primitive for e in post_order(mod["main"])]
        ):
            mod = FuseOps(0)(mod)
        with config.targets[0], deep_recursion():
            plan = make_plan(mod, DeviceCompilers(mod, config))
        names = param_names(plan)
        params = {n: array(np.ascontiguousarray(v)) for n, v in zip(names, plan.constants.arrays, strict=True)}
        lowered: dict[Target, dict[GlobalVar, PrimFunc]] = {}
        for call in plan.calls:
            target = plan.kernel_targets[call.kernel.name]
            lowered.setdefault(target, {})[GlobalVar(call.kernel.name)] = call.kernel.func
        return (
            graph_json(plan, output_names(plan)),
            {t: IRModule(functions) for t, functions in lowered.items()},
            params,
        )
