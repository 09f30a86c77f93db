"""Relay to native code: kernels from primitive functions, memory plan, ahead-of-time entry; and the debug executor."""

from __future__ import annotations

from typing import Any

from tilewright.ir import IRModule
from tilewright.relay.backend.interpreter import DebugExecutor, Interpreter
from tilewright.relay.backend.options import Executor, Runtime


def create_executor(
    kind: str = "debug", mod: IRModule | None = None, device: Any = None, target: Any = "llvm", params: Any = None
) -> Any:
    """An executor of a module: "debug" runs the operators' NumPy references, "graph" and "aot" compile a
    graph, "vm" any program."""
    from tilewright.relay.expr import bind

    mod = IRModule() if mod is None else mod
    if params:
        mod = mod.with_functions({g: bind(f, params) if g.name_hint == "main" else f for g, f in mod.functions.items()})
    if kind == "debug":
        return DebugExecutor(mod, device, target)
    if kind in ("graph", "aot"):
        from tilewright.relay.backend.build import compiled_executor

        return compiled_executor(mod, device, target)
    if kind == "vm":
        from tilewright.relay.backend.vm import VMExecutor

        return VMExecutor(mod, device, target)
    raise ValueError(f"unknown executor {kind!r}: the executors are debug, graph, aot and vm")


__all__ = ["DebugExecutor", "Executor", "Interpreter", "Runtime", "create_executor"]
