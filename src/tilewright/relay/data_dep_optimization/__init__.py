"""Optimisations that look at the weights: sparse forms of those that are mostly zeros, transposed ones given transposed."""

from tilewright.relay.data_dep_optimization import bsr_conv2d, bsr_dense, simplify_fc_transpose

__all__ = ["bsr_conv2d", "bsr_dense", "simplify_fc_transpose"]
