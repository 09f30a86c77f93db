"""The Python interface of the ahead-of-time executor."""

from __future__ import annotations

from tilewright.runtime.executor.static_module import StaticModule
from tilewright.runtime.module import Module


class AotModule(StaticModule):
    """Runs a model that was compiled ahead of time: `AotModule(lib["default"](dev))`."""

    def __init__(self, module: Module) -> None:
        if module.type_key not in ("AotExecutor", "rpc"):
            raise ValueError(
                f'AotModule runs what was compiled ahead of time (executor=Executor("aot")), not a {module.type_key};'
                " use contrib.graph_executor.GraphModule"
            )
        super().__init__(module)
