"""Partition specs: for each target of a compilation the rule that finds what it could take."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.ir.transform import PassContext
from tilewright.relay.collage.partition_rule import (
    ARBITRARY_COMBINERS,
    TVM_COMBINERS,
    CombinePartitionRule,
    OnlyValidPartitionRule,
    OpCallByKindPartitionRule,
    PartitionRule,
    UnionPartitionRule,
    make_labelled_dfpattern_partition_rule,
)
from tilewright.relay.expr import Function
from tilewright.relay.op.contrib.register import get_pattern_table
from tilewright.support.errors import TVMError
from tilewright.target import CompilationConfig, Target

TVM_MAX_DEPTH = 4
BYOC_MAX_DEPTH = 8
STYLES = ("NoFusion", "TVMFusion", "MaxDepthFusion")
DEFAULT_STYLES = {**dict.fromkeys(("cutlass", "cublas", "cudnn"), "NoFusion"), "tensorrt": "MaxDepthFusion"}
"""How matches of a compiler's patterns are joined where no option says it; those of others as in fusion of operators."""


class PartitionSpec:
    """A target, the rule that finds the sub-graphs it could take, and a check of each as a function: an empty text, or why not."""

    def __init__(
        self,
        spec_name: str,
        target: Target,
        rule: PartitionRule,
        validate_sub_graph_func: Callable[[Function], str] | None = None,
    ) -> None:
        self.spec_name, self.target, self.rule = spec_name, target, rule
        self.validate_sub_graph_func = validate_sub_graph_func

    def __repr__(self) -> str:
        return f"PartitionSpec({self.spec_name!r}, {self.rule})"


def fusion_style(compiler: str) -> str:
    """How matches of the patterns of a compiler are joined, by the option "relay.collage.byoc_fusion_style": a list of
    "<compiler>.<style>", with the styles NoFusion (each match by itself), TVMFusion (as operators are fused) and MaxDepthFusion
    (any neighbours, up to "relay.collage.byoc_max_depth")."""
    for entry in PassContext.current().config.get("relay.collage.byoc_fusion_style", ()):
        name, _, style = str(entry).rpartition(".")
        if not name or style not in STYLES:
            raise TVMError(
                f'option "relay.collage.byoc_fusion_style" holds {str(entry)!r}, but its entries are "<compiler>.<style>", the'
                f" style one of {', '.join(STYLES)}"
            )
        if name == compiler:
            return style
    return DEFAULT_STYLES.get(compiler, "TVMFusion")


def make_pattern_byoc_partition_rule(compiler: str, subrules: Sequence[PartitionRule]) -> PartitionRule:
    """The rule of a compiler from those of its patterns, joined in the compiler's fusion style."""
    depth = int(PassContext.current().config.get("relay.collage.byoc_max_depth", BYOC_MAX_DEPTH))
    matches = UnionPartitionRule("patterns", subrules)
    style = fusion_style(compiler)
    if style == "NoFusion":
        return OnlyValidPartitionRule(compiler, matches)
    combiners = ARBITRARY_COMBINERS if style == "MaxDepthFusion" else TVM_COMBINERS
    return CombinePartitionRule(compiler, matches, combiners, depth)


def make_byoc_partition_rule(compiler: str) -> PartitionRule:
    """The rule of a compiler from its pattern table. TVMError where it has none."""
    table = get_pattern_table(compiler)
    if table is None:
        raise TVMError(
            f"collage: the compiler {compiler} has no pattern table; register one with"
            f' relay.op.contrib.register_pattern_table("{compiler}")'
        )
    return make_pattern_byoc_partition_rule(
        compiler, [make_labelled_dfpattern_partition_rule(compiler, *entry) for entry in table]
    )


def make_tvm_partition_rule() -> PartitionRule:
    """Single operators, and what fusion of operators makes of them up to "relay.collage.tvm_max_depth"."""
    depth = int(PassContext.current().config.get("relay.collage.tvm_max_depth", TVM_MAX_DEPTH))
    return CombinePartitionRule("tvm", OpCallByKindPartitionRule("operators"), TVM_COMBINERS, depth)


def gather_partition_specs(config: CompilationConfig) -> list[PartitionSpec]:
    """The specs of a compilation: our own code generator's first, then those of external ones in the order given."""
    own = config.targets[0]
    external = config.external_targets
    return [
        PartitionSpec(own.kind.name, own, make_tvm_partition_rule()),
        *[PartitionSpec(t.kind.name, t, make_byoc_partition_rule(t.kind.name)) for t in external],
    ]
