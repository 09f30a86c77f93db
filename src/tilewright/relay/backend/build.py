"""`relay.build`: relay passes, kernels, memory plan, entry, machine code. The whole way, top to bottom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from tilewright.codegen.llvm import ModuleEmitter
from tilewright.ir import GlobalVar, IRModule
from tilewright.ir.memory_pools import ConstantMemoryPools, WorkspaceMemoryPools, chosen_pool
from tilewright.ir.transform import PassContext, Sequential, register_config_option
from tilewright.node import deep_recursion
from tilewright.relay import qnn, transform
from tilewright.relay.backend.devices import DeviceCompilers, need_code_generators, target_facts
from tilewright.relay.backend.entry import ENTRY, entry_module, metadata
from tilewright.relay.backend.executor_factory import (
    CONTEXT,
    AOTExecutorFactoryModule,
    ExecutorFactoryModule,
    GraphExecutorFactoryModule,
    KernelTexts,
)
from tilewright.relay.backend.external import ExternalCode, generate
from tilewright.relay.backend.kernels import Progress, cached_object
from tilewright.relay.backend.memory_report import MemoryReport, memory_report
from tilewright.relay.backend.model_cache import StoredModel, kernels_of, kernels_text, model_key, store, stored
from tilewright.relay.backend.options import Executor, Runtime
from tilewright.relay.backend.plan import Plan, make_plan
from tilewright.relay.expr import Function, bind
from tilewright.relay.transform.byoc import external_in_place
from tilewright.relay.transform.manifest import values_again
from tilewright.support.collection import paused_collection
from tilewright.target import CompilationConfig, Target, make_compilation_config

NARROW = {"float32": None, "bfloat16": "bfloat16", "float16": "float16"}
register_config_option("relay.build.precision", str)


def precision() -> str:
    """What products and activations are stored in, by the option "relay.build.precision": float32 unless it says bfloat16 or float16."""
    found = str(PassContext.current().config.get("relay.build.precision", "float32"))
    if found not in NARROW:
        raise ValueError(f'option "relay.build.precision" must be one of {", ".join(NARROW)}, but is {found!r}')
    return found


def pipeline(config: CompilationConfig | None = None) -> Sequential:
    """The relay passes, in order; `config` names the devices and their targets."""
    devices = [transform.PlanDevices(config)] if config is not None else []
    narrow = NARROW[precision()]
    mixed = [transform.mixed_precision.keeping_types(narrow), transform.FoldConstant()] if narrow else []
    return Sequential(
        [
            transform.ToGraphNormalForm(),  # type: ignore[list-item]
            transform.InferType(),  # type: ignore[list-item]
            qnn.transform.Legalize(),
            qnn.transform.CanonicalizeOps(),
            transform.SimplifyInference(),
            transform.TransposedConvolutions(),
            transform.FoldConstant(),
            transform.DynamicToStatic(),
            transform.CanonicalizeOps(),
            transform.SimplifyExpr(),
            transform.FoldConstant(),
            transform.FoldScaleAxis(),
            transform.SimplifyExpr(),
            *mixed,
            transform.ProductsOfBytes(),
            transform.EliminateCommonSubexpr(),
            transform.AlterOpLayout(),
            transform.FlattenRows(),
            transform.PackDense(),
            transform.SimplifyExpr(),
            transform.FoldConstant(),
            transform.PackWinograd(),
            *devices,
            transform.FuseOps(),
            transform.WidenKernels(),
        ],
        name="relay.build",
    )


def as_module(mod: IRModule | Function) -> IRModule:
    """A module whose main is the given function."""
    if isinstance(mod, IRModule):
        return mod
    if isinstance(mod, Function):
        return IRModule.from_expr(mod)
    raise TypeError(f"relay.build takes an IRModule or a relay.Function, but was given {type(mod).__name__}")


def bind_params(mod: IRModule, params: Mapping[str, Any] | None) -> IRModule:
    """The module with main's parameters of these names replaced by constants."""
    if not params:
        return mod
    return mod.with_functions(
        {
            g: bind(f, params) if g.name_hint == "main" and isinstance(f, Function) else f
            for g, f in mod.functions.items()
        }
    )


def target_of(target: Any) -> Target:
    """The target given, else the current one, else the host's CPU."""
    return config_of(target).targets[0]


def config_of(target: Any, target_host: Any = None) -> CompilationConfig:
    """The devices and targets that build was given: one target, a list, or targets by device."""
    return make_compilation_config(PassContext.current(), target, target_host)


def optimize(
    mod: IRModule | Function, target: Any = None, params: Mapping[str, Any] | None = None
) -> tuple[IRModule, dict[str, Any]]:
    """The module after all relay passes: main calls primitive functions. Parameters are constants in it."""
    config = config_of(target)
    with config.targets[0]:
        return pipeline(config)(external_in_place(values_again(bind_params(as_module(mod), params)))), {}


@paused_collection()
def build(
    mod: IRModule | Function,
    target: Any = None,
    target_host: Any = None,
    executor: Any = None,
    runtime: Any = None,
    workspace_memory_pools: Any = None,
    constant_memory_pools: Any = None,
    params: Mapping[str, Any] | None = None,
    mod_name: str = "default",
    progress: Callable[[int, int, str], None] | None = None,
) -> ExecutorFactoryModule:
    """Compile a model for a target, or for several devices with a target each: a list, or {tvm.cpu(0): ..., tvm.cpu(1): ...}; the first
    is where everything runs that relay.annotation.on_device puts nowhere else. `params` are weights by parameter name;
    `progress(done, total, what)` counts kernels.

    The result's `["default"](device)` makes an executor; `export_library` writes a shared library. `executor` is
    Executor("aot"), one compiled entry, or Executor("graph"), which interprets the graph; without one the entry is compiled, and
    the result has the parts of the graph executor (graph JSON, library, parameters) as well. Raises TVMError for graphs with
    dimensions that are not known.

    `workspace_memory_pools` (tvm.WorkspaceMemoryPools) and `constant_memory_pools` say what memories there are: the workspace, and the
    constants, lie in the first that holds them, which the library's metadata name ("memory_pools"). TVMError, before any kernel is
    compiled, where none does.
    """
    config = config_of(target, target_host)
    chosen = config.targets[0]
    how, run_by = executor_of(mod, executor), Runtime.of(runtime)
    need_code_generators(config, "relay.build")
    kind = "aot" if how is None else how.name
    made: type[ExecutorFactoryModule] = AOTExecutorFactoryModule
    if how is None or how.name == "graph":
        made = GraphExecutorFactoryModule
    found = how or Executor("graph")
    with chosen:
        bound = bind_params(as_module(mod), params)
        key = None
        if workspace_memory_pools is None and constant_memory_pools is None:
            key = model_key(bound, config, kind, mod_name, list(params or {}))
        known = stored(key) if key is not None else None
        if known is not None:
            kernels = known.facts["kernels"]
            if progress is not None:
                progress(len(kernels), len(kernels), "the model is in the cache")
            return made(
                partial(planned_again, bound, config, PassContext.current()),
                KernelTexts(partial(kernels_of, known.kernels, chosen), chosen, {}),
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
            )
        optimized, _ = optimize(bound, config)
        with deep_recursion():
            external = generate(optimized, chosen)
            compilers = DeviceCompilers(optimized, config)
            plan = make_plan(optimized, compilers, bound)
        tell_memory(plan)
        pools = memory_pools(plan, workspace_memory_pools, constant_memory_pools)
        # Laying the constants out waits for memory most of the time; the compiler works meanwhile.
        with ThreadPoolExecutor(1) as background:
            constants = background.submit(plan.constants.blob)
            objects, symbols = compile_plan(plan, compilers, progress, kind == "aot")
        facts = metadata(
            plan, target_facts(config), PassContext.current().opt_level, kind, mod_name, list(params or {})
        )
        facts |= pools
        kernels = {c.kernel.name: c.kernel for c in plan.calls}
        programs = kernels_text(compilers.kernels) if key is not None and not external.modules else None
        if key is not None and programs is not None:
            store(key, StoredModel(objects, symbols, facts, constants.result(), programs))
    texts = KernelTexts(lambda: kernels, chosen, plan.kernel_targets)
    return made(
        lambda: (optimized, plan),
        texts,
        chosen,
        found,
        mod_name,
        plan.devices,
        facts,
        objects,
        symbols,
        constants.result(),
        external,
        run_by,
    )


def planned_again(mod: IRModule, config: CompilationConfig, context: PassContext) -> tuple[IRModule, Plan]:
    """The module after all relay passes, and its plan, as a build in that context made them."""
    options = {k: getattr(context, k) for k in ("opt_level", "required_pass", "disabled_pass", "config")}
    with PassContext(**options), config.targets[0], deep_recursion():
        optimized, _ = optimize(mod, config)
        return optimized, make_plan(optimized, DeviceCompilers(optimized, config))


def memory_pools(plan: Plan, workspace: Any, constants: Any) -> dict[str, Any]:
    """The names of the memories that hold the workspace and the constants, as metadata; nothing where no memories were given."""
    found: dict[str, str] = {}
    for given, kind, needed, what in (
        (workspace, WorkspaceMemoryPools, plan.workspace_bytes, "workspace"),
        (constants, ConstantMemoryPools, plan.constants.bytes, "constants"),
    ):
        if given is None:
            continue
        if not isinstance(given, kind):
            raise TypeError(f"memory pools for the {what} are given as a {kind.__name__}, not a {type(given).__name__}")
        found[what] = chosen_pool(given.pools, needed, what).pool_name
    return {"memory_pools": found} if found else {}


def executor_of(mod: IRModule | Function, executor: Any) -> Executor | None:
    """The executor asked for, by an argument or by the module's attribute."""
    if executor is None and isinstance(mod, IRModule):
        executor = (mod.attrs or {}).get("executor")
    return Executor.of(executor)


def plan_memory(mod: IRModule | Function, target: Any = None, params: Mapping[str, Any] | None = None) -> MemoryReport:
    """What the memory of the model would be, compiled by `build`; no kernel is compiled for it."""
    config = config_of(target)
    with config.targets[0], deep_recursion():
        optimized, _ = optimize(mod, config, params)
        return memory_report(make_plan(optimized, DeviceCompilers(optimized, config)))


def tell_memory(plan: Plan) -> None:
    """Instruments that gather a report of the compilation get the memory plan."""
    for instrument in PassContext.current().instruments:
        if hasattr(instrument, "add_section"):
            instrument.add_section("Memory", memory_report(plan).to_html())


def compile_plan(
    plan: Plan, compilers: DeviceCompilers, progress: Progress | None, entry: bool = True
) -> tuple[list[bytes], list[str]]:
    """The objects of the kernels and of the entry, if one is wanted, and the symbols that they export."""
    objects, target = compilers.objects(progress), compilers.config.targets[0]
    text = ModuleEmitter(entry_module(plan), target).emit([GlobalVar(ENTRY)]) if entry and plan.calls else ""
    if CONTEXT not in text:
        # Kernels that use the context define it as well; the linker keeps one.
        text += f"@{CONTEXT} = weak global [8 x ptr] zeroinitializer, align 16\n"
    objects.append(cached_object(text, target))
    return objects, [*[k.name for k in compilers.kernels], *([ENTRY] if entry else [])]
