"""The options that lowering takes from `PassContext(config={...})`."""

from __future__ import annotations

from tilewright.ir.transform import register_config_option

register_config_option("tir.add_lower_pass", (list, tuple))
register_config_option("tir.disable_vectorize", bool)
register_config_option("tir.instrument_bound_checkers", bool)
register_config_option("tir.UnrollLoop", dict)
register_config_option("tir.LoopPartition", dict)
register_config_option("tir.disable_storage_rewrite", bool)
register_config_option("tir.disable_assert", bool)
register_config_option("tir.noalias", bool)

# Options of classic TVM that choose between ways in which this package has one, or that belong to devices it makes no
# code for: programs may set them, and nothing changes.
for _name, _kind in {
    "tir.HoistIfThenElse": dict,
    "tir.InjectDoubleBuffer": dict,
    "tir.ReduceBranchingThroughOvercompute": dict,
    "tir.RemoveNoOp": dict,
    "tir.Simplify": dict,
    "tir.debug_keep_trivial_loop": bool,
    "tir.detect_global_barrier": bool,
    "tir.disable_cse_tir": bool,
    "tir.enable_debug": bool,
    "tir.enable_equiv_terms_in_cse_tir": bool,
    "tir.enable_buffer_level_predication": bool,
    "tir.instrument_lwp": bool,
    "tir.is_entry_func": bool,
    "tir.merge_static_smem": bool,
    "tir.ptx_ldg32": bool,
    "tir.use_async_copy": bool,
    "tir.vtcm_capacity": int,
    "tir.dma_bypass_cache": bool,
}.items():
    register_config_option(_name, _kind)
