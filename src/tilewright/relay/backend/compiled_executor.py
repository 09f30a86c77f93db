"""Executors "graph" and "aot" of `relay.create_executor`, which compile a function when it is evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import runtime
from tilewright.ir import GlobalVar, IRModule
from tilewright.relay.backend.build import build
from tilewright.relay.backend.executor_factory import ExecutorFactoryModule
from tilewright.relay.backend.options import Executor
from tilewright.relay.backend.program_executor import Call, ProgramExecutor, nested
from tilewright.relay.expr import Function
from tilewright.target.virtual_device import Targets


class CompiledExecutor(ProgramExecutor):
    """Compiles functions of tensors with static shapes. Results are NDArrays, and lists of them for tuples."""

    kind = "aot"

    def make(self, gvar: GlobalVar | None, func: Function) -> Call:
        functions = {g: f for g, f in self.mod.functions.items() if g.name_hint != "main"}
        mod = self.mod.with_functions({**functions, GlobalVar("main"): func})
        self.factory: ExecutorFactoryModule = build(mod, self.target, executor=Executor(self.kind))
        executor = self.factory["default"](self.device)
        set_input, run_all, get_output = executor["set_input"], executor["run"], executor["get_output"]
        # The inferred type.
        result = self.factory.plan.func.body.checked_type
        dtypes = [item["dtype"] for item in self.factory.metadata["inputs"]]
        count = len(self.factory.metadata["outputs"])

        def run(args: Sequence[Any]) -> Any:
            for i, (value, dtype) in enumerate(zip(args, dtypes, strict=True)):
                set_input(i, tensor(value, dtype))
            run_all()
            return nested([get_output(i).copyto(runtime.cpu(0)) for i in range(count)], result)

        return run


class GraphExecutor(CompiledExecutor):
    """`relay.create_executor("graph", mod)`: the graph is interpreted by the native graph executor."""

    kind = "graph"


class AotExecutor(CompiledExecutor):
    """`relay.create_executor("aot", mod)`: one compiled entry."""


def tensor(value: Any, dtype: str) -> Any:
    """An argument as a tensor. Python numbers and lists are converted to `dtype`."""
    if isinstance(value, (int, float, bool, list, tuple)):
        return runtime.array(np.asarray(value, runtime.to_numpy_dtype(dtype)))
    return value if isinstance(value, runtime.NDArray) else runtime.array(value)


def make_compiled(kind: str, mod: IRModule, device: Any, target: Targets) -> CompiledExecutor:
    """The executor of a kind, "graph" or "aot"."""
    return (GraphExecutor if kind == "graph" else AotExecutor)(mod, device, target)
