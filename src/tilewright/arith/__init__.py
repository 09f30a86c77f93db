"""Integer analysis: bounds, modular sets, simplification, integer sets, iterator maps and linear systems.

int32 and int64 are index arithmetic: they do not overflow, as in C, so (x * 4 + y) // 4 may become x. Elements of buffers
may have any value, so no sums of them are made that the program does not compute. Narrower and unsigned integers wrap
around. Floats are IEEE numbers: NaN and infinities are kept, but the sign of a zero is not. Only rules that are valid for
these types are applied to them. A division by zero is undefined, but simplification does not add one.
"""

from tilewright.arith.analyzer import (
    Analyzer,
    ConstIntBound,
    Extension,
    ModularSet,
    ProofStrength,
)
from tilewright.arith.bound import deduce_bound
from tilewright.arith.domain import domain_touched
from tilewright.arith.int_set import (
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
)
from tilewright.arith.int_solver import (
    IntConstraints,
    IntConstraintsTransform,
    IntGroupBounds,
    solve_linear_equations,
    solve_linear_inequalities,
)
from tilewright.arith.intervals import (
    IntervalSet,
    IntSet,
    eval_set,
    intersect,
    neg_inf,
    pos_inf,
    union,
)
from tilewright.arith.iter_affine_map import (
    IterMapExpr,
    IterMapLevel,
    IterMapResult,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    detect_iter_map,
    inverse_affine_iter_map,
    iter_map_simplify,
    normalize_iter_map_to_expr,
    normalize_to_iter_sum,
    subspace_divide,
)
from tilewright.arith.pattern import (
    detect_clip_bound,
    detect_common_subexpr,
    detect_linear_equation,
)
from tilewright.arith.presburger import PresburgerSet
from tilewright.support import lazy

__getattr__, __dir__ = lazy.late(__name__)

__all__ = [
    "Analyzer",
    "ConstIntBound",
    "Extension",
    "IntConstraints",
    "IntConstraintsTransform",
    "IntGroupBounds",
    "IntSet",
    "IntervalSet",
    "IterMapExpr",
    "IterMapLevel",
    "IterMapResult",
    "IterMark",
    "IterSplitExpr",
    "IterSumExpr",
    "ModularSet",
    "PresburgerSet",
    "ProofStrength",
    "deduce_bound",
    "detect_clip_bound",
    "detect_common_subexpr",
    "detect_iter_map",
    "detect_linear_equation",
    "domain_touched",
    "estimate_region_lower_bound",
    "estimate_region_strict_bound",
    "estimate_region_upper_bound",
    "eval_set",
    "intersect",
    "inverse_affine_iter_map",
    "iter_map_simplify",
    "neg_inf",
    "normalize_iter_map_to_expr",
    "normalize_to_iter_sum",
    "pos_inf",
    "solve_linear_equations",
    "solve_linear_inequalities",
    "subspace_divide",
    "union",
]
