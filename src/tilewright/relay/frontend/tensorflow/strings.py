"""Tensors of strings in a graph: the operators that move them, and those that compare or count their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.relay.frontend.common.value import StringTensor, Value, evaluate
from tilewright.relay.frontend.tensorflow.value import Converter, NodeCall, converters, takes_texts
from tilewright.support.errors import OpNotImplemented

MOVING = {
    "Identity", "IdentityN", "Snapshot", "StopGradient", "PreventGradient", "EnsureShape", "PlaceholderWithDefault", "RefIdentity",
    "Reshape", "Squeeze", "ExpandDims", "Transpose", "ConcatV2", "Concat", "Pack", "Unpack", "Split", "SplitV", "Slice",
    "StridedSlice", "GatherV2", "Gather", "GatherNd", "Tile", "Fill", "BroadcastTo", "Select", "SelectV2", "ReverseV2", "Reverse",
    "ReverseSequence", "Roll", "Pad", "PadV2", "MirrorPad", "ZerosLike", "OneHot", "ScatterNd", "TensorScatterUpdate",
    "DynamicStitch", "ParallelDynamicStitch", "DynamicPartition", "ListDiff", "Unique", "UniqueV2", "UniqueWithCounts",
    "UniqueWithCountsV2", "RandomShuffle", "SparseToDense", "SparseReorder", "SparseFillEmptyRows", "RaggedTensorToTensor",
    "RaggedTensorToSparse", "RaggedGather", "DeepCopy", "GuaranteeConst", "MatrixDiag", "TupleIdentity", "_Retval",
}  # fmt: skip
"""Operators with results that have the strings of their inputs."""
PLACES = {
    "ListDiff": (0,), "Unique": (0,), "UniqueV2": (0,), "UniqueWithCounts": (0,), "UniqueWithCountsV2": (0,), "SparseReorder": (1,),
    "SparseFillEmptyRows": (1,), "RaggedTensorToSparse": (1,), "RaggedGather": (-1,),
}  # fmt: skip
"""Indices of the results that are strings, for operators with other results, too."""
COUNTING = {
    "Equal", "NotEqual", "Where", "Shape", "ShapeN", "Size", "Rank", "LookupTableFind", "LookupTableFindV2", "Assert", "Print",
    "PrintV2", "NoOp",
}  # fmt: skip
"""Operators that can use the numbers of strings: equal strings have equal numbers, and the empty string has 0."""


def string_results(c: NodeCall, converter: Converter, inputs: Sequence[Any]) -> Any:
    """The results of an operator with inputs of strings."""
    if c.op in takes_texts:
        return converter(c, *inputs)
    if c.op in ("Add", "AddV2"):
        return converters["StringJoin"](c, *inputs)
    if c.op not in MOVING and c.op not in COUNTING:
        raise OpNotImplemented("its input is a tensor of strings, but it takes numbers")
    made = converter(c, *[v.numbers if isinstance(v, StringTensor) else v for v in inputs])
    if c.op in COUNTING:
        return made
    flat = list(made) if isinstance(made, (list, tuple)) else [made]
    places = [k % len(flat) for k in PLACES.get(c.op, range(len(flat)))] if flat else []
    return [as_string(v) if k in places else v for k, v in enumerate(flat)]


def as_string(x: Any) -> Any:
    """Numbers as a tensor of strings."""
    return StringTensor(x._expr, x.array, x.name) if isinstance(x, Value) and not isinstance(x, StringTensor) else x


def same_kind(like: Any, x: Value) -> Value:
    """x as a tensor of strings if `like` is one."""
    return as_string(x) if isinstance(like, StringTensor) else x


def evaluated(x: Any) -> Any:
    """A value computed at import; strings stay strings."""
    return same_kind(x, evaluate(x)) if isinstance(x, Value) else x
