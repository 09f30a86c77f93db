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
