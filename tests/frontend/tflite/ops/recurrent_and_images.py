"""Samples of resampling, detection, recurrent layers, StableHLO, spectra and frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.frontend.tflite.ops.samples import SAMPLES, F, Made, i32, rng, sample, scale_of, values
from tests.frontend.tflite.ops.writer import Graph, Writer


def resizing() -> None:
    """Resampling."""
    for align, half in ((False, False), (True, False), (False, True)):
        options = {"align_corners": align, "half_pixel_centers": half}
        for h, w in ((7, 9), (3, 8), (2, 2)):
            label = f"{align}{half}{h}"
            for op, kind in (
                ("RESIZE_BILINEAR", "ResizeBilinearOptions"),
                ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions"),
            ):
                sample(f"{op}-{label}", op, [(F, (2, 4, 4, 3)), i32(h, w)], [(F,)], options, kind)
                for t in ("int8", "int16", "uint8"):
                    q = scale_of(t)
                    if (op, t) != ("RESIZE_BILINEAR", "uint8"):
                        sample(f"{t}-{op}-{label}", op, [(t, (2, 4, 4, 3), q), i32(h, w)], [(t, (), q)], options, kind)


def boxes(r: np.random.Generator, n: int) -> np.ndarray:
    corner = r.uniform(0, 0.7, (n, 2))
    return np.concatenate([corner, corner + r.uniform(0.1, 0.3, (n, 2))], 1).astype(F)


def detection() -> None:
    """Boxes."""
    r = rng("boxes")
    b, s = boxes(r, 20), r.permuted(np.linspace(0.02, 0.98, 20)).astype(F)
    limits = [np.array(6, np.int32), np.array(0.3, F), np.array(0.2, F)]
    sample(
        "NON_MAX_SUPPRESSION_V4",
        "NON_MAX_SUPPRESSION_V4",
        [(F, (20, 4)), s, *limits],
        [("int32",), ("int32",)],
        {},
        "NonMaxSuppressionV4Options",
    )
    fixed = [b, s, *limits, np.array(0.0, F)]
    sample(
        "NON_MAX_SUPPRESSION_V5",
        "NON_MAX_SUPPRESSION_V5",
        fixed,
        [("int32",), (F,), ("int32",)],
        {},
        "NonMaxSuppressionV5Options",
    )
    from flatbuffers import flexbuffers

    for regular in (False, True):
        made = flexbuffers.Builder()
        with made.Map():
            for key, value in {
                "max_detections": 7,
                "max_classes_per_detection": 1,
                "detections_per_class": 4,
                "num_classes": 3,
            }.items():
                made.Key(key)
                made.Int(value)
            made.Key("use_regular_nms")
            made.Bool(regular)
            scales = {
                "nms_score_threshold": 0.2,
                "nms_iou_threshold": 0.4,
                "y_scale": 10.0,
                "x_scale": 10.0,
                "h_scale": 5.0,
                "w_scale": 5.0,
            }
            for key, value in scales.items():
                made.Key(key)
                made.Float(value)
        anchors = np.concatenate([r.uniform(0.2, 0.8, (12, 2)), r.uniform(0.1, 0.4, (12, 2))], 1).astype(F)
        inputs = [(F, (1, 12, 4), None, -1.0, 1.0), (F, (1, 12, 4), None, 0.0, 1.0), anchors]
        results = [(F, (1, 7, 4)), (F, (1, 7)), (F, (1, 7)), (F, (1,))]
        sample(f"PostProcess-{regular}", "TFLite_Detection_PostProcess", inputs, results, custom=bytes(made.Finish()))


def recurrent() -> None:
    """LSTM and its relatives."""
    r = rng("recurrent")

    def w(*shape: int) -> np.ndarray:
        return values(r, F, shape, -0.6, 0.6)

    def zeros(*shape: int) -> Any:
        return ("state", shape)

    n, u, p = 5, 4, 3
    plain = [
        *[w(u, n) for _ in range(4)],
        *[w(u, u) for _ in range(4)],
        None,
        None,
        None,
        *[w(u) for _ in range(4)],
        None,
        None,
    ]
    coupled = [None, *plain[1:4], None, *plain[5:11], None, *plain[12:]]
    rich = [
        *[w(u, n) for _ in range(4)], *[w(u, p) for _ in range(4)], w(u), w(u), w(u), *[w(u) for _ in range(4)], w(p, u), w(p),
        zeros(2, p), zeros(2, u), *[w(u) for _ in range(4)],
    ]  # fmt: skip
    forms = {"plain": [*plain, zeros(2, u), zeros(2, u)], "coupled": [*coupled, zeros(2, u), zeros(2, u)], "rich": rich}
    for name, rest in forms.items():
        for major in (False, True):
            options = {"fused_activation_function": 4, "cell_clip": 1.5 if name == "rich" else 0.0, "time_major": major}
            stateful(
                f"SEQUENCE_LSTM-{name}{major}",
                "UNIDIRECTIONAL_SEQUENCE_LSTM",
                [(F, (6, 2, n) if major else (2, 6, n)), *rest],
                [(F,)],
                options,
                "UnidirectionalSequenceLSTMOptions",
            )
        stateful(f"LSTM-{name}", "LSTM", [(F, (2, n)), *rest], [(F,)], {"fused_activation_function": 4}, "LSTMOptions")
    basic = [(F, (2, n)), (F, (2, u), None, -0.5, 0.5), w(4 * u, n + u), w(4 * u), (F, (2, u), None, -0.5, 0.5)]
    stateful(
        "LSTM-basic",
        "LSTM",
        basic,
        [(F,), (F,), (F,), (F,)],
        {"kernel_type": 1, "fused_activation_function": 4},
        "LSTMOptions",
    )
    both = [
        *plain,
        *[v if v is None else w(*v.shape) for v in plain],
        zeros(2, u),
        zeros(2, u),
        zeros(2, u),
        zeros(2, u),
        *[None] * 9,
    ]
    for merge in (False, True):
        options = {"fused_activation_function": 4, "time_major": False, "merge_outputs": merge}
        stateful(
            f"BIDIRECTIONAL_LSTM-{merge}",
            "BIDIRECTIONAL_SEQUENCE_LSTM",
            [(F, (2, 6, n)), *both],
            [(F,)] if merge else [(F,), (F,)],
            options,
            "BidirectionalSequenceLSTMOptions",
        )
    one = [w(u, n), w(u, u), w(u), zeros(2, u)]
    stateful("RNN", "RNN", [(F, (2, n)), *one], [(F,)], {"fused_activation_function": 4}, "RNNOptions")
    stateful(
        "SEQUENCE_RNN",
        "UNIDIRECTIONAL_SEQUENCE_RNN",
        [(F, (2, 6, n)), *one],
        [(F,)],
        {"fused_activation_function": 1},
        "SequenceRNNOptions",
    )
    other = [w(u, n), w(u, u), w(u), zeros(2, u)]
    stateful(
        "BIDIRECTIONAL_RNN",
        "BIDIRECTIONAL_SEQUENCE_RNN",
        [(F, (2, 6, n)), *one, *other, None, None, None],
        [(F,), (F,)],
        {"fused_activation_function": 4},
        "BidirectionalSequenceRNNOptions",
    )
    stateful(
        "SVDF",
        "SVDF",
        [(F, (2, n)), w(8, n), w(8, 7), w(4), zeros(2, 56)],
        [(F,)],
        {"rank": 2, "fused_activation_function": 1},
        "SVDFOptions",
    )


def stateful(label: str, op: str, inputs: list[Any], results: list[Any], options: dict[str, Any], kind: str) -> None:
    """A sample with variable tensors: ("state", shape)."""

    def make(version: int) -> Made:
        made, r = Writer(version), rng(label)
        numbers, given = [], []
        for i in inputs:
            if i is None:
                numbers.append(-1)
            elif isinstance(i, np.ndarray):
                numbers.append(made.main.constant(i))
            elif isinstance(i[0], np.ndarray):
                numbers.append(made.main.constant(*i))
            elif i[0] == "state":
                numbers.append(made.main.tensor(f"state{len(numbers)}", F, i[1], isVariable=True))
            else:
                numbers.append(made.main.input(i[0], i[1]))
                given.append(values(r, i[0], i[1], *(i[3:] or (-1.0, 1.0))))
        return made.finish(made.main.op(op, numbers, [(t[0], ()) for t in results], options, kind)), given

    (MERGED if options.get("merge_outputs") else SAMPLES)[label] = make
    if not label.startswith("hybrid") and not options.get("kernel_type"):
        for asymmetric in (False, True):
            weights = [in_bytes(i, asymmetric) if k in WEIGHTS[op] else i for k, i in enumerate(inputs)]
            more = {**options, "asymmetric_quantize_inputs": asymmetric}
            stateful(f"hybrid-{label}-{asymmetric}", op, weights, results, more, kind)


LSTM = range(1, 12)
WEIGHTS: dict[str, set[int]] = {
    "LSTM": {*LSTM, 16},
    "UNIDIRECTIONAL_SEQUENCE_LSTM": {*LSTM, 16},
    "BIDIRECTIONAL_SEQUENCE_LSTM": {*LSTM, 16, *[17 + k for k in LSTM], 33},
    "RNN": {1, 2},
    "UNIDIRECTIONAL_SEQUENCE_RNN": {1, 2},
    "BIDIRECTIONAL_SEQUENCE_RNN": {1, 2, 5, 6},
    "SVDF": {1, 2},
}
"""Inputs that may be bytes beside floats."""


def in_bytes(w: np.ndarray | None, unsigned: bool) -> Any:
    """Weights in bytes, with a zero point that the kernels pass over; as old converters wrote them, or signed."""
    if w is None:
        return None
    scale = np.abs(w).max() / 127
    whole = np.round(w / scale).astype(np.int8)
    return (whole.view(np.uint8), (scale, 130)) if unsigned else (whole, (scale, 2))


MERGED: dict[str, Callable[[int], Made]] = {}
"""Two directions joined in one result: LiteRT's answer to these differs from run to run, so they are no samples."""


def body(w: Writer, op: str) -> int:
    """A subgraph of one operator on two numbers; its number."""
    g: Graph = w.graph(op)
    a, b = g.input(F, ()), g.input(F, ())
    g.table.outputs = g.op(f"STABLEHLO_{op}", [a, b], [(F, ())])
    return len(w.graphs) - 1


def stablehlo() -> None:
    """StableHLO's operators that LiteRT runs."""
    x, y = (F, (3, 4), None, 0.2, 3.0), (F, (3, 4), None, 0.2, 2.0)
    for op in ("ADD", "MULTIPLY", "MAXIMUM", "MINIMUM"):
        sample(f"STABLEHLO_{op}", f"STABLEHLO_{op}", [x, y], [(F, (3, 4))])
    ints = ("int32", (5,), None, 0, 4)
    sample("STABLEHLO_SHIFT_LEFT", "STABLEHLO_SHIFT_LEFT", [ints, ints], [("int32", (5,))])
    pad = {"edge_padding_low": [1, -1], "edge_padding_high": [0, 2], "interior_padding": [1, 0]}
    sample("STABLEHLO_PAD", "STABLEHLO_PAD", [x, np.array(0.5, F)], [(F, (6, 5))], pad, "StablehloPadOptions")
    gather = {
        "offset_dims": [1],
        "collapsed_slice_dims": [0],
        "start_index_map": [0],
        "index_vector_dim": 1,
        "slice_sizes": [1, 4],
    }
    sample("STABLEHLO_GATHER", "STABLEHLO_GATHER", [x, i32([2], [0])], [(F, (2, 4))], gather, "StablehloGatherOptions")
    SAMPLES["STABLEHLO_REDUCE_WINDOW"] = reduce_window
    SAMPLES["STABLEHLO_SCATTER"] = scatter


def reduce_window(version: int) -> Made:
    w = Writer(version)
    inner = body(w, "ADD")
    x = w.main.input(F, (4, 6))
    start = w.main.constant(np.array(0, F))
    options = {
        "window_dimensions": [2, 3], "window_strides": [2, 1], "base_dilations": [1, 2], "window_dilations": [1, 1],
        "padding": [0, 0, 1, 1], "body_subgraph_index": inner,
    }  # fmt: skip
    made = w.main.op("STABLEHLO_REDUCE_WINDOW", [x, start], [(F, (2, 11))], options, "StablehloReduceWindowOptions")
    return w.finish(made), [values(rng("window"), F, (4, 6))]


def scatter(version: int) -> Made:
    w = Writer(version)
    inner = body(w, "ADD")
    x, u = w.main.input(F, (5, 3)), w.main.input(F, (2, 3))
    places = w.main.constant(i32([1], [3]))
    options = {
        "update_window_dims": [1], "inserted_window_dims": [0], "scatter_dims_to_operand_dims": [0], "index_vector_dim": 1,
        "update_computation_subgraph_index": inner,
    }  # fmt: skip
    made = w.main.op("STABLEHLO_SCATTER", [x, places, u], [(F, (5, 3))], options, "StablehloScatterOptions")
    r = rng("scatter")
    return w.finish(made), [values(r, F, (5, 3)), values(r, F, (2, 3))]


def rest() -> None:
    """Windows, tables, Fourier transforms."""
    sample("DILATE", "DILATE", [(F, (3, 4)), i32(2, 3), np.array(0.5, F)], [(F,)], {}, "DilateOptions")
    for name, number in (("ADD", 1), ("MUL", 2), ("MINIMUM", 3), ("MAXIMUM", 4)):
        start = np.array({"ADD": 0, "MUL": 1, "MINIMUM": 9, "MAXIMUM": -9}[name], F)
        window = [np.array(v, np.int64) for v in ([2, 2], [1, 2], [1, 2])]
        sample(
            f"REDUCE_WINDOW-{name}",
            "REDUCE_WINDOW",
            [(F, (5, 7)), start, *window],
            [(F,)],
            {"reduce_function": number},
            "ReduceWindowOptions",
        )
    keys, table = i32(1, 3, 4, 8), values(rng("t"), F, (4, 2))
    sample("HASHTABLE_LOOKUP", "HASHTABLE_LOOKUP", [i32(3, 5, 8), keys, table], [(F,), ("uint8",)])
    for h, w in ((4, 8), (8, 4)):
        SAMPLES[f"RFFT2D-{h}"] = lambda version, h=h, w=w: fourier(version, h, w)  # type: ignore[misc]
    SAMPLES["RFFT2D-frames"] = frames
    for padding, down in ((1, 2), (2, 3)):
        sample(
            f"TransposeBias-{padding}",
            "Convolution2DTransposeBias",
            [(F, (2, 3, 4, 5)), values(rng("spread"), F, (6, 3, 2, 5)), values(rng("bias"), F, (6,))],
            [(F, (2, 6, 8, 6) if padding == 1 else (2, 9, 8, 6))],
            custom=np.array([padding, 2, down], "<i4").tobytes(),
        )


def fourier(version: int, h: int, width: int) -> Made:
    w = Writer(version)
    x = w.main.input(F, (2, 4, 6))
    (c,) = w.main.op("RFFT2D", [x, w.main.constant(i32(h, width))], [("complex64", ())], {}, "Rfft2dOptions")
    out = [
        *w.main.op("COMPLEX_ABS", [c], [(F, ())]),
        *w.main.op("REAL", [c], [(F, ())]),
        *w.main.op("IMAG", [c], [(F, ())]),
    ]
    return w.finish(out), [values(rng("fourier"), F, (2, 4, 6))]


def frames(version: int) -> Made:
    """The spectra of frames as TensorFlow's short-time transform asks for them, squeezed and turned into numbers while they are complex."""
    w = Writer(version)
    x = w.main.input(F, (3, 1, 500))
    (c,) = w.main.op("RFFT2D", [x, w.main.constant(i32(1, 512))], [("complex64", (3, 1, 257))], {}, "Rfft2dOptions")
    (flat,) = w.main.op("SQUEEZE", [c], [("complex64", (3, 257))], {"squeeze_dims": [1]}, "SqueezeOptions")
    out = [
        *w.main.op("CAST", [flat], [(F, (3, 257))], {}, "CastOptions"),
        *w.main.op("IMAG", [flat], [(F, (3, 257))]),
    ]
    return w.finish(out), [values(rng("frames"), F, (3, 1, 500)) * np.float32(0.01)]


resizing()
detection()
recurrent()
stablehlo()
rest()
