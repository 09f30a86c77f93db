"""Compilation of a model, from top to bottom: relay passes, kernels, memory plan, entry, machine code."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from tilewright.codegen.backend import CPU_RULES, GPU_RULES, NO_RULES, Code, back_end_of, host_target
from tilewright.ir import IRModule
from tilewright.ir.memory_pools import ConstantMemoryPools, WorkspaceMemoryPools, chosen_pool
from tilewright.ir.steps import step
from tilewright.ir.transform import PassContext
from tilewright.ir.transform import Sequential as Passes
from tilewright.node import deep_recursion
from tilewright.relay import qnn, transform
from tilewright.relay.backend.byoc.external import ExternalCode, generate
from tilewright.relay.backend.kernels.devices import DeviceCompilers
from tilewright.relay.backend.kernels.kernel import Kernel
from tilewright.relay.backend.kernels.machine_code import Progress, cached_object
from tilewright.relay.backend.kernels.recorded import asks_records
from tilewright.relay.backend.kernels.recorded_layouts import AutoSchedulerLayoutRewrite
from tilewright.relay.backend.model_cache import StoredModel, kernels_text, store
from tilewright.relay.backend.planning.entry import ENTRY, entry_module, metadata
from tilewright.relay.backend.planning.explicit_memory import values_again
from tilewright.relay.backend.planning.graph_drawing import graph_svg
from tilewright.relay.backend.planning.memory_report import MemoryReport, memory_report
from tilewright.relay.backend.planning.plan import Plan, make_plan
from tilewright.relay.backend.program_plan import program_plan
from tilewright.relay.backend.string_constants import strings_of
from tilewright.relay.backend.targets import config_of, target_facts
from tilewright.relay.expr import Function
from tilewright.relay.parameters import Params, as_module, bind_params
from tilewright.relay.transform.byoc import external_in_place
from tilewright.relay.transform.fusion.constant_arguments import ConstantsToArguments
from tilewright.support.errors import TVMError
from tilewright.target import CompilationConfig
from tilewright.target.virtual_device import Targets

NARROW = {"float32": None, "bfloat16": "bfloat16", "float16": "float16"}


def precision() -> str:
    """The element type of products and activations: the option "relay.build.precision", float32 by default."""
    found = str(PassContext.current().config.get("relay.build.precision", "float32"))
    if found not in NARROW:
        raise ValueError(f'option "relay.build.precision" must be one of {", ".join(NARROW)}, but is {found!r}')
    return found


def pipeline(config: CompilationConfig | None = None) -> Passes:
    """The relay passes of a build, in order. config: the devices and their targets."""
    devices = [transform.PlanDevices(config)] if config is not None else []
    alone = config is None or len(config.targets) == 1
    checks = PassContext.current().config.get("relay.check_bounds", False)
    narrow = NARROW[precision()]
    mixed = [transform.mixed_precision.keeping_types(narrow), transform.FoldConstant()] if narrow else []
    # Back ends without schedules get kernels as operators define them. Layouts for CPUs are for programs that run on CPUs alone.
    rules = {CPU_RULES} if config is None else {back_end_of(t).rules for t in config.targets}

    def tuned(*passes: Any) -> tuple[Any, ...]:
        return () if NO_RULES in rules else passes

    def on_cpus(*passes: Any) -> tuple[Any, ...]:
        return passes if rules == {CPU_RULES} else ()

    def on_gpus(*passes: Any) -> tuple[Any, ...]:
        return passes if rules == {GPU_RULES} else ()

    passes: list[Any] = [
        transform.ToGraphNormalForm(),
        transform.InferType(),
        *([transform.CheckBounds()] if checks else []),
        qnn.transform.Legalize(),
        qnn.transform.CanonicalizeOps(),
        transform.SimplifyInference(),
        *on_cpus(transform.TransposedConvolutions()),
        transform.FoldConstant(),
        transform.DynamicToStatic(),
        transform.CanonicalizeOps(),
        *on_cpus(transform.ProductsOfWindows()),
        transform.SimplifyExpr(),
        transform.FoldConstant(),
        *tuned(transform.FoldScaleAxis(), transform.SimplifyExpr()),
        *on_cpus(transform.ProductsBeforeResizes()),
        *mixed,
        *on_cpus(transform.ProductsOfPairs(), transform.ProductsOfBytes(), transform.WideSums()),
        transform.EliminateCommonSubexpr(),
        *on_cpus(transform.ApplyTemplates()),
        *tuned(transform.CombineSmallProducts(), transform.CombineSmallConvolutions(), transform.SliceSplits()),
        *on_cpus(
            transform.ImageViews(),
            transform.AlterOpLayout(),
            transform.FlattenRows(),
            transform.PackDense(),
        ),
        *on_gpus(transform.ChannelsLast()),
        *tuned(transform.SimplifyExpr(), transform.FoldConstant()),
        *on_cpus(transform.PackWinograd(), transform.PackStrassen()),
        *tuned(transform.FuseAttention(), transform.FuseRmsNorm()),
        *on_cpus(transform.WriteHalos()),
        *devices,
        transform.FuseOps(),
        ConstantsToArguments(),
        *on_cpus(*([transform.SplitBatch()] if alone else [])),
        *tuned(transform.WidenKernels()),
        *([AutoSchedulerLayoutRewrite(config.targets[0])] if alone and config is not None and asks_records() else []),
    ]
    return Passes(passes, name="relay.build")


def optimize(
    mod: IRModule | Function, target: Targets = None, params: Params | None = None
) -> tuple[IRModule, dict[str, Any]]:
    """(the module after all relay passes, parameters): main calls primitive functions, and `params` are constants in it."""
    config = config_of(target)
    with config.targets[0], program_plan(config.targets[0]):
        with step("loading the passes"):
            passes = pipeline(config)
        return passes(external_in_place(values_again(bind_params(as_module(mod), params)))), {}


class Compiled(NamedTuple):
    """A compiled model: the module after all passes, its plan, and the parts of its library. kernels: by name; entry: the code that
    calls them."""

    module: IRModule
    plan: Plan
    kernels: dict[str, Kernel]
    objects: list[bytes]
    symbols: list[str]
    facts: dict[str, Any]
    constants: np.ndarray
    external: ExternalCode
    entry: Code


def compile_model(
    mod: IRModule,
    config: CompilationConfig,
    kind: str,
    mod_name: str,
    params: Sequence[str],
    workspace_pools: Any,
    constant_pools: Any,
    key: str | None,
    progress: Progress | None,
) -> Compiled:
    """Compiles a module whose parameters are bound. kind: the executor, "graph" or "aot"; params: the names of the bound parameters; key:
    the cache key under which the result is stored, or None."""
    with program_plan(config.targets[0]) as decided:
        optimized, _ = optimize(mod, config)
    with deep_recursion():
        with step("code generators of others"):
            external = generate(optimized, config.targets[0])
        with step("kernels as tensor expressions, memory plan"):
            compilers = DeviceCompilers(optimized, config)
            plan = make_plan(optimized, compilers, mod)
    need_addresses(plan, config)
    with step("this report"):
        tell_plan(plan)
    pools = memory_pools(plan, workspace_pools, constant_pools)
    # Writing the constants mostly waits for memory, so it runs beside the compiler.
    with ThreadPoolExecutor(1) as background:
        constants = background.submit(plan.constants.blob)
        objects, symbols, entry = compile_plan(plan, compilers, progress, kind == "aot")
        external.take_kernels(compilers.modules)
    with step("metadata"):
        facts = metadata(plan, target_facts(config), PassContext.current().opt_level, kind, mod_name, params)
        facts |= {**pools, **strings_of(optimized)}
    with step("constants"):
        constants.result()
    kernels = {c.kernel.name: c.kernel for c in plan.calls}
    with step("storing in the compile cache"):
        # Decisions that do not fit are reported in every build, so such a model is not stored.
        fits = not decided.refused and not any([k.remarks.unfit for k in compilers.kernels])
        programs = kernels_text(compilers.kernels) if key is not None and fits and not external.modules else None
        if key is not None and programs is not None:
            store(key, StoredModel(objects, symbols, facts, constants.result(), programs, entry))
    return Compiled(optimized, plan, kernels, objects, symbols, facts, constants.result(), external, entry)


def planned_again(mod: IRModule, config: CompilationConfig, context: PassContext) -> tuple[IRModule, Plan]:
    """The module after all relay passes, and its plan, computed again as in a build with `context`."""
    options = {k: getattr(context, k) for k in ("opt_level", "required_pass", "disabled_pass", "config")}
    with PassContext(**options), config.targets[0], deep_recursion():
        optimized, _ = optimize(mod, config)
        return optimized, make_plan(optimized, DeviceCompilers(optimized, config))


def memory_pools(plan: Plan, workspace: Any, constants: Any) -> dict[str, Any]:
    """Metadata with the names of the memories that hold the workspace and the constants; empty if no memories were given."""
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


def need_addresses(plan: Plan, config: CompilationConfig) -> None:
    """Raises TVMError where a model takes more memory than a target has addresses."""
    for target in config.targets:
        bits, constants, workspace = target.cpu.pointer_bits, plan.constants.bytes, plan.workspace_bytes
        if constants + workspace >= 1 << bits:
            raise TVMError(
                f"relay.build: the model takes {constants} bytes of constants and {workspace} bytes of workspace, but"
                f" -mtriple={target.triple} has addresses of {bits} bits; use narrower types"
                " (relay.transform.ToMixedPrecision, --precision) or a smaller batch, or compile for a machine with wider addresses"
            )


def plan_memory(mod: IRModule | Function, target: Targets = None, params: Params | None = None) -> MemoryReport:
    """The memory that a model would take if `build` compiled it. Compiles no kernel."""
    config = config_of(target)
    with config.targets[0], deep_recursion():
        optimized, _ = optimize(mod, config, params)
        return memory_report(make_plan(optimized, DeviceCompilers(optimized, config)))


def tell_plan(plan: Plan) -> None:
    """Passes the graph and the memory plan to instruments that report on the compilation."""
    for instrument in PassContext.current().instruments:
        if hasattr(instrument, "add_section"):
            instrument.add_section("Graph", graph_svg(plan))
            instrument.add_section("Memory", memory_report(plan).to_html())


def compile_plan(
    plan: Plan, compilers: DeviceCompilers, progress: Progress | None, run: bool = True
) -> tuple[list[bytes], list[str], Code]:
    """(the objects of the kernels and of the entry, the symbols that they export, the code of the entry). run: with the function that
    calls the kernels, else only the variables that the runtime fills in."""
    objects, target = compilers.objects(progress), host_target(compilers.config.targets[0])
    with step("the entry that calls the kernels"):
        code = back_end_of(target).emit_entry(entry_module(plan), [ENTRY] if run else [], target)
        objects.append(cached_object(code, target))
    return objects, [*[k.name for k in compilers.kernels], *([ENTRY] if run else [])], code
