"""A second answer for models whose own runtime rounds in the midst: the same model with fewer roundings, to judge both answers by.

Where floats are rounded to bytes inside a model (dynamic quantisation), or a long chain of layers multiplies differences of the last bit,
two right answers may be percents apart. ONNX models are run by ONNX's reference evaluator, in NumPy, with all floats as float64; TFLite
models by LiteRT's reference kernels, which keep sums of bytes whole where its default ones (XNNPACK) do not.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Run = Callable[[dict[str, Array]], list[Array]]


def exact_run(path: Path) -> Run | None:
    """A function from inputs to outputs; None where there is no such run for files of this format."""
    made: dict[str, Callable[[Path], Run]] = {".onnx": in_float64, ".tflite": reference_kernels}
    maker = made.get(path.suffix)
    return None if maker is None else maker(path)


def reference_kernels(path: Path) -> Run:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    def run(inputs: dict[str, Array]) -> list[Array]:
        interpreter: Any = Interpreter(str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
        places = {d["name"]: d["index"] for d in interpreter.get_input_details()}
        for name, place in places.items():
            interpreter.resize_tensor_input(place, inputs[name].shape)
        interpreter.allocate_tensors()
        for name, place in places.items():
            interpreter.set_tensor(place, inputs[name])
        interpreter.invoke()
        return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]

    return run


def in_float64(path: Path) -> Run:
    import onnx
    from onnx.reference import ReferenceEvaluator

    model = onnx.load(str(path))
    widened(model.graph)
    session = ReferenceEvaluator(model, new_ops=[byte_lstm(), dequantize(), normalize()])

    def run(inputs: dict[str, Array]) -> list[Array]:
        given = {n: x.astype(np.float64) if x.dtype == np.float32 else x for n, x in inputs.items()}
        found = [np.asarray(y) for y in session.run(None, given)]
        return [y.astype(np.float32) if y.dtype == np.float64 else y for y in found]

    return run


def widened(graph: Any) -> None:
    """Turns all that is float32 in a graph, in place, into float64."""
    from onnx import TensorProto, helper, numpy_helper

    single, double = TensorProto.FLOAT, TensorProto.DOUBLE

    def wide(t: Any) -> None:
        if t.data_type == single:
            t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t).astype(np.float64), t.name))

    for t in graph.initializer:
        wide(t)
    del graph.value_info[:]
    for info in (*graph.input, *graph.output):
        if info.type.tensor_type.elem_type == single:
            info.type.tensor_type.elem_type = double
    for node in graph.node:
        for a in list(node.attribute):
            if a.HasField("t"):
                wide(a.t)
            if a.HasField("g"):
                widened(a.g)
            if node.op_type == "Cast" and a.name == "to" and a.i == single:
                a.i = double
            if node.op_type == "Constant" and a.name in ("value_float", "value_floats"):
                value = np.array(helper.get_attribute_value(a), np.float64)
                node.attribute.remove(a)
                node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(value)))
        if node.op_type == "ConstantOfShape" and not node.attribute:
            node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(np.zeros(1, np.float64))))


def byte_lstm() -> type:
    """ONNX Runtime's LSTM whose weights are bytes, for the reference evaluator: what the weights multiply is rounded to bytes as it comes,
    the inputs of all steps together, the state of each step by itself."""
    from onnx.reference.op_run import OpRun

    class DynamicQuantizeLSTM(OpRun):  # type: ignore[misc]
        op_domain = "com.microsoft"

        def _run(self, *inputs: Any, **attributes: Any) -> tuple[Array, ...]:
            x, w, r, bias, lengths, h0, c0, peepholes, *scales = inputs
            if lengths is not None and lengths.size or peepholes is not None and peepholes.size:
                raise NotImplementedError("lengths of sequences, and peepholes")
            steps, batch = x.shape[:2]
            hidden = r.shape[1]
            direction = attributes.get("direction") or "forward"
            backward = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
            found, last_h, last_c = [], [], []
            for d, back in enumerate(backward):
                own = [np.asarray(s)[d] for s in scales]
                ahead = rounded_product(x.reshape(steps * batch, -1), w[d], own[0], own[1]).reshape(steps, batch, -1)
                if bias is not None:
                    ahead = ahead + bias[d, : 4 * hidden] + bias[d, 4 * hidden :]
                h = np.zeros((batch, hidden)) if h0 is None else h0[d]
                c = np.zeros((batch, hidden)) if c0 is None else c0[d]
                rows: list[Array] = [h] * steps
                for t in range(steps)[:: -1 if back else 1]:
                    of_rows = [rounded_product(h[b : b + 1], r[d], own[2], own[3]) for b in range(batch)]
                    i, o, f, g = np.split(ahead[t] + np.concatenate(of_rows), 4, axis=1)
                    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                    h = sigmoid(o) * np.tanh(c)
                    rows[t] = h
                found.append(np.stack(rows))
                last_h.append(h)
                last_c.append(c)
            return np.stack(found, 1), np.stack(last_h), np.stack(last_c)

    return DynamicQuantizeLSTM


def dequantize() -> type:
    """DequantizeLinear, of which ONNX's evaluator has the newest opsets only."""
    from onnx.reference.op_run import OpRun

    class DequantizeLinear(OpRun):  # type: ignore[misc]
        def _run(
            self, x: Array, scale: Array, zero: Array | None = None, axis: int | None = None, **_: Any
        ) -> tuple[Array]:
            scale, zero = [np.zeros(1) if v is None else np.asarray(v).astype(np.float64) for v in (scale, zero)]
            if scale.size > 1:
                axis = 1 if axis is None else axis
                around = tuple([k for k in range(x.ndim) if k != axis % x.ndim])
                scale, zero = [np.expand_dims(np.broadcast_to(v, scale.shape), around) for v in (scale, zero)]
            return ((x.astype(np.float64) - zero) * scale,)

    return DequantizeLinear


def normalize() -> type:
    """BatchNormalization as it is when a model runs; up to opset 13 ONNX's evaluator takes a momentum as a wish to train."""
    from onnx.reference.op_run import OpRun

    class BatchNormalization(OpRun):  # type: ignore[misc]
        def _run(self, x: Array, *numbers: Array, epsilon: float = 1e-5, **_: Any) -> tuple[Array]:
            scale, bias, mean, variance = [v.reshape(-1, *[1] * (x.ndim - 2)) for v in numbers]
            return ((x - mean) / np.sqrt(variance + epsilon) * scale + bias,)

    return BatchNormalization


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def rounded_product(x: Array, weights: Array, scale: Array, zero: Array) -> Array:
    """x, rounded to 256 steps between its least and greatest number, times a matrix of bytes."""
    low, high = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
    step = (high - low) / 255 if high > low else 1.0
    origin = np.rint(np.clip(-low / step, 0, 255))
    whole = np.clip(np.rint(x / step) + origin, 0, 255) - origin
    return np.asarray(whole @ (weights.astype(np.float64) - zero)) * step * np.asarray(scale, np.float64)
