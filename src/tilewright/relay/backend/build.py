"""`relay.build`: a factory of executors for a model, which is compiled (`compilation`) or comes from the cache."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tilewright.ir import IRModule
from tilewright.ir.steps import step
from tilewright.ir.transform import PassContext
from tilewright.relay.backend import compilation
from tilewright.relay.backend.byoc.external import ExternalCode
from tilewright.relay.backend.executor_factory import (
    AOTExecutorFactoryModule,
    ExecutorFactoryModule,
    GraphExecutorFactoryModule,
    KernelSources,
)
from tilewright.relay.backend.model_cache import kernels_of, model_key, stored
from tilewright.relay.backend.options import Executor, Runtime, need_interface
from tilewright.relay.backend.targets import config_of, need_code_generators
from tilewright.relay.expr import Function
from tilewright.relay.parameters import Params, as_module, bind_params
from tilewright.support.collection import paused_collection
from tilewright.target.virtual_device import TargetLike, Targets


@paused_collection()
def build(
    ir_mod: IRModule | Function,
    target: Targets = None,
    target_host: TargetLike | None = None,
    executor: Any = None,
    runtime: Any = None,
    workspace_memory_pools: Any = None,
    constant_memory_pools: Any = None,
    params: Params | None = None,
    mod_name: str = "default",
    progress: Callable[[int, int, str], None] | None = None,
) -> ExecutorFactoryModule:
    """Compile a model for a target, or for several devices with a target each: a list, or {tvm.cpu(0): ..., tvm.cpu(1): ...}. The first
    device runs everything that relay.annotation.on_device does not place on another. params: weights by parameter name.
    progress(done, total, what): called as kernels are finished.

    The result's `["default"](device)` makes an executor; `export_library` writes a shared library. executor: Executor("aot") for one
    compiled entry, or Executor("graph") for a graph that is interpreted. By default the entry is compiled, and the result also has the
    parts of the graph executor (graph JSON, library, parameters). Raises TVMError for graphs with dynamic dimensions.

    workspace_memory_pools (tvm.WorkspaceMemoryPools), constant_memory_pools: the memories for the workspace and for the constants. Each of
    the two is placed in the first memory that holds it, which the library's metadata name ("memory_pools"). Raises TVMError, before any
    kernel is compiled, if none does.
    """
    config = config_of(target, target_host)
    chosen = config.targets[0]
    prefix = str((ir_mod.attrs or {}).get("system_lib_prefix", "")) if isinstance(ir_mod, IRModule) else ""
    how, run_by = executor_of(ir_mod, executor), Runtime.of(runtime)
    need_code_generators(config, "relay.build")
    if how is not None:
        need_interface(how, run_by or Runtime("cpp"), chosen)
    kind = "aot" if how is None else how.name
    made: type[ExecutorFactoryModule] = AOTExecutorFactoryModule
    if how is None or how.name == "graph":
        made = GraphExecutorFactoryModule
    found = how or Executor("graph")
    with chosen:
        bound = bind_params(as_module(ir_mod), params)
        key = None
        if workspace_memory_pools is None and constant_memory_pools is None:
            with step("the model's key in the compile cache"):
                key = model_key(bound, config, kind, mod_name, list(params or {}))
        known, context = stored(key) if key is not None else None, PassContext.current()
        if known is not None:
            kernels = known.facts["kernels"]
            if progress is not None:
                progress(len(kernels), len(kernels), "the model is in the cache")
            return made(
                lambda: compilation.planned_again(bound, config, context),
                KernelSources(partial(kernels_of, known.kernels, chosen), known.entry, chosen, {}),
                chosen,
                found,
                mod_name,
                config.devices,
                known.facts,
                known.objects,
                known.symbols,
                known.constants,
                ExternalCode(chosen),
                run_by,
                prefix,
            )
        compiled = compilation.compile_model(
            bound,
            config,
            kind,
            mod_name,
            list(params or {}),
            workspace_memory_pools,
            constant_memory_pools,
            key,
            progress,
        )
    program, kernels_by_name = (compiled.module, compiled.plan), compiled.kernels
    return made(
        lambda: program,
        KernelSources(lambda: kernels_by_name, compiled.entry, chosen, compiled.plan.kernel_targets),
        chosen,
        found,
        mod_name,
        compiled.plan.devices,
        compiled.facts,
        compiled.objects,
        compiled.symbols,
        compiled.constants,
        compiled.external,
        run_by,
        prefix,
    )


def executor_of(mod: IRModule | Function, executor: Any) -> Executor | None:
    """The executor given by the argument or by the module's attribute; None if neither gives one."""
    if executor is None and isinstance(mod, IRModule):
        executor = (mod.attrs or {}).get("executor")
    return Executor.of(executor)
