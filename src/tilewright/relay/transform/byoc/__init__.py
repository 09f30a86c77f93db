"""Bring your own code generator: passes that find, mark and extract parts of a program for other compilers."""

from tilewright.relay.transform.byoc.annotate_target import AnnotateTarget
from tilewright.relay.transform.byoc.compiler_functions import (
    InlineCompilerFunctionsBoundTo,
    InlineComposites,
    MarkCompilerFunctionsAsExtern,
    OutlineCompilerFunctionsWithExistingGlobalSymbols,
    external_in_place,
)
from tilewright.relay.transform.byoc.merge_composite import MergeComposite
from tilewright.relay.transform.byoc.merge_regions import MergeCompilerRegions
from tilewright.relay.transform.byoc.partition_graph import PartitionGraph

__all__ = [
    "AnnotateTarget",
    "InlineCompilerFunctionsBoundTo",
    "InlineComposites",
    "MarkCompilerFunctionsAsExtern",
    "MergeCompilerRegions",
    "MergeComposite",
    "OutlineCompilerFunctionsWithExistingGlobalSymbols",
    "PartitionGraph",
    "external_in_place",
]
