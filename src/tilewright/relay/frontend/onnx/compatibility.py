"""Compatibility notes of ONNX: old versions of operators, habits of exporters."""

from __future__ import annotations

from typing import Any

from tilewright.relay.frontend.common.compatibility import CompatibilityNote
from tilewright.relay.frontend.onnx.functions import schema_of

VERSIONS = CompatibilityNote(
    "ONNX", "versions", "an operator of an older version keeps the rules and defaults of that version"
)
ATTRIBUTES = CompatibilityNote(
    "ONNX", "attributes", "axes, pads, bounds or sizes, which are inputs in later opsets, are read from attributes"
)
OLD_BROADCAST = CompatibilityNote(
    "ONNX",
    "old broadcast",
    "until opset 6 operands broadcast from an axis on; the second operand gets axes of extent 1",
)
FLAT_SOFTMAX = CompatibilityNote(
    "ONNX", "flat softmax", "before opset 13 softmax runs over all axes from its axis on, flattened"
)
OLD_NORM = CompatibilityNote(
    "ONNX",
    "old batch norm",
    "until opset 13 further outputs (until opset 6 is_test) state whether it trains; it is imported for inference",
)
GROUP_SCALES = CompatibilityNote(
    "ONNX", "group scales", "until opset 20 GroupNormalization has one scale per group; it is repeated for the channels"
)
OLD_DROPOUT = CompatibilityNote("ONNX", "dropout", "Dropout does nothing in inference; its mask is all ones")
AUTO_PAD = CompatibilityNote(
    "ONNX", "auto_pad", "padding given as SAME_UPPER, SAME_LOWER, VALID or an output shape becomes numbers"
)
CEIL_MODE = CompatibilityNote(
    "ONNX", "ceil_mode", "sizes are rounded up, but no window begins in the padding after the data"
)
RESAMPLING = CompatibilityNote("ONNX", "resampling", "coordinates and rounding follow the exporter's rule")
WEIGHTS_AS_INPUTS = CompatibilityNote(
    "ONNX", "weights as inputs", "weights that are also listed as inputs, as until IR version 3, are constants"
)
NEGATIVE_EXTENTS = CompatibilityNote(
    "ONNX", "negative extents", "a negative declared extent, as some exporters write it, is a dynamic dimension"
)
DECLARED_SHAPES = CompatibilityNote(
    "ONNX",
    "declared shapes",
    "a declared shape that contradicts its node is ignored, as in ONNX Runtime",
)
OUT_OF_ORDER = CompatibilityNote(
    "ONNX", "out of order", "nodes that come before the nodes they read are moved after them"
)
SHAPE_NODES = CompatibilityNote(
    "ONNX", "computed sizes", "sizes computed by nodes (Shape and its followers) are computed at import"
)
EXTERNAL_DATA = CompatibilityNote(
    "ONNX",
    "external data",
    "weights in files beside the model are mapped, not copied; paths outside its folder are refused",
)
SPARSE_WEIGHTS = CompatibilityNote("ONNX", "sparse weights", "sparse weights are made dense")
CARRIERS = CompatibilityNote(
    "ONNX",
    "carriers",
    "elements of types without kernels (strings, small floats and integers) are stored in another type",
)
MODEL_FUNCTIONS = CompatibilityNote(
    "ONNX", "model functions", "functions of the model, as torch.onnx writes them, are inlined"
)
ONNX_FUNCTIONS = CompatibilityNote(
    "ONNX", "defined by others", "an operator is replaced by ONNX's own definition in terms of others"
)
RUNTIME_OPERATORS = CompatibilityNote("ONNX", "com.microsoft", "operators of ONNX Runtime, as its tools write them")
KNOWN_COURSE = CompatibilityNote(
    "ONNX", "known course", "a branch with a known condition is inlined, a loop of few iterations unrolled"
)
QUANTISED = CompatibilityNote(
    "ONNX", "quantised", "operators between DequantizeLinear and QuantizeLinear run on integers"
)


def note_version(op_type: str, opset: int, domain: str, attributes: dict[str, Any], title: str) -> None:
    """Records the compatibility notes for a node of an old form."""
    from onnx import defs

    used = schema_of(op_type, opset, domain)
    try:
        newest = defs.get_schema(op_type, domain)
    except defs.SchemaError:
        return
    if domain == "com.microsoft":
        RUNTIME_OPERATORS.seen(title)
    if used is None or used.since_version == newest.since_version:
        return
    VERSIONS.seen(f"{op_type}-{used.since_version} (today {newest.since_version})")
    taken = {i.name for i in newest.inputs}
    if any([a in taken and a not in newest.attributes for a in attributes]):
        ATTRIBUTES.seen(title)
