"""The options of `PassContext(config={...})`: their names, types and, for those that are groups, their keys."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

Kind = type | tuple[type, ...]

GROUPS: dict[str, dict[str, Kind]] = {
    "tir.LoopPartition": {
        "partition_const_loop": bool,
        "no_unroll_loop_with_extent_one": bool,
        "unroll_loop_with_partition_hint_no_interval": bool,
    },
    "tir.Simplify": {
        "transitively_prove_inequalities": bool,
        "propagate_knowns_to_prove_conditional": bool,
        "propagate_knowns_to_simplify_expressions": bool,
        "convert_boolean_to_and_of_ors": bool,
        "apply_constraints_to_boolean_branches": bool,
    },
    "tir.UnrollLoop": {
        "auto_max_step": int,
        "auto_max_depth": int,
        "auto_max_extent": int,
        "explicit_unroll": (bool, int),
        "unroll_local_access": (bool, int),
    },
    "tir.RemoveNoOp": {"use_dataflow_analysis": bool, "max_simplification_steps": int},
    "tir.ReduceBranchingThroughOvercompute": {"use_dataflow_analysis": bool},
    "tir.HoistExpression": {"hoisted_conditionals": object, "hoisted_let_bindings": object},
    "tir.HoistIfThenElse": {"support_block_scope_hosting": bool, "support_block_scope_hoisting": bool},
    "tir.InjectDoubleBuffer": {"split_loop": int},
}
"""Options that hold several settings: a mapping with these keys."""

OPTIONS: dict[str, Kind] = {
    **dict.fromkeys(GROUPS, dict),
    "tir.add_lower_pass": (list, tuple),
    "tir.debug_keep_trivial_loop": bool,
    "tir.detect_global_barrier": bool,
    "tir.disable_assert": bool,
    "tir.disable_cse_tir": bool,
    "tir.disable_storage_rewrite": bool,
    "tir.disable_vectorize": bool,
    "tir.dma_bypass_cache": bool,
    "tir.enable_buffer_level_predication": bool,
    "tir.enable_debug": bool,
    "tir.enable_equiv_terms_in_cse_tir": bool,
    "tir.experimental_dma_bypass_cache": bool,
    "tir.instr_lwp": bool,
    "tir.instr_siblings": bool,
    "tir.instrument_bound_checkers": bool,
    "tir.instrument_lwp": bool,
    "tir.is_entry_func": bool,
    "tir.lwp_disable_func_prof": bool,
    "tir.lwp_max_depth": int,
    "tir.lwp_min_height": int,
    "tir.merge_static_smem": bool,
    "tir.noalias": bool,
    "tir.ptx_ldg32": (bool, int),
    "tir.reset_start_id": bool,
    "tir.use_async_copy": (bool, int),
    "tir.usmp.algorithm": str,
    "tir.usmp.custom_algorithm": str,
    "tir.usmp.enable": bool,
    "tir.usmp.use_workspace_io": bool,
    "tir.vtcm_capacity": int,
    "te.keep_schedule_record": bool,
    "relay.FuseOps.link_params": bool,
    "relay.FuseOps.max_depth": int,
    "relay.ToMixedPrecision.keep_orig_output_dtype": bool,
    "relay.backend.tir_converter": str,
    "relay.backend.use_auto_scheduler": bool,
    "relay.backend.use_meta_schedule": bool,
    "relay.backend.use_meta_schedule_dispatch": int,
    "relay.backend.use_multitargets": bool,
    "relay.build.precision": str,
    "relay.check_bounds": bool,
    "relay.collage.byoc_max_depth": int,
    "relay.collage.byoc_fusion_style": (list, tuple),
    "relay.collage.tvm_max_depth": int,
    "relay.ext.cmsisnn.options": dict,
    "relay.ext.ethos-n.options": dict,
    "relay.ext.ethos-u.options": dict,
    "relay.ext.tensorrt.options": dict,
    "relay.ext.vitis_ai.options": dict,
    "relay.fallback_device_type": int,
    "relay.frontend.fill_span": bool,
    "relay.plans": str,
    "relay.remove_standalone_reshapes.enable": bool,
    "testing.immutable_module": bool,
    "vta.debug_flag": int,
}
"""Every option that a program may set. Those that choose between ways of which this package has one change nothing."""


def register_config_option(name: str, kind: Kind, keys: Mapping[str, Kind] | None = None) -> None:
    """Declares a key of `PassContext(config=...)` and the type of its value; `keys`: those of a group and their types."""
    OPTIONS[name] = kind
    if keys is not None:
        GROUPS[name] = dict(keys)


def _near(name: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, known, n=3)
    return f"; near it: {', '.join(near)}" if near else f"; known: {', '.join(sorted(known))}"


def _check_type(what: str, kind: Kind, value: Any) -> None:
    wrong = not isinstance(value, kind) or (kind is int and isinstance(value, bool))
    if wrong:
        names = kind.__name__ if isinstance(kind, type) else " or ".join([k.__name__ for k in kind])
        raise TypeError(f"{what} must be of type {names}, but is {type(value).__name__}: {value!r}")


def check_option(key: str, value: Any) -> None:
    """Raises AttributeError for an option that does not exist, with near names, and TypeError for a value of another type."""
    if key not in OPTIONS:
        raise AttributeError(f"PassContext has no option {key!r}{_near(key, OPTIONS)}")
    _check_type(f"option {key!r}", OPTIONS[key], value)
    for inner, setting in value.items() if key in GROUPS else ():
        if inner not in GROUPS[key]:
            raise AttributeError(f"option {key!r} has no key {inner!r}{_near(inner, GROUPS[key])}")
        _check_type(f"{inner!r} of option {key!r}", GROUPS[key][inner], setting)
