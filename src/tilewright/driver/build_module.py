"""lower() and build(): what a user calls to go from a program to a lowered module, and to native code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.codegen.backend import back_end_of, host_target
from tilewright.driver.pipeline import host_pipeline, lower_for, lower_module
from tilewright.ir import GlobalVar, IRModule
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.te import create_prim_func
from tilewright.tir import Buffer, PrimFunc, Var, decl_buffer
from tilewright.tir.schedule import Schedule

DEFAULT_NAMES = ("main", "default_function")
"""A function that has a global symbol keeps it unless another name than these is asked for."""


def schedule_to_module(
    sch: Any, args: Any = None, name: str = "main", binds: Mapping[Any, Buffer] | None = None
) -> IRModule:
    """The module of a schedule, or of anything else that `lower` takes, with its blocks and buffers."""
    inp = sch
    if binds and not hasattr(inp, "stages"):
        raise ValueError("lower: binds is for a te.Schedule; a PrimFunc has its own buffers")
    if isinstance(inp, Schedule):
        inp = inp.mod
    if isinstance(inp, IRModule):
        if args is not None:
            raise ValueError(
                "lower: args go with a te.Schedule; the functions of an IRModule have their own parameters"
            )
        named = {}
        for gvar, func in inp.functions.items():
            bare = isinstance(func, PrimFunc) and "global_symbol" not in func.attrs and len(inp.functions) == 1
            named[gvar] = func.with_attr("global_symbol", gvar.name_hint) if bare else func
        return inp.with_functions(named)
    if isinstance(inp, PrimFunc):
        if args is not None:
            raise ValueError("lower: args go with a te.Schedule; a PrimFunc has its own parameters")
        symbol = name if name not in DEFAULT_NAMES else str(inp.attrs.get("global_symbol") or name)
        # In the module it has the name that was asked for, whatever its symbol: `lower(f)["main"]`.
        return IRModule({GlobalVar(name): inp.with_attr("global_symbol", symbol)})
    if hasattr(inp, "stages") and hasattr(inp, "outputs"):
        if not args:
            raise ValueError(
                "lower: a te.Schedule needs args, the tensors and variables that become the function's parameters"
            )
        for arg in args:
            if not isinstance(arg, (Var, Buffer)) and not hasattr(arg, "op"):
                raise ValueError(
                    f"lower: args holds tensors, buffers and variables, but was given {type(arg).__name__}: {arg!r}"
                )
        to_func = getattr(inp, "to_prim_func", None)
        func = to_func(list(args), binds) if to_func is not None else create_prim_func(list(args))
        named_attrs = {"global_symbol": name, "from_legacy_te_schedule": True}
        return IRModule({GlobalVar(name): func.with_attr(named_attrs)})
    raise ValueError(
        f"lower takes a PrimFunc, an IRModule, a tir.Schedule or a te.Schedule, but was given {type(inp).__name__}"
    )


def get_binds(
    args: Sequence[Any], compact: bool = False, binds: Mapping[Any, Buffer] | None = None
) -> tuple[dict[Any, Buffer], list[Any]]:
    """(the buffers of tensors, args with these in place of the tensors): those of `binds`, and new ones for other tensors among args. The
    strides of a buffer with variable extents are those of an argument that may be broadcast, unless `compact`."""
    found = dict(binds or {})
    params: list[Any] = []
    for arg in args:
        if not hasattr(arg, "op"):
            if not isinstance(arg, (Var, Buffer)):
                raise ValueError(
                    f"get_binds takes tensors, buffers and variables, but was given {type(arg).__name__}: {arg!r}"
                )
            params.append(arg)
            continue
        if arg not in found:
            open_ = not compact and any([isinstance(d, Var) for d in arg.shape])
            kind = "auto_broadcast" if open_ else ""
            found[arg] = decl_buffer(arg.shape, arg.dtype, arg.name, buffer_type=kind)
        params.append(found[arg])
    return found, params


def lower(
    inp: Any, args: Any = None, name: str = "main", binds: Mapping[Any, Buffer] | None = None, simple_mode: bool = False
) -> IRModule:
    """The module with blocks, buffers and loop marks lowered to flat loops and vectors.

    inp: PrimFunc, IRModule, tir.Schedule, or te.Schedule with `args` (its parameters). simple_mode: without loop
    partitioning, for reading. binds: the buffers of tensors of a te.Schedule, instead of compact ones. Options come
    from the current PassContext ("tir.add_lower_pass", ...).
    """
    return lower_module(schedule_to_module(inp, args, name, binds), simple_mode)


def build(
    inputs: Any,
    args: Any = None,
    target: Any = None,
    target_host: Any = None,
    runtime: Any = None,
    name: str = "default_function",
    binds: Any = None,
) -> Any:
    """A runtime.Module whose functions take tensors (NDArray or DLPack) and numbers.

    inputs: what `lower` takes, or a mapping from targets to modules, whose functions become those of one module. target: a Target or its
    text, by default the current one, else "llvm". runtime: a relay.backend.Runtime; with its option "system-lib" (or the target's -system-
    lib) exported libraries register their functions when they are loaded or linked into a program, with the prefix that the module's
    attribute "system_lib_prefix" gives to symbols. Raises ValueError on inputs of another kind, TVMError where a target cannot do a thing.
    """
    if isinstance(inputs, Mapping):
        if not inputs:
            raise ValueError("build: a mapping holds targets and their modules, but is empty")
        if len(inputs) > 1:
            return joined([build(m, None, t, target_host, runtime, name, binds) for t, m in inputs.items()])
        ((target, inputs),) = inputs.items()
    chosen = Target(target) if target is not None else Target.current(allow_none=True) or Target("llvm")
    if target_host is not None:
        chosen = Target(chosen, target_host)
    mod = schedule_to_module(inputs, args, name, binds)
    made = build_lowered(lower_for(mod, chosen), chosen)
    source = made.source
    if source is not None:
        source.program = (name, {chosen: mod})
        source.system_lib = bool((runtime is not None and runtime.get("system-lib")) or chosen.attrs.get("system-lib"))
        source.prefix = str(mod.attrs.get("system_lib_prefix", ""))
    return made


def joined(modules: Sequence[Any]) -> Any:
    """The first of several compiled modules, which imports the others and has their functions as its own."""
    first, *others = modules
    for other in others:
        first.import_module(other)
    if first.source is None:
        raise TVMError(
            f"build: the module for the first target, {first.type_key}, cannot import the others; put another target first"
        )
    first.source.has_imported_functions = True
    return first


def build_lowered(mod: IRModule, target: Any) -> Any:
    """Packed functions of lowered ones, compiled for the target."""
    back_end = back_end_of(target)
    back_end.object_kind(target)
    made = back_end.build(host_pipeline(target)(mod) if back_end.packed else mod, target)
    host = host_target(target)
    if made.source is not None and back_end_of(host).linkable:
        made.source.registration = lambda names: back_end_of(host).compile(
            back_end_of(host).emit_registration(names, host), host
        )
    return made
