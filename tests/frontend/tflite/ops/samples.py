"""Samples of operators: each a function that writes a model, and the inputs to give it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.frontend.tflite.ops.writer import Quant, Writer

Made = tuple[bytes, list[np.ndarray]]
SAMPLES: dict[str, Callable[[int], Made]] = {}
"""By name; each takes the version of the operator."""
WHOLE = ("int8", "uint8", "int16")


def rng(name: str) -> np.random.Generator:
    return np.random.default_rng(sum([ord(c) * (i + 1) for i, c in enumerate(name)]))


def values(
    r: np.random.Generator, dtype: str, shape: Sequence[int], low: float = -3.0, high: float = 3.0
) -> np.ndarray:
    """Numbers of a type: floats in a range, integers over all of theirs (int32 and wider: in the range)."""
    if dtype.startswith("float"):
        return r.uniform(low, high, shape).astype(dtype)
    if dtype == "bool":
        return r.integers(0, 2, shape).astype(bool)
    if dtype in WHOLE:
        info = np.iinfo(dtype)
        return r.integers(info.min, info.max + 1, shape).astype(dtype)
    return r.integers(int(low), int(high) + 1, shape).astype(dtype)


def scale_of(dtype: str, low: float = -3.0, high: float = 3.0) -> Quant:
    """The scale and zero point of numbers in a range."""
    if dtype == "int16":
        return np.float32(max(abs(low), abs(high)) / 32767), 0
    info = np.iinfo(dtype)
    scale = np.float32((high - low) / (info.max - info.min))
    return scale, int(np.clip(round(info.min - low / scale), info.min, info.max))


def sample(
    label: str,
    op: str,
    inputs: Sequence[Any],
    results: Sequence[tuple[Any, ...]],
    options: Mapping[str, Any] | None = None,
    kind: str = "",
    **more: Any,
) -> None:
    """A model of one operator. inputs: (dtype, shape[, quant[, low, high]]) of an input, an array or (array, quant) of a constant,
    None for one left out. results: (dtype[, shape[, quant]])."""

    def make(version: int) -> Made:
        w, r = Writer(version), rng(label)
        numbers, given = [], []
        for i in inputs:
            if i is None:
                numbers.append(-1)
            elif isinstance(i, np.ndarray):
                numbers.append(w.main.constant(i))
            elif isinstance(i, tuple) and isinstance(i[0], np.ndarray):
                numbers.append(w.main.constant(*i))
            else:
                dtype, shape, *rest = i
                quant = rest[0] if rest else None
                numbers.append(w.main.input(dtype, shape, quant))
                given.append(values(r, dtype, shape, *rest[1:]))
        made = w.main.op(op, numbers, [r if len(r) > 1 else (r[0], ()) for r in results], options, kind, **more)
        return w.finish(made), given

    assert label not in SAMPLES, label
    SAMPLES[label] = make


def i32(*v: Any) -> np.ndarray:
    return np.array(v, np.int32)


F = "float32"


def floats() -> None:
    """Operators on floats, and on plain integers."""
    x, y, row = (F, (2, 3, 4)), (F, (2, 3, 4)), (F, (4,))
    for op, kind in (("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions"), ("DIV", "DivOptions")):
        for act in (0, 1, 2, 3):
            sample(f"{op}-{act}", op, [x, y if act < 2 else row], [(F,)], {"fused_activation_function": act}, kind)
        sample(f"{op}-int32", op, [("int32", (3, 4), None, -9, 9), ("int32", (4,), None, 1, 5)], [("int32",)], {}, kind)
    for op in ("MAXIMUM", "MINIMUM"):
        sample(op, op, [x, row], [(F,)], {}, "MaximumMinimumOptions")
        sample(f"{op}-int32", op, [("int32", (5,)), ("int32", (5,))], [("int32",)], {}, "MaximumMinimumOptions")
    for op, kind in (("FLOOR_DIV", "FloorDivOptions"), ("FLOOR_MOD", "FloorModOptions")):
        sample(op, op, [x, (F, (4,), None, 1.0, 2.0)], [(F,)], {}, kind)
        sample(f"{op}-int32", op, [("int32", (40,), None, -9, 9), ("int32", (40,), None, 1, 5)], [("int32",)], {}, kind)
    sample("POW", "POW", [(F, (2, 5), None, 0.1, 3.0), (F, (5,))], [(F,)], {}, "PowOptions")
    sample("ATAN2", "ATAN2", [x, y], [(F,)], {}, "ATan2Options")
    sample("SQUARED_DIFFERENCE", "SQUARED_DIFFERENCE", [x, row], [(F,)], {}, "SquaredDifferenceOptions")
    sample("ADD_N", "ADD_N", [x, y, x], [(F,)], {}, "AddNOptions")
    for op, kind in (
        ("EQUAL", "EqualOptions"), ("NOT_EQUAL", "NotEqualOptions"), ("GREATER", "GreaterOptions"),
        ("GREATER_EQUAL", "GreaterEqualOptions"), ("LESS", "LessOptions"), ("LESS_EQUAL", "LessEqualOptions"),
    ):  # fmt: skip
        sample(op, op, [x, row], [("bool",)], {}, kind)
        sample(f"{op}-int32", op, [("int32", (4, 4)), ("int32", (4,))], [("bool",)], {}, kind)
    for op, kind in (("LOGICAL_AND", "LogicalAndOptions"), ("LOGICAL_OR", "LogicalOrOptions")):
        sample(op, op, [("bool", (3, 4)), ("bool", (3, 4))], [("bool",)], {}, kind)
    sample("LOGICAL_NOT", "LOGICAL_NOT", [("bool", (3, 4))], [("bool",)], {}, "LogicalNotOptions")
    sample("BITWISE_XOR", "BITWISE_XOR", [("int32", (9,)), ("int32", (9,))], [("int32",)], {}, "BitwiseXorOptions")
    sample(
        "RIGHT_SHIFT",
        "RIGHT_SHIFT",
        [("int32", (9,), None, -99, 99), ("int32", (9,), None, 0, 3)],
        [("int32",)],
        {},
        "RightShiftOptions",
    )
    for op in (
        "FLOOR",
        "CEIL",
        "ROUND",
        "SIN",
        "TANH",
        "LOGISTIC",
        "RELU",
        "RELU6",
        "RELU_N1_TO_1",
        "RELU_0_TO_1",
        "ELU",
    ):
        sample(op, op, [x], [(F,)])
    sample("ROUND-halves", "ROUND", [np.arange(-4, 5).astype(F) / 2], [(F,)])
    for op in ("SQRT", "RSQRT", "LOG"):
        sample(op, op, [(F, (3, 4), None, 0.1, 5.0)], [(F,)])
    for op, kind in (
        ("ABS", "AbsOptions"), ("NEG", "NegOptions"), ("EXP", "ExpOptions"), ("COS", "CosOptions"), ("SQUARE", "SquareOptions"),
        ("HARD_SWISH", "HardSwishOptions"), ("SIGN", "SignOptions"), ("ZEROS_LIKE", "ZerosLikeOptions"),
    ):  # fmt: skip
        sample(op, op, [x], [(F,)], {}, kind)
    sample("NEG-int32", "NEG", [("int32", (5,))], [("int32",)], {}, "NegOptions")
    for flag in (False, True):
        sample(f"GELU-{flag}", "GELU", [x], [(F,)], {"approximate": flag}, "GeluOptions")
    sample("LEAKY_RELU", "LEAKY_RELU", [x], [(F,)], {"alpha": 0.3}, "LeakyReluOptions")
    sample("PRELU", "PRELU", [(F, (1, 2, 3, 4)), values(rng("a"), F, (1, 1, 4))], [(F,)])
    casts = [
        (F, "int32"),
        ("int32", F),
        ("bool", F),
        (F, "bool"),
        ("int64", "int32"),
        ("int32", "int64"),
        ("uint8", "int32"),
        ("int8", F),
        (F, "float16"),
    ]
    for a, b in casts:
        sample(f"CAST-{a}-{b}", "CAST", [(a, (3, 4))], [(b,)], {}, "CastOptions")
    sample("FAKE_QUANT", "FAKE_QUANT", [x], [(F,)], {"min": -1.3, "max": 2.1, "num_bits": 8}, "FakeQuantOptions")
    few = {"min": 0.0, "max": 2.0, "num_bits": 4}
    sample("FAKE_QUANT-few", "FAKE_QUANT", [x], [(F,)], few, "FakeQuantOptions")
    sample("BITCAST", "BITCAST", [x], [("int32",)], {}, "BitcastOptions")
    sample("DEQUANTIZE-float16", "DEQUANTIZE", [values(rng("h"), "float16", (3, 4))], [(F,)], {}, "DequantizeOptions")


def layers() -> None:
    """Convolutions, products, pooling, normalisation."""
    r = rng("layers")
    for pad in (0, 1):
        for s, d in ((1, 1), (2, 1), (1, 2)):
            conv = {
                "padding": pad,
                "stride_w": s,
                "stride_h": s,
                "dilation_w_factor": d,
                "dilation_h_factor": d,
                "fused_activation_function": s - 1,
            }
            w, b = values(r, F, (4, 3, 2, 3)), values(r, F, (4,))
            sample(f"CONV_2D-{pad}{s}{d}", "CONV_2D", [(F, (2, 7, 8, 3)), w, b], [(F,)], conv, "Conv2DOptions")
            for m in (1, 2):
                w, b = values(r, F, (1, 3, 2, 3 * m)), values(r, F, (3 * m,))
                sample(
                    f"DEPTHWISE-{pad}{s}{d}{m}",
                    "DEPTHWISE_CONV_2D",
                    [(F, (2, 7, 8, 3)), w, b],
                    [(F,)],
                    {**conv, "depth_multiplier": m},
                    "DepthwiseConv2DOptions",
                )
        sample(
            f"CONV_2D-groups{pad}",
            "CONV_2D",
            [(F, (1, 5, 5, 4)), values(r, F, (6, 3, 3, 2)), values(r, F, (6,))],
            [(F,)],
            {"padding": pad, "stride_w": 1, "stride_h": 1},
            "Conv2DOptions",
        )
        n = 9 if pad else 8
        sample(
            f"TRANSPOSE_CONV-{pad}",
            "TRANSPOSE_CONV",
            [i32(1, n, n, 2), values(r, F, (2, 3, 3, 3)), (F, (1, 4, 4, 3))],
            [(F,)],
            {"padding": pad, "stride_w": 2, "stride_h": 2},
            "TransposeConvOptions",
        )
        sample(
            f"TRANSPOSE_CONV-k2{pad}",
            "TRANSPOSE_CONV",
            [i32(1, 8, 8, 2), values(r, F, (2, 2, 2, 3)), (F, (1, 4, 4, 3)), values(r, F, (2,))],
            [(F,)],
            {"padding": pad, "stride_w": 2, "stride_h": 2, "fused_activation_function": 1},
            "TransposeConvOptions",
        )
        three = {"padding": pad, "stride_d": 1, "stride_w": 2, "stride_h": 1}
        sample(
            f"CONV_3D-{pad}",
            "CONV_3D",
            [(F, (1, 4, 5, 6, 2)), values(r, F, (2, 3, 2, 2, 3)), values(r, F, (3,))],
            [(F,)],
            three,
            "Conv3DOptions",
        )
        out = i32(1, 4, 5, 6, 3) if not pad else i32(1, 5, 7, 6, 3)
        sample(
            f"CONV_3D_TRANSPOSE-{pad}",
            "CONV_3D_TRANSPOSE",
            [out, values(r, F, (2, 3, 2, 3, 2)), (F, (1, 4, 5, 3, 2))],
            [(F,)],
            three,
            "Conv3DOptions",
        )
        apart = {**three, "dilation_d_factor": 1, "dilation_h_factor": 2, "dilation_w_factor": 3}
        out = i32(1, 4, 5, 6, 3) if not pad else i32(1, 5, 9, 8, 3)
        sample(
            f"CONV_3D_TRANSPOSE-{pad} dilated",
            "CONV_3D_TRANSPOSE",
            [out, values(r, F, (2, 3, 2, 3, 2)), (F, (1, 4, 5, 3, 2))],
            [(F,)],
            apart,
            "Conv3DOptions",
        )
        pool = {
            "padding": pad,
            "stride_w": 2,
            "stride_h": 2,
            "filter_width": 3,
            "filter_height": 2,
            "fused_activation_function": pad,
        }
        for op in ("MAX_POOL_2D", "AVERAGE_POOL_2D", "L2_POOL_2D"):
            sample(f"{op}-{pad}", op, [(F, (2, 5, 6, 3))], [(F,)], pool, "Pool2DOptions")
    w, b = values(r, F, (5, 6)), values(r, F, (5,))
    sample(
        "FULLY_CONNECTED",
        "FULLY_CONNECTED",
        [(F, (3, 6)), w, b],
        [(F,)],
        {"fused_activation_function": 1},
        "FullyConnectedOptions",
    )
    sample("FULLY_CONNECTED-flat", "FULLY_CONNECTED", [(F, (3, 2, 3)), w, None], [(F,)], {}, "FullyConnectedOptions")
    sample(
        "FULLY_CONNECTED-keep",
        "FULLY_CONNECTED",
        [(F, (2, 3, 6)), w, b],
        [(F,)],
        {"keep_num_dims": True},
        "FullyConnectedOptions",
    )
    for ax in (False, True):
        for ay in (False, True):
            a, c = (2, 1, 4, 3) if ax else (2, 1, 3, 4), (5, 5, 4) if ay else (5, 4, 5)
            sample(
                f"BATCH_MATMUL-{ax}{ay}",
                "BATCH_MATMUL",
                [(F, a), (F, c)],
                [(F,)],
                {"adj_x": ax, "adj_y": ay},
                "BatchMatMulOptions",
            )
    sample("SOFTMAX", "SOFTMAX", [(F, (3, 7))], [(F,)], {"beta": 1.0}, "SoftmaxOptions")
    sample("SOFTMAX-beta", "SOFTMAX", [(F, (2, 3, 7))], [(F,)], {"beta": 0.5}, "SoftmaxOptions")
    sample("SOFTMAX-without-options", "SOFTMAX", [(F, (3, 7))], [(F,)])
    sample("LOG_SOFTMAX", "LOG_SOFTMAX", [(F, (3, 7))], [(F,)], {}, "LogSoftmaxOptions")
    sample("L2_NORMALIZATION", "L2_NORMALIZATION", [(F, (2, 3, 3, 5))], [(F,)], {}, "L2NormOptions")
    sample(
        "LRN",
        "LOCAL_RESPONSE_NORMALIZATION",
        [(F, (1, 3, 3, 8))],
        [(F,)],
        {"radius": 2, "bias": 1.0, "alpha": 0.5, "beta": 0.75},
        "LocalResponseNormalizationOptions",
    )
    for op in ("SUM", "MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
        for keep in (False, True):
            sample(
                f"{op}-{keep}",
                op,
                [(F, (2, 3, 4)), i32(0, -1) if keep else i32(1)],
                [(F,)],
                {"keep_dims": keep},
                "ReducerOptions",
            )
    sample("MEAN-int32", "MEAN", [("int32", (4, 5), None, -9, 9), i32(1)], [("int32",)], {}, "ReducerOptions")
    for op in ("REDUCE_ANY", "REDUCE_ALL"):
        sample(op, op, [("bool", (5, 3)), i32(1)], [("bool",)], {}, "ReducerOptions")
    for op, kind in (("ARG_MAX", "ArgMaxOptions"), ("ARG_MIN", "ArgMinOptions")):
        sample(op, op, [(F, (3, 4, 5)), i32(1)], [("int32",)], {"output_type": 2}, kind)
        sample(f"{op}-64", op, [(F, (3, 4, 5)), i32(-1)], [("int64",)], {"output_type": 4}, kind)
    for e in (False, True):
        for b in (False, True):
            sample(
                f"CUMSUM-{e}{b}",
                "CUMSUM",
                [(F, (3, 5)), i32(1)],
                [(F,)],
                {"exclusive": e, "reverse": b},
                "CumsumOptions",
            )
    sample("SEGMENT_SUM", "SEGMENT_SUM", [(F, (5, 3)), i32(0, 0, 1, 2, 2)], [(F,)], {}, "SegmentSumOptions")
    for op in ("PROD", "MAX", "SUM", "MIN"):
        ids = i32(2, 0, 2, 1, 0) if op != "SUM" else i32(2, 0, -1, 1, 0)
        sample(
            f"UNSORTED_{op}",
            f"UNSORTED_SEGMENT_{op}",
            [(F, (5, 3)), ids, np.array(4, np.int32)],
            [(F,)],
            {},
            f"UnsortedSegment{op.capitalize()}Options",
        )


def movers() -> None:
    """Operators that move elements."""
    x = (F, (2, 3, 4))
    sample("RESHAPE", "RESHAPE", [x, i32(4, -1)], [(F,)], {}, "ReshapeOptions")
    sample("RESHAPE-option", "RESHAPE", [x], [(F,)], {"new_shape": [6, 4]}, "ReshapeOptions")
    sample("SQUEEZE", "SQUEEZE", [(F, (1, 3, 1, 2))], [(F,)], {"squeeze_dims": []}, "SqueezeOptions")
    sample("SQUEEZE-some", "SQUEEZE", [(F, (1, 3, 1, 2))], [(F,)], {"squeeze_dims": [-2]}, "SqueezeOptions")
    sample("EXPAND_DIMS", "EXPAND_DIMS", [x, i32(-1)], [(F,)], {}, "ExpandDimsOptions")
    sample("SHAPE", "SHAPE", [x], [("int32",)], {"out_type": 2}, "ShapeOptions")
    sample("RANK", "RANK", [x], [("int32",)], {}, "RankOptions")
    sample("TRANSPOSE", "TRANSPOSE", [x, i32(2, 0, 1)], [(F,)], {}, "TransposeOptions")
    sample("BROADCAST_TO", "BROADCAST_TO", [(F, (3, 1)), i32(2, 3, 4)], [(F,)], {}, "BroadcastToOptions")
    sample("BROADCAST_ARGS", "BROADCAST_ARGS", [i32(3, 1), i32(2, 1, 4)], [("int32",)])
    sample("TILE", "TILE", [x, i32(2, 1, 3)], [(F,)], {}, "TileOptions")
    sample("FILL", "FILL", [i32(2, 3), np.array(2.5, np.float32)], [(F,)], {}, "FillOptions")
    sample(
        "RANGE",
        "RANGE",
        [np.array(1, np.int32), np.array(9, np.int32), np.array(3, np.int32)],
        [("int32",)],
        {},
        "RangeOptions",
    )
    sample("RANGE-float", "RANGE", [np.array(1, F), np.array(2, F), np.array(0.3, F)], [(F,)], {}, "RangeOptions")
    sample("SLICE", "SLICE", [x, i32(0, 1, 1), i32(2, -1, 2)], [(F,)], {}, "SliceOptions")
    slices = {
        "plain": ((0, 1, 0), (2, 3, 4), (1, 1, 2), {}),
        "negative": ((-1, -2, 0), (2, 3, -1), (1, 1, 1), {}),
        "back": ((1, 2, 3), (-3, 0, 0), (-1, -1, -2), {}),
        "masks": ((1, 1, 1), (1, 2, 3), (1, 1, 1), {"begin_mask": 5, "end_mask": 3}),
        "open-back": ((0, 0, 0), (0, 0, 0), (-1, 1, -1), {"begin_mask": 7, "end_mask": 7}),
        "shrink": ((1, 0, -1), (2, 3, 0), (1, 2, 1), {"shrink_axis_mask": 5}),
        "new": ((0, 1, 0), (2, 2, 3), (1, 1, 1), {"new_axis_mask": 1}),
        "ellipsis": ((0, 1), (2, 3), (1, 1), {"ellipsis_mask": 1}),
        "fewer": ((1,), (2,), (1,), {}),
        "offset": ((0, 1, 1), (1, 2, 2), (1, 1, 1), {"offset": True}),
        "offset-masks": ((1, 1, 1), (1, 2, -2), (1, 1, -1), {"offset": True, "begin_mask": 5, "end_mask": 3}),
        "outside": ((0, 0, -9), (9, 9, 9), (1, 1, 1), {}),
    }
    for name, (b, e, s, masks) in slices.items():
        sample(
            f"STRIDED_SLICE-{name}",
            "STRIDED_SLICE",
            [x, i32(*b), i32(*e), i32(*s)],
            [(F,)],
            masks,
            "StridedSliceOptions",
        )
    sample("REVERSE_V2", "REVERSE_V2", [x, i32(1)], [(F,)], {}, "ReverseV2Options")
    sample(
        "REVERSE_SEQUENCE",
        "REVERSE_SEQUENCE",
        [(F, (3, 4, 2)), i32(2, 4, 1)],
        [(F,)],
        {"seq_dim": 1, "batch_dim": 0},
        "ReverseSequenceOptions",
    )
    for axis, batch in ((0, 0), (1, 0), (-1, 0), (1, 1)):
        sample(
            f"GATHER-{axis}{batch}",
            "GATHER",
            [x, i32([1, 0], [0, 1])],
            [(F,)],
            {"axis": axis, "batch_dims": batch},
            "GatherOptions",
        )
    sample("GATHER_ND", "GATHER_ND", [x, i32([1, 0], [0, 2], [1, 2])], [(F,)], {}, "GatherNdOptions")
    sample("SCATTER_ND", "SCATTER_ND", [i32([1], [3], [1]), (F, (3, 2)), i32(5, 2)], [(F,)], {}, "ScatterNdOptions")
    sample("EMBEDDING_LOOKUP", "EMBEDDING_LOOKUP", [i32(2, 0, 1), values(rng("e"), F, (4, 3))], [(F,)])
    q = (values(rng("e"), "int8", (4, 3)), (0.02, 0))
    sample("EMBEDDING_LOOKUP-int8", "EMBEDDING_LOOKUP", [i32(2, 0, 1), q], [(F,)])
    sample("DYNAMIC_UPDATE_SLICE", "DYNAMIC_UPDATE_SLICE", [x, (F, (1, 2, 4)), ("int32", (3,), None, 0, 2)], [(F,)])
    sample(
        "ONE_HOT",
        "ONE_HOT",
        [("int32", (4,), None, 0, 3), np.array(5, np.int32), np.array(2, F), np.array(-1, F)],
        [(F,)],
        {"axis": -1},
        "OneHotOptions",
    )
    sample(
        "ONE_HOT-axis",
        "ONE_HOT",
        [("int32", (2, 3), None, 0, 3), np.array(4, np.int32), np.array(1, F), np.array(0, F)],
        [(F,)],
        {"axis": 1},
        "OneHotOptions",
    )
    sample(
        "SPARSE_TO_DENSE",
        "SPARSE_TO_DENSE",
        [i32([0, 1], [2, 0]), i32(3, 2), (F, (2,)), np.array(-1, F)],
        [(F,)],
        {},
        "SparseToDenseOptions",
    )
    sample(
        "SPARSE_TO_DENSE-one",
        "SPARSE_TO_DENSE",
        [i32(1, 4), i32(6), np.array(7, F), np.array(0, F)],
        [(F,)],
        {},
        "SparseToDenseOptions",
    )
    sample("SELECT", "SELECT", [("bool", (2, 3, 4)), x, x], [(F,)], {}, "SelectOptions")
    sample("SELECT-rows", "SELECT", [("bool", (2,)), x, x], [(F,)], {}, "SelectOptions")
    sample("SELECT_V2", "SELECT_V2", [("bool", (3, 1)), x, (F, (4,))], [(F,)], {}, "SelectV2Options")
    sample("WHERE", "WHERE", [("bool", (3, 4))], [("int64",)], {}, "WhereOptions")
    sample("CONCATENATION", "CONCATENATION", [x, (F, (2, 1, 4))], [(F,)], {"axis": 1}, "ConcatenationOptions")
    sample("CONCATENATION-back", "CONCATENATION", [x, x], [(F,)], {"axis": -1}, "ConcatenationOptions")
    sample("PACK", "PACK", [x, x], [(F,)], {"values_count": 2, "axis": -1}, "PackOptions")
    sample("UNPACK", "UNPACK", [x], [(F,), (F,), (F,)], {"num": 3, "axis": 1}, "UnpackOptions")
    sample("SPLIT", "SPLIT", [np.array(2, np.int32), x], [(F,), (F,)], {"num_splits": 2}, "SplitOptions")
    sample(
        "SPLIT_V", "SPLIT_V", [x, i32(1, -1), np.array(2, np.int32)], [(F,), (F,)], {"num_splits": 2}, "SplitVOptions"
    )
    sample("PAD", "PAD", [x, i32([0, 0], [1, 2], [3, 0])], [(F,)], {}, "PadOptions")
    sample("PADV2", "PADV2", [x, i32([0, 0], [1, 2], [3, 0]), np.array(1.5, F)], [(F,)], {}, "PadV2Options")
    for mode in (0, 1):
        sample(
            f"MIRROR_PAD-{mode}",
            "MIRROR_PAD",
            [x, i32([0, 0], [1, 2], [2, 0])],
            [(F,)],
            {"mode": mode},
            "MirrorPadOptions",
        )
    sample("SPACE_TO_DEPTH", "SPACE_TO_DEPTH", [(F, (1, 4, 6, 2))], [(F,)], {"block_size": 2}, "SpaceToDepthOptions")
    sample("DEPTH_TO_SPACE", "DEPTH_TO_SPACE", [(F, (1, 2, 3, 8))], [(F,)], {"block_size": 2}, "DepthToSpaceOptions")
    sample(
        "SPACE_TO_BATCH_ND",
        "SPACE_TO_BATCH_ND",
        [(F, (1, 4, 5, 2)), i32(2, 2), i32([0, 0], [1, 0])],
        [(F,)],
        {},
        "SpaceToBatchNDOptions",
    )
    sample(
        "BATCH_TO_SPACE_ND",
        "BATCH_TO_SPACE_ND",
        [(F, (4, 2, 3, 2)), i32(2, 2), i32([0, 0], [1, 0])],
        [(F,)],
        {},
        "BatchToSpaceNDOptions",
    )
    sample("MATRIX_DIAG", "MATRIX_DIAG", [(F, (2, 3))], [(F,)], {}, "MatrixDiagOptions")
    sample("MATRIX_SET_DIAG", "MATRIX_SET_DIAG", [(F, (2, 4, 3)), (F, (2, 3))], [(F,)], {}, "MatrixSetDiagOptions")
    for k in (3, 0):
        given = [(F, (2, 7)), np.array(k, np.int32)]
        sample(f"TOPK_V2 {k}", "TOPK_V2", given, [(F,), ("int32",)], {}, "TopKV2Options")
    sample(
        "UNIQUE",
        "UNIQUE",
        [np.array([3, 1, 3, 2, 1], np.int32)],
        [("int32",), ("int32",)],
        {"idx_out_type": 2},
        "UniqueOptions",
    )
    sample("BUCKETIZE", "BUCKETIZE", [x], [("int32",)], {"boundaries": [-1.0, 0.0, 1.5]}, "BucketizeOptions")


floats()
layers()
movers()
