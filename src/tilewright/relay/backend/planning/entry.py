"""Ahead-of-time entry: a PrimFunc that calls the kernels of a plan in order, and the metadata of the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright import tir
from tilewright.codegen.backend import AOT
from tilewright.ir import BaseFunc, DataType, GlobalVar, IRModule, TensorType
from tilewright.relay.backend.kernels.tensor_graph import static_bytes
from tilewright.relay.backend.planning.graph_json import graph_json, kernel_hash, param_names
from tilewright.relay.backend.planning.plan import CPU, KernelCall, Place, Plan
from tilewright.relay.backend.string_constants import string_mark
from tilewright.support.version import VERSION
from tilewright.tir import PrimFunc
from tilewright.tir.transform.function.packed import SET_DEVICE

ENTRY = "__tilewright_run"
METADATA_FORMAT = 1
COPY = "tilewright.copy_between_devices"
"""The runtime's function for copies: (address, device type, device number) of the source and of the destination, bytes."""


def attributes(name: str, unpacked: bool) -> dict[str, Any]:
    """The attributes of a function exported as `name(void** args)`, or (unpacked) with its arguments as parameters."""
    return {"global_symbol": name} if unpacked else {"global_symbol": name, "calling_conv": AOT}


def entry_function(plan: Plan, prefix: str = "", unpacked: bool = False) -> PrimFunc:
    """The function `__tilewright_run(inputs..., outputs..., constants, workspace)` of raw pointers, which returns 0 or a kernel's error
    code. Devices with memory of their own have constants and a workspace each. prefix: added to its name and to those of the kernels."""
    inputs = [tir.Var(f"in_{i}", "handle") for i in range(len(plan.inputs))]
    outputs = [tir.Var(f"out_{i}", "handle") for i in range(len(plan.outputs))]
    count = len(plan.devices) if plan.apart else 1
    names = [("constants", "workspace"), *[(f"constants_{i}", f"workspace_{i}") for i in range(1, count)]]
    memories = [(tir.Var(c, "handle"), tir.Var(w, "handle")) for c, w in names]

    def pointer(place: Place) -> Any:
        if place.kind in ("input", "output"):
            base, offset = (inputs if place.kind == "input" else outputs)[place.index], place.offset
        else:
            constants, workspace = memories[plan.memory(place)]
            base, offset = constants if place.kind == "constant" else workspace, plan.offset(place)
        return tir.handle_add_byte_offset(base, tir.IntImm("int64", offset)) if offset else base

    calls: list[tir.Stmt] = []
    current = 0
    for call in plan.calls:
        args = tuple([pointer(p) for p in call.args])
        devices = [plan.devices[p.device] for p in call.args]
        if plan.crosses(call):
            ends = [x for p, d in zip(args, devices, strict=True) for x in (p, d.device_type, d.device_id)]
            copy = tir.call_packed(COPY, *ends, static_bytes(call.args[0].type))
            calls.append(tir.Evaluate(copy))
            continue
        at = call.args[-1].device
        if len(plan.devices) > 1 and at != current and devices[-1].device_type != CPU:
            calls.append(tir.Evaluate(tir.call_packed(SET_DEVICE, devices[-1].device_type, devices[-1].device_id)))
            current = at
        calls.append(tir.Evaluate(tir.Call(DataType("int32"), GlobalVar(prefix + call.kernel.name), args)))
    body = tir.stmt_seq(*calls)
    attrs = {**attributes(prefix + ENTRY, unpacked), "tir.noalias": False}
    return PrimFunc((*inputs, *outputs, *[p for pair in memories for p in pair]), body, None, {}, attrs)


def entry_module(plan: Plan, prefix: str = "", unpacked: bool = False) -> IRModule:
    """The module of the entry, with declarations of the kernels that it calls."""
    functions: dict[GlobalVar, BaseFunc] = {}
    for call in plan.calls:
        name = prefix + call.kernel.name
        functions[GlobalVar(name)] = declared(call, attributes(name, unpacked))
    functions[GlobalVar(prefix + ENTRY)] = entry_function(plan, prefix, unpacked)
    return IRModule(functions)


def declared(call: KernelCall, attrs: Mapping[str, Any]) -> PrimFunc:
    """The declaration of a kernel, for callers in other objects."""
    params = [tir.Var(f"p{i}", "handle") for i in range(len(call.args))]
    return PrimFunc(params, tir.Evaluate(tir.const(0)), None, {}, attrs)


def _tensor(t: TensorType) -> dict[str, Any]:
    return {"shape": list(t.concrete_shape), "dtype": str(t.dtype)}


def output_names(plan: Plan) -> list[str]:
    """The names of the outputs: those that an importer gave (function attribute output_tensor_names), or output_0, ..."""
    given = list(plan.func.attrs.get("output_tensor_names", ()))
    return [given[i] if i < len(given) else f"output_{i}" for i in range(len(plan.outputs))]


def metadata(
    plan: Plan,
    target: Mapping[str, Any],
    opt_level: int,
    executor: str = "aot",
    mod_name: str = "default",
    bound_params: Sequence[str] = (),
) -> dict[str, Any]:
    """The metadata by which a host runs the library: inputs, outputs, sizes, kernels, the graph, and the target CPU."""

    def argument(place: Place) -> list[Any]:
        if place.kind in ("input", "output"):
            return [place.kind, place.index, *([place.offset] if place.offset else [])]
        return [place.kind, plan.offset(place), *([plan.memory(place)] if plan.memory(place) else [])]

    def call_devices(call: KernelCall) -> dict[str, Any]:
        if not plan.apart:
            return {}
        source = {"copied_from": call.args[0].device} if plan.crosses(call) else {}
        return {"memory": call.args[-1].device, **source}

    def device(number: int) -> dict[str, Any]:
        d = plan.devices[number]
        return {"device": [d.device_type, d.device_id]} if len(plan.devices) > 1 else {}

    return {
        "format": METADATA_FORMAT,
        "version": VERSION,
        "executor": executor,
        "mod_name": mod_name,
        "inputs": [
            {"name": name, **_tensor(t), **device(d), **string_mark(plan.func, "inputs", name)}
            for (name, t), d in zip(plan.inputs, plan.input_devices, strict=True)
        ],
        "outputs": [
            {"name": name, **_tensor(t), **device(d), **string_mark(plan.func, "outputs", name)}
            for name, t, d in zip(output_names(plan), plan.outputs, plan.output_devices, strict=True)
        ],
        "workspace_bytes": plan.workspace_bytes,
        **(
            {
                "devices": [[d.device_type, d.device_id] for d in plan.devices],
                "arenas": list(plan.arena_bytes),
                "constant_ranges": [plan.constant_range(i) for i in range(len(plan.devices))],
            }
            if plan.apart
            else {}
        ),
        "constants_bytes": plan.constants.bytes,
        "entry": ENTRY,
        "kernels": [
            {
                "name": c.kernel.name,
                "symbol": c.kernel.name,
                "args": [argument(p) for p in c.args],
                "flops": c.kernel.flops,
                "products": list(c.kernel.products),
                "bytes": c.kernel.moved_bytes,
                "source": c.source,
                "hash": kernel_hash(c.kernel),
                "arg_bytes": [static_bytes(p.type) for p in c.args],
                **c.kernel.told_facts,
                **call_devices(c),
            }
            for c in plan.calls
        ],
        "target": dict(target),
        "opt_level": opt_level,
        "params": [
            {
                "name": name,
                "shape": list(a.shape),
                "dtype": a.dtype.name,
                "offset": offset,
                **({"memory": home} if home else {}),
            }
            for name, a, offset, home in zip(
                param_names(plan), plan.constants.arrays, plan.constants.offsets, plan.constants.homes, strict=True
            )
        ],
        "bound_params": list(bound_params),
        "graph": graph_json(plan, output_names(plan), bound_params),
    }
