"""Integer analysis: bounds, modular sets, simplification, integer sets and iterator maps."""

from tilewright.arith.analyzer import Analyzer, ConstIntBound, ModularSet

__all__ = ["Analyzer", "ConstIntBound", "ModularSet"]
