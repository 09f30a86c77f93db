"""`relay.vm.compile`, from top to bottom: relay passes, kernels, bytecode."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tilewright.codegen.backend import back_end_of, host_target
from tilewright.ir import BaseFunc, GlobalVar, IntImm, IRModule, TensorType, TupleType
from tilewright.ir.transform import PassContext, Sequential
from tilewright.node import deep_recursion
from tilewright.relay import transform
from tilewright.relay.analysis.call_graph import called_functions
from tilewright.relay.backend.byoc.external import generate
from tilewright.relay.backend.compilation import pipeline
from tilewright.relay.backend.kernels.devices import DeviceCompilers
from tilewright.relay.backend.kernels.machine_code import Progress, cached_object
from tilewright.relay.backend.planning.explicit_memory import values_again
from tilewright.relay.backend.program_plan import program_plan
from tilewright.relay.backend.string_constants import string_mark, strings_of
from tilewright.relay.backend.targets import config_of, need_code_generators, target_facts
from tilewright.relay.backend.vm.emit import ProgramCompiler
from tilewright.relay.backend.vm.executable import Executable
from tilewright.relay.backend.vm.sizes import named
from tilewright.relay.expr import Function, Var
from tilewright.relay.functor import post_order, substitute
from tilewright.relay.parameters import Params, as_module, bind_params
from tilewright.relay.transform.byoc import external_in_place
from tilewright.relay.transform.functional.lambda_lift import CLOSURE, LIFTED
from tilewright.relay.typing.retype import widen_dimensions
from tilewright.support.collection import paused_collection
from tilewright.support.errors import TVMError
from tilewright.support.version import VERSION
from tilewright.target import CompilationConfig
from tilewright.target.virtual_device import TargetLike, Targets
from tilewright.tir import Any as AnyDim

METADATA_FORMAT = 1


def vm_pipeline(config: CompilationConfig | None = None) -> Sequential:
    """The relay passes for the virtual machine, in order. Closures are lifted before lets become a graph."""
    return Sequential(
        [
            transform.HoistInvariants(),
            transform.ToANormalForm(),
            transform.LambdaLift(),
            pipeline(config),
            transform.ToANormalForm(),
            transform.InferType(),
        ],
        name="relay.vm",
    )


def entry_points(mod: IRModule) -> list[str]:
    """The functions that a host may call: main, and all functions without type parameters, which those of the prelude have."""
    return [
        g.name_hint
        for g, f in mod.functions.items()
        if isinstance(f, Function) and not f.is_primitive and (g.name_hint == "main" or not f.type_params)
    ]


def reachable(mod: IRModule) -> IRModule:
    """The module with only those functions that entry points can reach."""
    wanted = set(called_functions(mod, entry_points(mod)))
    functions: dict[GlobalVar, BaseFunc] = {g: f for g, f in mod.functions.items() if g in wanted}
    return mod.with_functions(functions)


def name_dimensions(mod: IRModule) -> IRModule:
    """The module with a variable for each dynamic dimension of the functions that a host calls, by which passes see which are equal. A
    function that is called in the module keeps its type."""
    called = {
        e for f in mod.functions.values() if isinstance(f, Function) for e in post_order(f) if isinstance(e, GlobalVar)
    }
    functions: dict[GlobalVar, BaseFunc] = {}
    for g, f in mod.functions.items():
        functions[g] = f
        if not isinstance(f, Function) or f.is_primitive or g in called:
            continue
        types = [p.type_annotation for p in f.params]
        fresh = [named(t, p.name_hint) if t is not None else None for t, p in zip(types, f.params, strict=True)]
        if all([a is b for a, b in zip(types, fresh, strict=True)]):
            continue
        params = [Var(p.name_hint, t) for p, t in zip(f.params, fresh, strict=True)]
        body = substitute(f.body, dict(zip(f.params, params, strict=True)))
        functions[g] = Function(tuple(params), body, None, f.type_params, f.attrs, f.span)
    return mod.with_functions(functions)


def optimize(mod: IRModule | Function, target: Targets = None, params: Params | None = None) -> IRModule:
    """The module after all relay passes of the virtual machine, with `params` as constants."""
    config = config_of(target)
    with config.targets[0], program_plan(config.targets[0]), deep_recursion():
        used = external_in_place(reachable(values_again(bind_params(as_module(mod), params))))
        return vm_pipeline(config)(name_dimensions(widen_dimensions(used)))


@paused_collection()
def compile(
    mod: IRModule | Function,
    target: Targets = None,
    target_host: TargetLike | None = None,
    params: Params | None = None,
    progress: Progress | None = None,
) -> Executable:
    """Compile a program for the virtual machine. params: weights by name; progress(done, total, what): called as kernels are finished.

    Raises TVMError for a module without functions, and DiagnosticError for ill-typed programs."""
    config = config_of(target, target_host)
    chosen = config.targets[0]
    need_code_generators(config, "relay.vm.compile")
    with chosen:
        optimized = optimize(mod, config, params)
        entries = [name for name in entry_points(optimized) if not name_is_lifted(optimized, name)]
        if not entries:
            raise TVMError("relay.vm.compile: the module has no relay function to call")
        external = generate(optimized, chosen)
        kernels = DeviceCompilers(optimized, config)
        compiler = ProgramCompiler(optimized, kernels)
        program = compiler.run()
        with ThreadPoolExecutor(1) as background:
            constants = background.submit(compiler.pool.blob)
            objects = kernels.objects(progress)
            host = host_target(chosen)
            objects.append(cached_object(back_end_of(host).emit_entry(IRModule({}), [], host), host))
            external.take_kernels(kernels.modules)
        facts = {
            "format": METADATA_FORMAT,
            "version": VERSION,
            "executor": "vm",
            "entry_points": entries,
            **tensors_of_main(optimized),
            "constants_bytes": compiler.pool.bytes,
            "kernels": [
                {
                    "name": k.name,
                    "flops": k.flops,
                    "products": list(k.products),
                    "bytes": k.moved_bytes,
                    "source": k.source,
                    **k.told_facts,
                }
                for k in kernels.kernels
            ],
            "target": target_facts(config),
            "devices": [[d.device_type, d.device_id] for d in config.devices] if config.is_told else [],
            "opt_level": PassContext.current().opt_level,
            **strings_of(optimized),
        }
    return Executable(optimized, chosen, program, facts, objects, constants.result(), external)


def tensors_of_main(mod: IRModule) -> dict[str, Any]:
    """Metadata of the inputs and outputs of main: names, and for tensors their types and extents. Dynamic extents are given by
    name."""
    if not any([g.name_hint == "main" for g in mod.functions]):
        return {"inputs": [], "outputs": []}
    main: Any = mod["main"]
    results = main.checked_type.ret_type
    fields = list(results.fields) if isinstance(results, TupleType) else [results]
    names = list((main.attrs or {}).get("output_tensor_names", ()))
    named_outputs = [str(names[i]) if i < len(names) else f"output_{i}" for i in range(len(fields))]
    return {
        "inputs": [
            described(p.name_hint, p.checked_type) | string_mark(main, "inputs", p.name_hint) for p in main.params
        ],
        "outputs": [
            described(name, t) | string_mark(main, "outputs", name)
            for name, t in zip(named_outputs, fields, strict=True)
        ],
    }


def described(name: str, t: Any) -> dict[str, Any]:
    """The metadata of a value."""
    if not isinstance(t, TensorType):
        return {"name": name, "shape": None, "dtype": None}
    shape = [d.value if isinstance(d, IntImm) else "?" if isinstance(d, AnyDim) else str(d) for d in t.shape]
    return {"name": name, "shape": shape, "dtype": str(t.dtype)}


def name_is_lifted(mod: IRModule, name: str) -> bool:
    """Whether a function is a lifted local function."""
    return bool(mod[name].attrs.get(CLOSURE) or mod[name].attrs.get(LIFTED))


class VMCompiler:
    """The classic compiler object: set_params, lower, codegen, get_exec."""

    def __init__(self) -> None:
        self.params: dict[str, Any] = {}
        self._executable: Executable | None = None

    def set_params(self, params: Params) -> None:
        """Sets the weights by parameter name for the modules that are lowered afterwards."""
        self.params = dict(params)

    def get_params(self) -> dict[str, Any]:
        """The weights that were set."""
        return dict(self.params)

    def optimize(
        self, mod: IRModule, target: Targets = None, target_host: TargetLike | None = None, params: Params | None = None
    ) -> tuple[IRModule, dict[str, Any]]:
        """The module after the relay passes, and the parameters that remain to be set (none)."""
        return optimize(mod, target, {**self.params, **(params or {})}), {}

    def lower(self, mod: IRModule, target: Targets = None, target_host: TargetLike | None = None) -> None:
        """Compiles a module; get_exec returns the result."""
        self._executable = compile(mod, target, target_host, self.params)

    def codegen(self) -> None:
        """Does nothing: `lower` generates the machine code."""

    def get_exec(self) -> Executable:
        """The executable of the last `lower`. Raises TVMError before it."""
        if self._executable is None:
            raise TVMError("VMCompiler.get_exec: nothing was lowered yet; call lower(mod, target) first")
        return self._executable
