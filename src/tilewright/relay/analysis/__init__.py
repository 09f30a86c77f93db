"""Questions about relay programs, with the classic names."""

from tilewright.relay.analysis.call_graph import CallGraph, called_functions
from tilewright.relay.analysis.expressions import (
    Feature,
    all_dtypes,
    all_type_vars,
    alpha_equal,
    bound_type_vars,
    check_constant,
    detect_feature,
    free_type_vars,
    list_op_freqs,
)
from tilewright.relay.analysis.operations_distribution import analyze_operations_distribution
from tilewright.relay.analysis.programs import (
    count_layers,
    extract_fused_functions,
    extract_intermdeiate_expr,
    extract_intermediate_expr,
    get_total_mac_number,
    list_fake_quantized_op_freqs,
    search_fc_transpose,
)
from tilewright.relay.analysis.scopes import check_basic_block_normal_form
from tilewright.relay.analysis.sparse import sparse_conv2d, sparse_dense, to_bsr
from tilewright.relay.analysis.well_formedness import findings, well_formed
from tilewright.relay.functor import all_vars, bound_vars, free_vars, post_order, post_order_visit
from tilewright.relay.typing.kinds import check_kind
from tilewright.relay.typing.match_coverage import unmatched_cases
from tilewright.support import lazy

__all__ = [
    "AnnotatedRegionSet",
    "CallGraph",
    "Feature",
    "all_dtypes",
    "all_type_vars",
    "all_vars",
    "alpha_equal",
    "analyze_operations_distribution",
    "bound_type_vars",
    "bound_vars",
    "called_functions",
    "check_basic_block_normal_form",
    "check_constant",
    "check_kind",
    "count_layers",
    "detect_feature",
    "extract_fused_functions",
    "extract_intermdeiate_expr",
    "extract_intermediate_expr",
    "findings",
    "free_type_vars",
    "free_vars",
    "get_calibration_data",
    "get_total_mac_number",
    "list_fake_quantized_op_freqs",
    "list_op_freqs",
    "post_order",
    "post_order_visit",
    "search_fc_transpose",
    "sparse_conv2d",
    "sparse_dense",
    "to_bsr",
    "unmatched_cases",
    "well_formed",
]

# These ask passes, and run programs.
lazy.declare(
    __name__,
    {
        "AnnotatedRegionSet": "tilewright.relay.transform.byoc.annotated_regions:AnnotatedRegionSet",
        "get_calibration_data": "tilewright.relay.backend.calibration:get_calibration_data",
    },
)
lazy.faces(
    __name__,
    {
        "analysis": (),
        "annotated_regions": ("AnnotatedRegionSet",),
        "count_layers": ("count_layers",),
        "feature": ("Feature",),
    },
)
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
