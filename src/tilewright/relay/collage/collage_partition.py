"""CollagePartition: operators given to whichever code generator makes the whole cheapest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.ir import IRModule
from tilewright.ir.transform import Pass, PassContext, PassInfo

if TYPE_CHECKING:
    from tilewright.relay.collage.collage import CostEstimator
    from tilewright.target import CompilationConfig


def CollagePartition(config: CompilationConfig, cost_estimator: CostEstimator | None = None) -> Pass:
    """Assign each operator, alone or with neighbours, to a target of the compilation so that the estimated total time
    is lowest.

    config: `tvm.target.make_compilation_config(ctxt, targets)`, whose targets are our own and external code generators,
    which take what their pattern tables say. cost_estimator: what estimates candidates, `relay.collage.CostEstimator()`
    by default, which compiles and measures them. What another code generator gets becomes a global function with the
    attribute Compiler, named collage_<compiler>_<patterns>; what is ours stays where it is, and is fused later. Options
    of the PassContext: "relay.collage.tvm_max_depth" (4) and "relay.collage.byoc_max_depth" (8), the calls on the
    longest way through a candidate, and "relay.collage.byoc_fusion_style", a list such as ["cutlass.NoFusion",
    "tensorrt.MaxDepthFusion"], which says how matches of patterns may be joined.

        nn.relu(nn.conv2d(%x, %w))
    -->
        @collage_dnnl_conv2d_relu(%x, %w)
    """

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        # Rules and estimators are not needed by who only builds.
        from tilewright.relay.collage.collage import CostEstimator
        from tilewright.relay.collage.partition import partitioned

        return partitioned(mod, config, cost_estimator or CostEstimator())

    return Pass(PassInfo(0, "CollagePartition"), run)
