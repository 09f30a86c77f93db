"""The names of classic `relay.build_module`."""

from __future__ import annotations

from typing import Any

from tilewright.ir import IRModule
from tilewright.relay.backend import create_executor
from tilewright.relay.backend.build import build
from tilewright.relay.backend.compilation import optimize
from tilewright.relay.backend.compiled_executor import AotExecutor, GraphExecutor
from tilewright.relay.backend.executor_factory import ExecutorFactoryModule
from tilewright.relay.expr import Function
from tilewright.relay.parameters import Params, bind_any
from tilewright.runtime import Device, Module
from tilewright.support.errors import TVMError
from tilewright.target.virtual_device import TargetLike, Targets

__all__ = [
    "AotExecutor",
    "BuildModule",
    "GraphExecutor",
    "bind_params_by_name",
    "build",
    "create_executor",
    "optimize",
]


def bind_params_by_name(func: Function, params: Params) -> Function:
    """The function with the parameters of these names fixed to arrays, which may be of other shapes than they were declared with."""
    return bind_any(func, params)


class BuildModule:
    """The compiler as an object: `build`, then the parts of what was built."""

    def __init__(self) -> None:
        self._params: dict[str, Any] = {}
        self._built: ExecutorFactoryModule | None = None

    @property
    def built(self) -> ExecutorFactoryModule:
        """The result of the last `build`."""
        if self._built is None:
            raise TVMError("BuildModule: nothing was built yet; call build(mod, target) first")
        return self._built

    def build(
        self,
        mod: IRModule,
        target: Targets = None,
        target_host: TargetLike | None = None,
        executor: Any = None,
        runtime: Any = None,
        workspace_memory_pools: Any = None,
        constant_memory_pools: Any = None,
        params: Params | None = None,
        mod_name: str | None = None,
    ) -> tuple[str, Module, dict[str, Any]]:
        """(graph JSON, library, parameters) of a module."""
        given = {**self._params, **(params or {})}
        name = mod_name or "default"
        self._built = build(
            mod, target, target_host, executor, runtime, workspace_memory_pools, constant_memory_pools, given, name
        )
        return self.get_json(), self.get_module(), self.get_params()

    def optimize(
        self, mod: IRModule, target: Targets = None, target_host: TargetLike | None = None, params: Params | None = None
    ) -> tuple[IRModule, dict[str, Any]]:
        """The module after all relay passes, and the parameters that remain to be set (none)."""
        return optimize(mod, target, {**self._params, **(params or {})})

    def _set_params(self, params: Params) -> None:
        self._params = dict(params)

    def get_json(self) -> str:
        """The graph as JSON text."""
        return self.built.get_graph_json()

    get_graph_json = get_json

    def get_module(self) -> Module:
        """The library."""
        return self.built.get_lib()

    def get_params(self) -> dict[str, Any]:
        """The parameters."""
        return self.built.get_params()

    def get_irmodule(self) -> IRModule:
        """The relay module after all passes."""
        return self.built.ir_mod

    def get_devices(self) -> list[Device]:
        """The devices that the model runs on."""
        return self.built.get_devices()
