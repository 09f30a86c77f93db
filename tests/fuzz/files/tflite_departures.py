"""Where LiteRT's kernels answer what their own documents do not say: `departure` tells it of a model, or nothing; `without_unwritten`
leaves out what they do not write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

BYTES = ("INT8", "UINT8")
LSTMS = ("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM")
PRODUCTS = (
    "CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED", "BATCH_MATMUL", "SVDF", "RNN", "UNIDIRECTIONAL_SEQUENCE_RNN",
    "BIDIRECTIONAL_SEQUENCE_RNN", *LSTMS,
)  # fmt: skip


FAR = 1 << 20
"""Scales that are farther apart move sums of 32 bits beyond them."""


class Operator:
    """An operator of a model with its options and inputs."""

    def __init__(self, model: Any, graph: Any, table: Any) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self._model, self._schema = model, schema
        self.name = named(schema.BuiltinOperator, model.operatorCodes[table.opcodeIndex].builtinCode)
        self.options = table.builtinOptions
        self.inputs = [graph.tensors[i] for i in table.inputs if i >= 0]
        self.outputs = [graph.tensors[i] for i in table.outputs if i >= 0]

    def type_of(self, tensor: Any) -> str:
        return named(self._schema.TensorType, tensor.type)

    def elements(self, tensor: Any) -> np.ndarray:
        """A constant's bytes, signed."""
        data = self._model.buffers[tensor.buffer].data
        return np.zeros(0, np.int8) if data is None else np.asarray(data, np.uint8).view(np.int8)

    def weights(self) -> list[Any]:
        """Inputs of bytes beside floats."""
        if self.name not in PRODUCTS or not any([self.type_of(t) == "FLOAT32" for t in self.inputs]):
            return []
        return [t for t in self.inputs if self.type_of(t) in BYTES]


def named(numbers: Any, value: int) -> str:
    return next((n for n, v in vars(numbers).items() if v == value), "")


def scale_of(tensor: Any) -> list[float]:
    q = tensor.quantization
    return [] if q is None or q.scale is None else list(q.scale)


def least_weights(op: Operator) -> bool:
    return any([(op.elements(t) == -128).any() for t in op.weights()])


def rounds_again(op: Operator) -> bool:
    return op.name == "BIDIRECTIONAL_SEQUENCE_RNN" and bool(op.weights()) and op.options.timeMajor


def overflows(op: Operator) -> bool:
    scales = [float(s) for t in [*op.inputs, *op.outputs] if op.type_of(t) in (*BYTES, "INT16") for s in scale_of(t)]
    return len(scales) > 1 and max(scales) > FAR * min(scales)


def too_much(op: Operator) -> bool:
    """A bias of 64 bits whose scaled sum is beyond the 32 bits of it."""
    scales = [scale_of(t) for t in (*op.inputs[:2], *op.outputs)]
    if op.name not in PRODUCTS or len(op.inputs) < 3 or op.type_of(op.inputs[2]) != "INT64" or not all(scales):
        return False
    bias = op.elements(op.inputs[2]).view(np.int64).astype(np.float64)
    x, weights, y = scales
    return bool((np.abs(bias) * x[0] * np.array(weights) / y[0] >= 1 << 31).any())


def odd_rows(op: Operator) -> bool:
    return op.name == "EMBEDDING_LOOKUP" and any(
        [op.type_of(t) == "INT4" and int(np.prod(t.shape[1:])) % 2 for t in op.inputs]
    )


def inactive(op: Operator) -> bool:
    return op.name in LSTMS and (op.options is None or op.options.fusedActivationFunction == 0)


DEPARTURES: dict[str, Callable[[Operator], bool]] = {
    "LiteRT's sums of 32 bits overflow": lambda op: overflows(op) or too_much(op),
    "LiteRT's vectors of bytes do not hold a weight of -128": least_weights,
    "LiteRT runs all steps of such an RNN as many times as there are": rounds_again,
    "LiteRT reads rows of an odd number of half bytes from the middle of a byte": odd_rows,
    "LiteRT takes what memory holds for the state of an LSTM without an activation": inactive,
}


def departure(data: bytes) -> str | None:
    """Why LiteRT's answer to a model decides nothing."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(data, 0)
    operators = [Operator(model, g, o) for g in model.subgraphs for o in g.operators]
    return next((why for why, holds in DEPARTURES.items() if any([holds(o) for o in operators])), None)


def without_unwritten(data: bytes, want: list[Any]) -> list[Any]:
    """The results with zeros for boxes, classes and scores after the last detection: LiteRT leaves there what memory holds."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(data, 0)
    graph, results = model.subgraphs[0], list(want)
    for op in graph.operators:
        places = [list(graph.outputs).index(t) for t in op.outputs if t in graph.outputs]
        detects = model.operatorCodes[op.opcodeIndex].customCode == b"TFLite_Detection_PostProcess"
        if detects and len(places) == 4 and len(graph.outputs) == len(want):
            *found, count = places
            for k in found:
                results[k] = np.array(results[k])
                results[k][:, int(results[count][0]) :] = 0
    return results
