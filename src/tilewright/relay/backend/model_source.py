"""Whole models for back ends that write source: the kernels and the entry of a compiled model, with the names and calling conventions of
the options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.codegen.backend import WholeModel
from tilewright.ir import GlobalVar, IRModule
from tilewright.relay.backend.kernels.machine_code import lowered, scheduled
from tilewright.relay.backend.name_transforms import sanitize_name
from tilewright.relay.backend.planning.entry import ENTRY, attributes, entry_module
from tilewright.target import Target
from tilewright.tir import PrimFunc

if TYPE_CHECKING:
    from tilewright.relay.backend.kernels.kernel import Kernel
    from tilewright.relay.backend.planning.plan import Plan


def whole_model(
    mod_name: str,
    plan: Plan,
    kernels: Mapping[str, Kernel],
    target: Target,
    facts: Mapping[str, Any],
    constants: Any,
    registered: Sequence[str],
    unpacked: bool,
    symbol_prefix: str = "",
) -> WholeModel:
    """The model for the back end of `target`. unpacked: functions take their arguments directly, and have the model's name as prefix.
    symbol_prefix: before all symbols of other models."""
    name = sanitize_name(f"tvmgen_{mod_name}")
    prefix = f"{name}_" if unpacked else ""
    with target:
        modules = {
            prefix + key: _named(lowered(scheduled(kernel.func, target, kernel.plan), target), prefix + key, unpacked)
            for key, kernel in kernels.items()
        }
        entry = entry_module(plan, prefix, unpacked)
    run = "" if facts["executor"] == "kernels" else prefix + ENTRY
    return WholeModel(name, modules, entry, run, facts, constants, registered, unpacked, symbol_prefix)


def _named(mod: IRModule, name: str, unpacked: bool) -> IRModule:
    """A kernel's module with another name and calling convention."""
    (func,) = mod.functions.values()
    assert isinstance(func, PrimFunc)
    kept = {k: v for k, v in func.attrs.items() if k not in ("global_symbol", "calling_conv")}
    return mod.with_functions({GlobalVar(name): func.replace(attrs={**kept, **attributes(name, unpacked)})})


__all__ = ["whole_model"]
