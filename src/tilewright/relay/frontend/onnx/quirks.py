"""What is handled of ONNX's versions and of exporters' ways: see `common.quirks`."""

from __future__ import annotations

from typing import Any

from tilewright.relay.frontend.common.quirks import Quirk
from tilewright.relay.frontend.onnx.functions import schema_of

VERSIONS = Quirk(
    "ONNX", "versions", "an operator is of an older version than today's, and keeps that version's rules and defaults"
)
ATTRIBUTES = Quirk(
    "ONNX", "attributes", "what later opsets take as inputs (axes, pads, bounds, sizes) is read from attributes"
)
OLD_BROADCAST = Quirk(
    "ONNX", "old broadcast", "until opset 6 operands broadcast from an axis on: the second gets axes of extent 1"
)
FLAT_SOFTMAX = Quirk("ONNX", "flat softmax", "before opset 13 softmax runs over all axes from its axis on, flattened")
OLD_NORM = Quirk(
    "ONNX",
    "old batch norm",
    "until opset 13 only its further outputs (until opset 6 is_test) say whether it trains: it does not here",
)
GROUP_SCALES = Quirk("ONNX", "group scales", "until opset 20 GroupNormalization has one scale for each group: repeated")
OLD_DROPOUT = Quirk("ONNX", "dropout", "nothing is dropped when a model only infers; a mask that is read is all ones")
AUTO_PAD = Quirk(
    "ONNX", "auto_pad", "padding that is said as SAME_UPPER, SAME_LOWER, VALID or an output shape becomes numbers"
)
CEIL_MODE = Quirk("ONNX", "ceil_mode", "sizes are rounded up, but no window begins in the padding behind the data")
RESAMPLING = Quirk("ONNX", "resampling", "coordinates and rounding follow the exporter's rule")
WEIGHTS_AS_INPUTS = Quirk(
    "ONNX", "weights as inputs", "weights that are listed as inputs too, as until IR version 3, are constants"
)
NEGATIVE_EXTENTS = Quirk(
    "ONNX", "negative extents", "a declared extent below zero, which exporters write for dynamic ones, is dynamic"
)
DECLARED_SHAPES = Quirk(
    "ONNX",
    "declared shapes",
    "a shape that the model declares and its node does not make counts for nothing, as in ONNX Runtime",
)
OUT_OF_ORDER = Quirk("ONNX", "out of order", "nodes that stand before what they read are put behind it")
SHAPE_NODES = Quirk(
    "ONNX", "computed sizes", "sizes that exporters compute by nodes (Shape and what follows) are computed at import"
)
EXTERNAL_DATA = Quirk(
    "ONNX", "external data", "weights in files beside the model are mapped, not copied; no path leaves its folder"
)
SPARSE_WEIGHTS = Quirk("ONNX", "sparse weights", "sparse weights are made dense")
CARRIERS = Quirk(
    "ONNX",
    "carriers",
    "elements of a type that kernels do not know (texts, small floats and integers) are carried by another",
)
MODEL_FUNCTIONS = Quirk(
    "ONNX", "model functions", "functions that the model brings along, as torch.onnx writes them, are inlined"
)
ONNX_FUNCTIONS = Quirk("ONNX", "defined by others", "an operator is taken apart as ONNX itself defines it by others")
RUNTIME_OPERATORS = Quirk("ONNX", "com.microsoft", "operators of ONNX Runtime's own, as its tools write them")
KNOWN_COURSE = Quirk("ONNX", "known course", "a branch that is known, and loops of few rounds, are written out")
QUANTISED = Quirk("ONNX", "quantised", "what is float32 between DequantizeLinear and QuantizeLinear runs on integers")


def note_version(op_type: str, opset: int, domain: str, attributes: dict[str, Any], title: str) -> None:
    """Note what is old of a node."""
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
