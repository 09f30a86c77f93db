"""Analyses of tir programs."""

from tilewright.support import lazy
from tilewright.tir.analysis.checks import OOBChecker, assert_pure_function, find_anchor_block, is_pure_function
from tilewright.tir.analysis.cost import (
    calculate_allocated_bytes,
    calculate_constant_bytes,
    calculate_workspace_bytes,
    estimate_tir_flops,
    expr_deep_equal,
    verify_memory,
)
from tilewright.tir.analysis.gpu import verify_gpu_code
from tilewright.tir.analysis.lca import detect_buffer_access_lca
from tilewright.tir.analysis.regions import get_block_access_region, get_block_read_write_region
from tilewright.tir.analysis.signature import (
    apply_prim_func_arg_and_result_memory_constraints,
    get_prim_func_arg_and_result_memory_constraints,
    has_if_then_else,
)
from tilewright.tir.analysis.stages import verify_stage
from tilewright.tir.analysis.variables import undefined_vars, verify_ssa
from tilewright.tir.analysis.well_formed import verify_well_formed

__all__ = [
    "OOBChecker",
    "apply_prim_func_arg_and_result_memory_constraints",
    "assert_pure_function",
    "calculate_allocated_bytes",
    "calculate_constant_bytes",
    "calculate_workspace_bytes",
    "detect_buffer_access_lca",
    "estimate_tir_flops",
    "expr_deep_equal",
    "find_anchor_block",
    "get_block_access_region",
    "get_block_read_write_region",
    "get_prim_func_arg_and_result_memory_constraints",
    "has_if_then_else",
    "is_pure_function",
    "undefined_vars",
    "verify_gpu_code",
    "verify_memory",
    "verify_ssa",
    "verify_stage",
    "verify_well_formed",
]

# The passes stand in a layer above.
lazy.faces(__name__, {"analysis": ()})
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
