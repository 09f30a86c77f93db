"""Collage: which code generator takes which operators, chosen by what the candidates cost (classic `relay.collage`).

    config = tvm.target.make_compilation_config(ctxt, ["llvm", tvm.target.Target("dnnl")])
    mod = relay.transform.CollagePartition(config, relay.collage.CostEstimator())(mod)

A *partition rule* finds sub-graphs that could be given away, a *partition spec* ties one to a target, a *cost estimator* says what a
candidate costs, and the pass `CollagePartition` picks those that cover the program at the least cost.
"""

from tilewright.relay.collage.collage import (
    MEASURE_NUMBER,
    MEASURE_REPEAT,
    WARMUP_MIN_REPEAT_MS,
    CostEstimator,
    CustomCostEstimator,
    MockCostEstimator,
    arg_for,
    estimate_seconds,
    vm_estimate_seconds,
)
from tilewright.relay.collage.collage_partition import CollagePartition
from tilewright.relay.collage.partition import CandidatePartition, best_partition
from tilewright.relay.collage.partition_rule import (
    CombinePartitionRule,
    CombinerRule,
    CompositePartitionRule,
    DFPatternPartitionRule,
    OnlyValidPartitionRule,
    OpCallByKindPartitionRule,
    PartitionRule,
    SimpleCombinerRule,
    UnionPartitionRule,
    make_labelled_dfpattern_partition_rule,
    make_labelled_dfpattern_partition_rule_with_predicate,
)
from tilewright.relay.collage.partition_spec import (
    PartitionSpec,
    gather_partition_specs,
    make_byoc_partition_rule,
    make_pattern_byoc_partition_rule,
)
from tilewright.relay.collage.sub_graph import DataflowGraph, SubGraph

__all__ = [
    "MEASURE_NUMBER",
    "MEASURE_REPEAT",
    "WARMUP_MIN_REPEAT_MS",
    "CandidatePartition",
    "CollagePartition",
    "CombinePartitionRule",
    "CombinerRule",
    "CompositePartitionRule",
    "CostEstimator",
    "CustomCostEstimator",
    "DFPatternPartitionRule",
    "DataflowGraph",
    "MockCostEstimator",
    "OnlyValidPartitionRule",
    "OpCallByKindPartitionRule",
    "PartitionRule",
    "PartitionSpec",
    "SimpleCombinerRule",
    "SubGraph",
    "UnionPartitionRule",
    "arg_for",
    "best_partition",
    "estimate_seconds",
    "gather_partition_specs",
    "make_byoc_partition_rule",
    "make_labelled_dfpattern_partition_rule",
    "make_labelled_dfpattern_partition_rule_with_predicate",
    "make_pattern_byoc_partition_rule",
    "vm_estimate_seconds",
]
