"""Analyses of tir programs."""

from tilewright.tir.analysis.lca import detect_buffer_access_lca
from tilewright.tir.analysis.stages import verify_stage
from tilewright.tir.analysis.variables import undefined_vars, verify_ssa, verify_well_formed

__all__ = ["detect_buffer_access_lca", "undefined_vars", "verify_ssa", "verify_stage", "verify_well_formed"]
